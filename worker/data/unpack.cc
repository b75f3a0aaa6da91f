#include "worker/data/unpack.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

// Bytes that a call takes and gives at most; zlib counts them with 32 bits.
constexpr size_t kStepBytes = size_t{1} << 18;

// Gathers what `step` appends to the text until it says that nothing is left.
absl::StatusOr<std::string> Gather(uint64_t bytes_max,
                                   const std::function<absl::StatusOr<bool>(std::string*)>& step) {
  std::string text;
  while (true) {
    const absl::StatusOr<bool> more = step(&text);
    if (!more.ok()) return more.status();
    if (text.size() > bytes_max)
      return ResourceExhausted("more than ", bytes_max, " bytes once unpacked");
    if (!*more) return text;
  }
}

absl::StatusOr<std::string> Gunzipped(const std::string& file, uint64_t bytes_max) {
  constexpr int kGzipAlone = 16 + MAX_WBITS;
  z_stream stream = {};
  LONGWAVE_CHECK(inflateInit2(&stream, kGzipAlone) == Z_OK);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ending(&stream, &inflateEnd);
  size_t begin = 0;
  return Gather(bytes_max, [&](std::string* text) -> absl::StatusOr<bool> {
    const size_t had = text->size();
    const size_t given = std::min(kStepBytes, file.size() - begin);
    text->resize(had + kStepBytes);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data() + begin));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(text->data() + had);
    stream.avail_out = static_cast<uInt>(kStepBytes);
    const int result = inflate(&stream, Z_NO_FLUSH);
    begin += given - stream.avail_in;
    text->resize(had + kStepBytes - stream.avail_out);
    if (result == Z_STREAM_END) {
      if (begin == file.size()) return false;
      LONGWAVE_CHECK(inflateReset(&stream) == Z_OK);  // another member follows
      return true;
    }
    if (result == Z_BUF_ERROR && begin == file.size()) return DataLoss("gzip: it is cut short");
    if (result == Z_OK) return true;
    return DataLoss("gzip: ", stream.msg != nullptr ? stream.msg : "damaged", " at byte ", begin);
  });
}

absl::StatusOr<std::string> Unzstded(const std::string& file, uint64_t bytes_max) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        &ZSTD_freeDStream);
  LONGWAVE_CHECK(stream != nullptr);
  ZSTD_inBuffer in = {file.data(), file.size(), 0};
  return Gather(bytes_max, [&](std::string* text) -> absl::StatusOr<bool> {
    const size_t had = text->size();
    text->resize(had + kStepBytes);
    ZSTD_outBuffer out = {text->data() + had, kStepBytes, 0};
    const size_t result = ZSTD_decompressStream(stream.get(), &out, &in);
    text->resize(had + out.pos);
    if (ZSTD_isError(result) != 0)
      return DataLoss("zstd: ", ZSTD_getErrorName(result), " at byte ", in.pos);
    if (result == 0 && in.pos == in.size) return false;
    if (in.pos < in.size || out.pos == kStepBytes) return true;
    return DataLoss("zstd: it is cut short");
  });
}

}  // namespace

absl::StatusOr<std::string> Unpacked(std::string file, uint64_t bytes_max) {
  if (file.starts_with("\x1f\x8b\x08")) return Gunzipped(file, bytes_max);
  if (file.starts_with("\x28\xb5\x2f\xfd")) return Unzstded(file, bytes_max);
  return file;
}

}  // namespace longwave

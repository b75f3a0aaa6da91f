// Snapshot files: the reader must not crash, read out of bounds or reserve more than its limit, and
// decoded files are canonical. Every input is also tried with correct checksums and hashes.

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "server/store/snapshot_content.h"
#include "server/store/snapshot_format.h"

namespace longwave {
namespace {

constexpr uint64_t kContentBytesMax = 1 << 20;

void Contents(const SnapshotHeader& header, const Buffer& content) {
  const uint32_t segments = std::min<uint32_t>(header.key.segment_count, 1 << 16);
  if (header.key.kind == SnapshotKind::kModel) {
    const auto model = DecodeModelContent(content, segments);
    if (!model.ok()) return;
    const Buffer again = EncodeModelContent(*model);
    LONGWAVE_CHECK(std::ranges::equal(again.bytes(), content.bytes()));
  } else {
    const auto state = DecodeStateContent(content, segments);
    if (!state.ok()) return;
    const auto again = EncodeStateContent(*state);
    LONGWAVE_CHECK(again.ok() && std::ranges::equal(again->bytes(), content.bytes()));
  }
}

void Read(const std::vector<std::byte>& file) {
  const std::span<const std::byte> bytes = file;
  const auto header =
      DecodeSnapshotHeader(bytes.first(std::min(bytes.size(), kSnapshotHeaderBytes)));
  if (!header.ok()) {
    LONGWAVE_CHECK(!header.status().message().empty());
    return;
  }
  LONGWAVE_CHECK(
      std::ranges::equal(EncodeSnapshotHeader(*header), bytes.first(kSnapshotHeaderBytes)));
  if (header->content_bytes > kContentBytesMax) return;
  const auto stored = bytes.subspan(kSnapshotHeaderBytes);
  const auto content =
      UnpackSnapshotContent(*header, Buffer(std::vector<std::byte>(stored.begin(), stored.end())));
  if (!content.ok()) return;
  LONGWAVE_CHECK(content->size() == header->content_bytes);
  Contents(*header, *content);
}

std::vector<std::byte> PutRight(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  if (file.size() < kSnapshotHeaderBytes) return file;
  const auto stored = std::span<const std::byte>(file).subspan(kSnapshotHeaderBytes);
  SnapshotHeader header;
  header.key.kind = static_cast<SnapshotKind>(1 + std::to_integer<int>(file[6]) % 2);
  header.key.segment_count = 1 + std::to_integer<uint32_t>(file[32]) % 16;
  header.stored_bytes = stored.size();
  header.stored_hash = HashContent(stored);
  header.compression = static_cast<Compression>(std::to_integer<int>(file[7]) % 2);
  if (header.compression == Compression::kNone) {
    header.content_bytes = header.stored_bytes;
    header.content_hash = header.stored_hash;
  } else {
    header.content_bytes = LoadLe<uint64_t>(file.data() + 48) % (2 * kContentBytesMax);
    header.content_hash = LoadLe<uint64_t>(file.data() + 64);
  }
  std::ranges::copy(EncodeSnapshotHeader(header), file.begin());
  return file;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  Read({input.begin(), input.end()});
  Read(PutRight(input));
  return 0;
}

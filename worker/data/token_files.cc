#include "worker/data/token_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/data/data_files.h"
#include "worker/data/file_form.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr uint64_t kShardHeaderBytes = 256 * sizeof(int32_t);

// The file's bytes; null for an empty file.
absl::StatusOr<std::shared_ptr<const void>> Map(const std::string& path, uint64_t* size) {
  const auto error = [&] {
    return FileError(path, std::error_code(errno, std::generic_category()));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error();
  const std::shared_ptr<const void> closer(nullptr, [fd](const void*) { ::close(fd); });
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return error();
  *size = static_cast<uint64_t>(status.st_size);
  if (*size == 0) return nullptr;
  void* const memory = ::mmap(nullptr, *size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return error();
  return std::shared_ptr<const void>(
      memory, [bytes = *size](const void* m) { ::munmap(const_cast<void*>(m), bytes); });
}

// Bytes of a token by Megatron's index beside `path`; raw_width where there is none.
absl::StatusOr<uint32_t> WidthBeside(const std::string& path, uint32_t raw_width) {
  static constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
  constexpr size_t kTypeAt = kMagic.size() + sizeof(uint64_t);  // behind the version
  const std::string index = std::filesystem::path(path).replace_extension(".idx").string();
  std::string head(kTypeAt + 1, '\0');
  std::ifstream file(index, std::ios::binary);
  if (!file.read(head.data(), static_cast<std::streamsize>(head.size())) ||
      !head.starts_with(kMagic))
    return raw_width;
  switch (head[kTypeAt]) {
    case 4:
      return sizeof(int32_t);
    case 8:
      return sizeof(uint16_t);
    default:
      return InvalidArgument("data: ", index, ": got tokens of Megatron's type ",
                             static_cast<int>(head[kTypeAt]),
                             ", wanted 8 (16 bits without a sign) or 4 (32 bits)");
  }
}

}  // namespace

absl::StatusOr<TokenPiece> MapTokens(const std::string& path, uint32_t raw_width) {
  uint64_t size = 0;
  TokenPiece piece{.path = path};
  LONGWAVE_ASSIGN_OR_RETURN(piece.width, WidthBeside(path, raw_width));
  LONGWAVE_ASSIGN_OR_RETURN(piece.owner, Map(path, &size));
  piece.bytes = static_cast<const std::byte*>(piece.owner.get());
  const auto unfit = [&](const std::string& what) {
    return InvalidArgument("data: ", path, ": ", what);
  };
  LONGWAVE_RETURN_IF_ERROR(CheckTokens(
      path, {reinterpret_cast<const char*>(piece.bytes), std::min(size, kFormHeadBytes)},
      piece.width));
  std::array<int32_t, 3> head = {};
  if (size >= kShardHeaderBytes) std::memcpy(head.data(), piece.bytes, sizeof(head));
  if (head[0] == kLlmcShard || head[0] == kLlmcLlama3Shard) {
    const bool is_llama3 = head[0] == kLlmcLlama3Shard;
    const int32_t version = is_llama3 ? 7 : 1;
    piece.width = is_llama3 ? sizeof(uint32_t) : sizeof(uint16_t);
    piece.bytes += kShardHeaderBytes;
    size -= kShardHeaderBytes;
    if (head[1] != version) {
      return unfit(
          absl::StrCat("got a shard of llm.c of version ", head[1], ", wanted version ", version));
    }
    if (head[2] < 0 || uint64_t{piece.width} * static_cast<uint64_t>(head[2]) != size) {
      return unfit(absl::StrCat("got ", size, " bytes after its header, wanted those of the ",
                                head[2], " tokens that it counts"));
    }
  }
  if (size % piece.width != 0) {
    return unfit(absl::StrCat("got ", size, " bytes, wanted whole tokens of ", piece.width,
                              " bytes (data.token_type)"));
  }
  piece.count = size / piece.width;
  return piece;
}

void ReadAtRandom(const TokenPiece& piece) {
  const auto* const begin = static_cast<const std::byte*>(piece.owner.get());
  const auto size = static_cast<size_t>(piece.bytes + piece.count * piece.width - begin);
  ::madvise(const_cast<std::byte*>(begin), size, MADV_RANDOM);
}

}  // namespace longwave

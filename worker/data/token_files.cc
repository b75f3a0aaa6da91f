#include "worker/data/token_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr int32_t kShardMagic = 20240520;
constexpr int32_t kShardVersion = 1;
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
  ::madvise(memory, *size, MADV_RANDOM);  // windows are far apart
  return std::shared_ptr<const void>(
      memory, [bytes = *size](const void* m) { ::munmap(const_cast<void*>(m), bytes); });
}

}  // namespace

absl::StatusOr<TokenPiece> MapTokens(const std::string& path, uint32_t raw_width) {
  uint64_t size = 0;
  TokenPiece piece{.path = path, .width = raw_width};
  LONGWAVE_ASSIGN_OR_RETURN(piece.owner, Map(path, &size));
  piece.bytes = static_cast<const std::byte*>(piece.owner.get());
  const auto unfit = [&](const std::string& what) {
    return InvalidArgument("data: ", path, ": ", what);
  };
  std::array<int32_t, 3> head = {};
  if (size >= kShardHeaderBytes) std::memcpy(head.data(), piece.bytes, sizeof(head));
  if (head[0] == kShardMagic) {
    piece.width = sizeof(uint16_t);
    piece.bytes += kShardHeaderBytes;
    size -= kShardHeaderBytes;
    if (head[1] != kShardVersion) {
      return unfit(absl::StrCat("got a shard of llm.c of version ", head[1], ", wanted version ",
                                kShardVersion));
    }
    if (head[2] < 0 || uint64_t{piece.width} * static_cast<uint64_t>(head[2]) != size) {
      return unfit(absl::StrCat("got ", size, " bytes after its header, wanted those of the ",
                                head[2], " tokens that it tells of"));
    }
  }
  if (size % piece.width != 0) {
    return unfit(absl::StrCat("got ", size, " bytes, wanted whole tokens of ", piece.width,
                              " bytes (data.token_type)"));
  }
  piece.count = size / piece.width;
  return piece;
}

}  // namespace longwave

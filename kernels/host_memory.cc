#include "kernels/host_memory.h"

#include <cstdlib>
#include <cstring>

#include "common/base/errors.h"
#include "common/base/memory.h"

namespace longwave {

absl::Status CopyHost(const Exec&, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (to == nullptr || from == nullptr) {
    return InvalidArgument("copy of ", bytes, " bytes: an array is null");
  }
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::StatusOr<void*> AllocateHost(size_t bytes) {
  constexpr size_t kAlignment = 256;
  // Above this limit rounding up would wrap, and no allocator has so much.
  constexpr size_t kBytesMax = PTRDIFF_MAX - kHugePageBytes;
  void* memory = nullptr;
  if (bytes <= kBytesMax) {
    const size_t alignment = bytes >= 2 * kHugePageBytes ? kHugePageBytes : kAlignment;
    const size_t rounded = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
    memory = std::aligned_alloc(alignment, rounded);
  }
  if (memory == nullptr) return ResourceExhausted("no memory for an array of ", bytes, " bytes");
  PreferHugePages(memory, bytes);
  std::memset(memory, 0, bytes);
  return memory;
}

void ReleaseHost(void* memory) { std::free(memory); }

}  // namespace longwave

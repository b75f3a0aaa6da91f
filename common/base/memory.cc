#include "common/base/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "common/base/cgroup.h"
#include "common/base/errors.h"

namespace longwave {

absl::StatusOr<MachineMemory> ReadMachineMemory() {
  std::ifstream meminfo("/proc/meminfo");
  MachineMemory memory;
  std::string key, rest;
  double kibibytes = 0;
  while (meminfo >> key >> kibibytes && std::getline(meminfo, rest)) {
    if (key == "MemTotal:") memory.total_bytes = kibibytes * 1024;
    if (key == "MemAvailable:") memory.available_bytes = kibibytes * 1024;
  }
  if (memory.total_bytes <= 0 || memory.available_bytes <= 0) {
    return Unavailable("memory: /proc/meminfo gives no MemTotal and MemAvailable, wanted both");
  }
  // /proc/meminfo of a container shows the whole machine.
  if (const auto group = ReadCgroupMemory(); group.has_value()) {
    memory.total_bytes = std::min(memory.total_bytes, group->total_bytes);
    memory.available_bytes = std::min(memory.available_bytes, group->available_bytes);
  }
  return memory;
}

void PreferHugePages(void* memory, size_t bytes) {
  // Only whole pages inside the array: the rest of its first and last page belongs to others.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes) / page * page;
  if (bytes < kHugePageBytes || end <= begin) return;
  char* const first = static_cast<char*>(memory) + (begin - address);
  static_cast<void>(madvise(first, end - begin, MADV_HUGEPAGE));
}

void KeepFreedMemory() {
#if defined(__GLIBC__)
  for (const char* name :
       {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    if (std::getenv(name) != nullptr) return;
  }
  // Larger blocks, which are models' vectors and not frames, come from the system and return to it.
  // 32 MiB is also the allocator's maximum.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  // A thread's arena consists of heaps of 64 MiB and frees each empty heap whatever the threshold
  // is, unless the top pad is as large.
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace longwave

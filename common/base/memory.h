#ifndef LONGWAVE_COMMON_BASE_MEMORY_H_
#define LONGWAVE_COMMON_BASE_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace longwave {

struct MachineMemory {
  double available_bytes = 0;  // without swapping: MemAvailable of /proc/meminfo
  double total_bytes = 0;      // MemTotal
};

// The machine's memory, or less where a control group leaves this process less (cgroup_memory.h).
// Unavailable: the machine does not report its memory.
absl::StatusOr<MachineMemory> ReadMachineMemory();

// Requests huge pages for an array that was not touched yet: a pass over distant rows then needs
// fewer entries of the processor's TLB. Has no effect where the system refuses.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
void PreferHugePages(void* memory, size_t bytes);

// For a program's first line: makes malloc keep freed memory. Otherwise the system would clear each
// page again before the next frame of a megabyte. The process then holds its peak of memory.
// malloc's settings from the environment take precedence.
void KeepFreedMemory();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_MEMORY_H_

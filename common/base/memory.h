#ifndef LONGWAVE_COMMON_BASE_MEMORY_H_
#define LONGWAVE_COMMON_BASE_MEMORY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

struct MachineMemory {
  double available_bytes = 0;  // what it can give without swapping: MemAvailable of /proc/meminfo
  double total_bytes = 0;      // MemTotal
};

// Less where a control group leaves this process less (cgroup_memory.h). Unavailable: the machine
// does not say.
absl::StatusOr<MachineMemory> ReadMachineMemory();

// Asks the system to back an array that was not touched yet by huge pages, of which a pass over
// rows that lie far apart needs fewer than the processor remembers. Where it refuses, nothing
// changes.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
void PreferHugePages(void* memory, size_t bytes);

// For a program's first line: memory that it frees stays with it instead of going back to the
// system, which would clear it, page by page, before the next frame of a megabyte is there. What
// the program holds is then the most that it ever held at a time. A setting of malloc's from the
// environment stays as it is.
void KeepFreedMemory();

// A few digits and a decimal prefix: "12.3 G", "980 M", "12".
std::string CountText(double count);
std::string BytesText(double bytes);  // "12.3 GB", "12 B"

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_MEMORY_H_

#ifndef LONGWAVE_COMMON_BASE_MEMORY_H_
#define LONGWAVE_COMMON_BASE_MEMORY_H_

#include <string>

#include "absl/status/statusor.h"

namespace longwave {

struct MachineMemory {
  double available_bytes = 0;  // what it can give without swapping: MemAvailable of /proc/meminfo
  double total_bytes = 0;      // MemTotal
};

// Unavailable: the machine does not say.
absl::StatusOr<MachineMemory> ReadMachineMemory();

// A few digits and a decimal prefix: "12.3 G", "980 M", "12".
std::string CountText(double count);
std::string BytesText(double bytes);  // "12.3 GB", "12 B"

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_MEMORY_H_

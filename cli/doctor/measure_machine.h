#ifndef LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_
#define LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/doctor/readings.h"

namespace longwave {

// The readings of this machine. Each takes seconds at most.

// Reads /sys, /proc and the driver's own libcuda.so.1, if present.
DriverReading MeasureDriver();
// Runs `<binaries>/longwave-worker --check-device <device>`. Errors: Unavailable, with the system
// loader's reason (the program does not start).
absl::StatusOr<WorkerReading> MeasureWorker(const std::string& binaries, const std::string& device);
// Writes and removes a file in the folder or, if that is missing, in its nearest ancestor.
absl::StatusOr<DiskReading> MeasureDisk(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_

#ifndef LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_
#define LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/doctor/readings.h"

namespace longwave {

// The readings of this machine. Each takes seconds at most.

// By /sys, /proc and the driver's own libcuda.so.1, which is loaded if it is there.
DriverReading MeasureDriver();
// Runs `<binaries>/longwave-worker --check-device <device>`. Unavailable: it does not start; says
// why, as the system's loader does.
absl::StatusOr<WorkerReading> MeasureWorker(const std::string& binaries, const std::string& device);
// Writes and removes a file in the folder, or, where that is not there, in the nearest folder above
// it.
absl::StatusOr<DiskReading> MeasureDisk(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_MEASURE_MACHINE_H_

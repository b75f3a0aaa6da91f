#ifndef LONGWAVE_CLI_DOCTOR_MEASURE_H_
#define LONGWAVE_CLI_DOCTOR_MEASURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
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

// The shortest connect time of `tries` TCP connections to "host:port". Errors: Unavailable, with
// the reason (all failed).
absl::StatusOr<absl::Duration> MeasureConnection(const std::string& address, int tries);

// Measures the links to a coordinator and its shards. credentials: a member's folder; empty: none,
// which shows little of a secured run. Connects once to each shard's data port, which the shard
// counts as a closed connection, not as an intruder's.
CoordinatorReading MeasureCoordinator(const std::string& address, const std::string& credentials);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_MEASURE_H_

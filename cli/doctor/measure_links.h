#ifndef LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_
#define LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/doctor/readings.h"

namespace longwave {

// The shortest connect time of `tries` TCP connections to "host:port". Errors: Unavailable, with
// the reason (all failed).
absl::StatusOr<absl::Duration> MeasureConnection(const std::string& address, int tries);

// Measures the links to a coordinator and its shards. credentials: a member's folder; empty: none,
// which shows little of a secured run. Connects once to each shard's data port, which the shard
// counts as a closed connection, not as an intruder's.
CoordinatorReading MeasureCoordinator(const std::string& address, const std::string& credentials);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_

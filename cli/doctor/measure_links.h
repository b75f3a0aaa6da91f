#ifndef LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_
#define LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/doctor/readings.h"

namespace longwave {

// The shortest time that one of `tries` TCP connections to "host:port" took to stand.
// Unavailable: none did; says why.
absl::StatusOr<absl::Duration> MeasureConnection(const std::string& address, int tries);

// Everything between here and a coordinator and its shards. credentials: a folder of a member's;
// empty: none are there, and of a secured run little is learnt. A shard's data port is connected to
// once: its door counts that as a connection that was closed, which is no intruder's.
CoordinatorReading MeasureCoordinator(const std::string& address, const std::string& credentials);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_MEASURE_LINKS_H_

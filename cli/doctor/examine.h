#ifndef LONGWAVE_CLI_DOCTOR_EXAMINE_H_
#define LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#include <optional>
#include <string>

#include "cli/doctor/readings.h"
#include "common/config/run_config.h"

namespace longwave {

// Who is to be examined: this machine, and what is known of the run that it takes part in.
struct Patient {
  std::string binaries;             // folder of longwave-worker
  std::string state_dir = ".";      // where checkpoints go
  std::string coordinator;          // host:port; empty: no links are measured
  std::string credentials;          // folder of a member's; empty: none
  std::optional<RunConfig> config;  // with this machine's own device and data
};

// Takes all readings, one after the other, so that none disturbs another.
Readings Examine(const Patient& patient);

// What a worker of the run asks of a machine.
Needs NeedsOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#ifndef LONGWAVE_CLI_DOCTOR_EXAMINE_H_
#define LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#include <optional>
#include <string>

#include "cli/doctor/readings.h"
#include "common/config/run_config.h"

namespace longwave {

// The machine to examine, and the known facts of its run.
struct Patient {
  std::string binaries;             // folder of longwave-worker
  std::string state_dir = ".";      // the folder of checkpoints
  std::string coordinator;          // host:port; empty: no links are measured
  std::string credentials;          // folder of a member's; empty: none
  std::optional<RunConfig> config;  // with this machine's own device and data
};

// Takes all readings one after the other, so that none disturbs another.
Readings Examine(const Patient& patient, const Needs& needs);

// The requirements of a worker of the run.
Needs NeedsOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#ifndef LONGWAVE_CLI_DOCTOR_EXAMINE_H_
#define LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/checks.h"
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
  std::string data;                 // requested; empty: the run's. For a machine without config
  std::string device;               // requested; empty: the run's, or auto
};

// Takes all readings one after the other, so that none disturbs another, and checks them.
std::vector<Finding> Examine(const Patient& patient);

// Finds what is not well with this machine for `longwave up`, which has all workers of the run
// here. Workers themselves check whether their memory is there. folder: for the runs; empty:
// nothing is kept. binaries: as Patient's; empty: the workers are a command, of which nothing is
// known.
std::vector<Finding> ExamineForUp(const RunConfig& config, const std::string& folder,
                                  const std::string& binaries);

// The requirements of a worker of the run.
Needs NeedsOf(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DOCTOR_EXAMINE_H_

#ifndef LONGWAVE_CLI_UP_H_
#define LONGWAVE_CLI_UP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

struct UpOptions {
  std::string config_file;             // empty: the defaults
  std::vector<std::string> overrides;  // key=value
  std::optional<std::string> data;     // stands for data.path, if given
  // The workers' command instead of longwave-worker; see ParseWorkerCommand. The workers then
  // provide the model (model.kind external, run.start member) and the data.
  std::optional<std::string> worker_command;
  std::string name;  // stands for run.name; empty: as configured
  std::string runs_dir = "runs";
  std::string resume;  // the run to resume, as for FindRunFolder; empty: a new one
  bool plain = false;
  bool no_state = false;  // processes keep no state; a killed process ends the run
};

// `longwave up`: a whole cluster on this machine, from start to end. The first signal parks a run
// that keeps state, and stops another; the next one kills the rest at once. Returns the exit
// status: 0 for a finished run (with equal replicas, if the method promises them), 1 for one that
// failed or was stopped from elsewhere, 128 plus the signal for one that a signal ended.
int RunUp(const UpOptions& options);

// Checks a run before its processes start: the data exist and are long enough, and the model can be
// laid out. A run that fails here leaves no folder and may be repeated under the
// same name. The processes check too, since they may run elsewhere.
absl::Status CheckRun(const RunConfig& config);

// The configuration for the run's processes, checked by CheckRun. Paths of
// data do not depend on the working folder.
absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options);

// The coordinator's listen address: as configured, unless that is the default, whose fixed port
// would permit only one run at a time on this machine.
std::string ListenAddress(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_UP_H_

#ifndef LONGWAVE_CLI_UP_H_
#define LONGWAVE_CLI_UP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/live/live_server.h"
#include "cli/run_folder.h"
#include "common/config/run_config.h"
#include "worker/data/corpus.h"

namespace longwave {

struct UpOptions {
  std::string config_file;             // empty: the defaults
  std::vector<std::string> overrides;  // key=value
  std::optional<std::string> data;     // stands for data.path, if given
  // The workers' command instead of longwave-worker; see ParseWorkerCommand. The workers then
  // provide the model (model.kind external, run.start member) and the data.
  std::optional<std::string> worker_command;
  std::string start_from;  // weights that the run begins with; empty: drawn from run.seed
  std::string name;        // stands for run.name; empty: as configured
  std::string runs_dir = "runs";
  std::string resume;  // the run to resume, as for FindRunFolder; empty: a new one
  bool plain = false;
  WebOptions web;
  bool no_state = false;  // processes keep no state; a killed process ends the run
};

// `longwave up`: a whole cluster on this machine, from start to end. The first signal parks a run
// that keeps state, and stops another; the next one kills the rest at once. Returns the exit
// status: 0 for a finished run (with equal replicas, if the method promises them), 1 for one that
// failed or was stopped from elsewhere, 128 plus the signal for one that a signal ended.
int RunUp(const UpOptions& options);

// Checks a run before its processes start: the data are what it can be trained on, which `data`
// describes, and the model can be laid out. A run that fails here leaves no folder and
// may be repeated under the same name. The processes check too, since they may run elsewhere.
absl::Status CheckRun(const RunConfig& config, DataReport* data);
// The model's part of it.
absl::Status CheckModel(const RunConfig& config);

// Whether the model of a configuration can begin with the weights of a file or folder. Prints a
// warning if they are of a model that computes otherwise.
absl::Status CheckStart(const std::string& start_from, const RunConfig& config);

// The configuration for the run's processes, checked by CheckRun. Paths of
// data do not depend on the working folder. data: as CheckRun's; empty if the workers have their
// own.
absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options, DataReport* data);

// Whether this machine can hold the run (ExamineForUp). Prints what is not well but may do.
absl::Status CheckMachine(const RunConfig& config, const std::string& folder,
                          const std::string& binaries);

// Says what is trained on, and whether a run that goes on had other data before. Keeps their hash.
absl::Status TellData(const RunFolder& folder, const DataReport& data);

// Whether a run of these settings can go on in the folder; the coordinator would refuse another
// after the folder's configuration is overwritten. A larger run.steps makes a run longer, and a
// printed line says what that does to the learning rate. overrides: key=value, as `config` was read
// with. Errors: FailedPrecondition; DataLoss: the file, which has no checksum and is written again,
// was read wrong.
absl::Status CheckSameRun(const RunFolder& folder, const std::vector<std::string>& overrides,
                          const RunConfig& config);

// The coordinator's listen address: as configured, unless that is the default, whose fixed port
// would permit only one run at a time on this machine.
std::string ListenAddress(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_UP_H_

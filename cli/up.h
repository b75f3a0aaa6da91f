#ifndef LONGWAVE_CLI_UP_H_
#define LONGWAVE_CLI_UP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

struct UpOptions {
  std::string config_file;             // empty: the defaults
  std::vector<std::string> overrides;  // key=value
  std::optional<std::string> data;     // stands for data.path, if given
  // The command that workers are instead of longwave-worker; see ParseWorkerCommand. The run's
  // model is the workers' then (model.kind external, run.start member), and so are their data.
  std::optional<std::string> worker_command;
  std::string name;  // stands for run.name; empty: as configured
  std::string runs_dir = "runs";
  bool plain = false;
  bool no_state = false;  // nothing is kept, and a process that is killed ends the run
};

// `longwave up`: a whole cluster on this machine, from its start to its end. Returns the exit
// status: 0 for a run that finished (with equal replicas, where the method promises them), 1 for
// one that failed, 128 and the signal for one that a signal has stopped.
int RunUp(const UpOptions& options);

// The configuration that the run's processes read, checked as far as it can be before they start
// (see CheckRun). Its data is named in a way that does not depend on the working folder.
absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options);

// Where the coordinator listens: as configured, unless that is the default, whose fixed port would
// let only one run at a time have this machine.
std::string ListenAddress(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_UP_H_

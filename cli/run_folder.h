#ifndef LONGWAVE_CLI_RUN_FOLDER_H_
#define LONGWAVE_CLI_RUN_FOLDER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"

namespace longwave {

// Everything that a run leaves behind, in one folder:
//   config.yaml         resolved and complete: `longwave up` of it does the same again
//   metrics.jsonl       a line a round (coordinator)
//   model.safetensors   the final weights (the validating worker), and config.json, which describes
//                       them to Hugging Face's transformers
//   summary.json        what it came to
//   prometheus-targets.json  where each process serves its metrics (docs/running.md)
//   security/<process>/ its credentials, in a secured run (docs/security.md)
//   logs/<process>.log  standard error of each process
//   state/<process>/    what the process needs to go on after a crash (unless up --no-state)
class RunFolder {
 public:
  // Makes <runs_dir>/<run.name>, or <runs_dir>/<preset>-<YYYYmmdd-HHMMSS> for a run without a name,
  // with -2, -3, … after it where a run of the same second has that. The folder is this run's
  // alone: of two that ask at once, one is refused. AlreadyExists: there is something in it.
  // Unavailable: the folder cannot be made.
  static absl::StatusOr<RunFolder> Create(const std::string& runs_dir, const RunConfig& config,
                                          absl::Time now);

  const std::string& path() const { return path_; }
  std::string config_file() const { return path_ + "/config.yaml"; }
  std::string summary_file() const { return path_ + "/summary.json"; }
  std::string targets_file() const { return path_ + "/prometheus-targets.json"; }
  std::string name() const;  // the folder's own, which is the run's
  std::string security_folder() const { return path_ + "/security"; }
  std::string metrics_file() const { return path_ + "/metrics.jsonl"; }
  std::string model_file() const { return path_ + "/model.safetensors"; }
  std::string log_file(const std::string& process) const;
  // A process makes its own when it starts.
  std::string state_folder(const std::string& process) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// The folder's name for a run.
std::string RunName(const RunConfig& config, absl::Time now);

// Writes a file under a temporary name beside it and renames it: readers see all of it or nothing.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);
// Whether that can be expected to succeed: path is no folder, and the temporary file can be made.
absl::Status CheckWritable(const std::string& path);

}  // namespace longwave

#endif  // LONGWAVE_CLI_RUN_FOLDER_H_

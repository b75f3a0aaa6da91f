#ifndef LONGWAVE_CLI_RUN_FOLDER_H_
#define LONGWAVE_CLI_RUN_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "server/store/file_system.h"

namespace longwave {

// The files of a run, in one folder, which one `longwave up` has for itself while this object
// lives:
//   config.yaml         resolved and complete: `longwave up` of it repeats the run
//   metrics.jsonl       one line a round (coordinator)
//   model.safetensors   the final weights (the validating worker), and config.json, which describes
//                       them to Hugging Face's transformers
//   summary.json        the results
//   coordinator-address  where the coordinator listens, while the run runs
//   prometheus-targets.json  each process's address for metrics (docs/reference/run-folder.md)
//   security/<process>/ the process's credentials, in a secured run (docs/reference/security.md)
//   logs/<process>.log  standard error of each process
//   state/<process>/    the process's state for a restart (unless up --no-state)
//   data-hash           of the data that were trained on, by which other ones are noticed
//   lock                held by the `longwave up` that works in the folder
class RunFolder {
 public:
  // Makes <runs_dir>/<run.name>, or <runs_dir>/<preset>-<YYYYmmdd-HHMMSS> for a run without a name,
  // with -2, -3, … appended on a collision. One of two concurrent calls for a folder fails. Errors:
  // AlreadyExists (the folder is not empty), Unavailable (the folder cannot be made or locked).
  static absl::StatusOr<RunFolder> Create(const std::string& runs_dir, const RunConfig& config,
                                          absl::Time now);

  // Opens the folder of a run that can resume: a parked one, or one whose `up` was killed. Errors:
  // NotFound (no run of `longwave up`, or one without state), FailedPrecondition (the run has
  // ended), Unavailable (another `longwave up` works in the folder).
  static absl::StatusOr<RunFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string config_file() const { return path_ + "/config.yaml"; }
  std::string data_hash_file() const { return path_ + "/data-hash"; }
  std::string summary_file() const { return path_ + "/summary.json"; }
  static constexpr char kAddressFile[] = "/coordinator-address";
  std::string address_file() const { return path_ + kAddressFile; }
  std::string targets_file() const { return path_ + "/prometheus-targets.json"; }
  std::string name() const;  // the folder's last component, which is the run's
  std::string security_folder() const { return path_ + "/security"; }
  std::string model_file() const { return path_ + "/model.safetensors"; }
  std::string log_file(const std::string& process) const;
  // Each process makes its own folder at its start.
  std::string state_folder(const std::string& process) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  static absl::StatusOr<RunFolder> Lock(RunFolder folder);

  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

// Whether what is at `path` can be read; OK where nothing is there. Errors: PermissionDenied and
// others, with the reason: what may not be read is not missing.
absl::Status CheckReadable(const std::string& path);

// The folder of a run, given by its path or by its name in runs_dir.
std::string FindRunFolder(const std::string& run, const std::string& runs_dir);

// The folder's name for a run.
std::string RunName(const RunConfig& config, absl::Time now);

}  // namespace longwave

#endif  // LONGWAVE_CLI_RUN_FOLDER_H_

#ifndef LONGWAVE_CLI_JOIN_JOINED_FOLDER_H_
#define LONGWAVE_CLI_JOIN_JOINED_FOLDER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// The machine's place in a run.
struct Joined {
  std::string coordinator;  // host:port
  std::string name;         // the worker's
  bool operator==(const Joined&) const = default;
};

// A machine's files of a run, in one folder:
//   join.json      the coordinator's address and the worker's name
//   config.yaml    the run's configuration, as the coordinator gave it
//   security/      the worker's credentials
//   worker/        the worker's state: its identity and its checkpoints
//   model.safetensors, at the end, if this worker writes the weights
class JoinedFolder {
 public:
  explicit JoinedFolder(std::string path) : path_(std::move(path)) {}

  // $STATE_DIRECTORY, which systemd gives a service, or else <base>/HOST-PORT, where base is
  // /var/lib/longwave for root and ~/.longwave for others.
  static JoinedFolder Default(const std::string& coordinator);

  const std::string& path() const { return path_; }
  std::string config_file() const { return path_ + "/config.yaml"; }
  std::string security_folder() const { return path_ + "/security"; }
  std::string worker_folder() const { return path_ + "/worker"; }

  // nullopt if the machine has not joined. Errors: InvalidArgument (a malformed join.json).
  absl::StatusOr<std::optional<Joined>> Load() const;
  // Makes the folder, for its owner alone, unless it exists.
  absl::Status Save(const Joined& joined, const std::string& configuration) const;

 private:
  std::string joined_file() const { return path_ + "/join.json"; }

  std::string path_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_JOINED_FOLDER_H_

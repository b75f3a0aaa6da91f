#ifndef LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_
#define LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/run_config.h"

namespace longwave {

// The credentials of a secured run of `longwave up`, in a folder of the run: authority/,
// coordinator/, shard-0/, …, worker-0/, …, and operator/ for `up` itself and for people.
class ClusterCredentials {
 public:
  ClusterCredentials() = default;  // the run is not secured
  // folder: the parent of all credentials; empty: the run is not secured.
  explicit ClusterCredentials(std::string folder) : folder_(std::move(folder)) {}

  bool is_on() const { return !folder_.empty(); }
  // Makes an authority unless one exists, and each process's key and certificate.
  absl::Status Make(const RunConfig& config) const;

  // A process's arguments: security.mode and the credentials' folder.
  std::vector<std::string> ArgumentsOf(const std::string& process) const;
  // The folder of a process's credentials in a secured run.
  std::string FolderOf(const std::string& process) const;
  std::string operator_folder() const;  // empty: not secured

 private:
  std::string folder_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_

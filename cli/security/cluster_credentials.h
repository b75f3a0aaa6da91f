#ifndef LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_
#define LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/run_config.h"

namespace longwave {

// What the processes of `longwave up` show each other in a secured run, in a folder of the run's:
// authority/, coordinator/, shard-0/, …, worker-0/, …, and operator/ for `up` itself and for
// people.
class ClusterCredentials {
 public:
  ClusterCredentials() = default;  // the run is not secured
  // folder: of all of them; empty: as above.
  explicit ClusterCredentials(std::string folder) : folder_(std::move(folder)) {}

  bool is_on() const { return !folder_.empty(); }
  // An authority, and each process's key and certificate.
  absl::Status Make(const RunConfig& config) const;

  // A process's arguments: that the run is secured, or that it is not, and with what.
  std::vector<std::string> ArgumentsOf(const std::string& process) const;
  // Where a process's credentials are, in a secured run.
  std::string FolderOf(const std::string& process) const;
  std::string operator_folder() const;  // empty: not secured

 private:
  std::string folder_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_CLUSTER_CREDENTIALS_H_

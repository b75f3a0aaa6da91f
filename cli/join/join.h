#ifndef LONGWAVE_CLI_JOIN_JOIN_H_
#define LONGWAVE_CLI_JOIN_JOIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/join/joined_folder.h"
#include "common/config/config.h"
#include "common/rpc/join.h"

namespace longwave {

struct JoinOptions {
  std::string address;     // host:port of the coordinator
  std::string token;       // what `longwave token create` printed
  std::string token_file;  // that has it; "-": standard input
  std::string name;        // of the worker; empty: this machine's
  std::string state_dir;   // empty: JoinedFolder::Default
  std::string device;      // these three as longwave-worker's; empty or 0: the run's
  std::string data;
  uint32_t threads = 0;
  Overrides overrides;
  bool dry_run = false;
};

// A worker's name where none is given: this machine's host name.
std::string NameOfThisMachine();

// What the worker is told over the run's configuration: this machine's paths and device, and that
// the run is secured, wherever it was reached by.
Overrides WorkerOverrides(const JoinOptions& options, const JoinedFolder& folder);

// The worker's command line. binaries: the folder that longwave-worker lies in.
std::vector<std::string> WorkerCommand(const JoinOptions& options, const Joined& joined,
                                       const JoinedFolder& folder, const std::string& binaries);

// The manifest as text, a line a tensor: "wte.weight 256 128"; empty: none.
std::string ManifestText(const std::optional<Manifest>& manifest);

// Who this machine is in the run: as the folder has it already, with credentials that are still
// good, or by redeeming the token. Errors: as JoinRun's; FailedPrecondition: the folder is another
// run's or another worker's, or there is neither a token nor credentials.
absl::StatusOr<Joined> RedeemOrResume(const JoinOptions& options, const JoinedFolder& folder);

// `longwave join`: redeems, examines, then becomes longwave-worker. Returns the exit status where
// it does not come to that.
int RunJoinCommand(const JoinOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_JOIN_H_

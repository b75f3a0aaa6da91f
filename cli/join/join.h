#ifndef LONGWAVE_CLI_JOIN_JOIN_H_
#define LONGWAVE_CLI_JOIN_JOIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/join/joined_folder.h"
#include "common/config/config.h"

namespace longwave {

struct JoinOptions {
  std::string address;     // host:port of the coordinator
  std::string token;       // as printed by `longwave token create`
  std::string token_file;  // with the token; "-": standard input
  std::string name;        // of the worker; empty: this machine's
  std::string state_dir;   // empty: JoinedFolder::Default
  std::string device;      // device, data, threads: as longwave-worker's; empty or 0: the run's
  std::string data;
  uint32_t threads = 0;
  Overrides overrides;
  bool dry_run = false;
};

// The overrides of the run's configuration for this worker: this machine's paths and device, and
// security.mode on, whatever the addresses are.
Overrides WorkerOverrides(const JoinOptions& options, const JoinedFolder& folder);

// The worker's command line. binaries: the folder of longwave-worker.
std::vector<std::string> WorkerCommand(const JoinOptions& options, const Joined& joined,
                                       const JoinedFolder& folder, const std::string& binaries);

// The machine's place in the run: the folder's, with valid credentials, or a new one from the
// token. Errors: as JoinRun; FailedPrecondition (the folder belongs to another run or worker, or
// there is neither a token nor credentials).
absl::StatusOr<Joined> RedeemOrResume(const JoinOptions& options, const JoinedFolder& folder);

// `longwave join`: redeems the token, examines the machine, then becomes longwave-worker.
absl::Status Join(const JoinOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_JOIN_H_

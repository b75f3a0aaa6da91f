#ifndef LONGWAVE_CLI_WORKER_COMMAND_H_
#define LONGWAVE_CLI_WORKER_COMMAND_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// A worker that is a command of the user's ("python train.py"). It reads its settings from its
// environment, since its arguments are its own.

// The variables with longwave-worker's arguments. docs/how-to/python.md lists them for people, and
// python/longwave reads them.
inline constexpr char kCoordinatorVariable[] = "LONGWAVE_COORDINATOR";  // host:port
inline constexpr char kNameVariable[] = "LONGWAVE_NAME";
inline constexpr char kStateDirVariable[] = "LONGWAVE_STATE_DIR";  // empty: none
inline constexpr char kTokenVariable[] = "LONGWAVE_TOKEN";
inline constexpr char kRunDirVariable[] = "LONGWAVE_RUN_DIR";
inline constexpr char kWorkersVariable[] = "LONGWAVE_WORKERS";  // the run needs
// "off", or the folder of the worker's credentials.
inline constexpr char kSecurityVariable[] = "LONGWAVE_SECURITY";
// host:port of its page for Prometheus; empty: none.
inline constexpr char kMetricsVariable[] = "LONGWAVE_METRICS";

// The command's words, split at white space, with a shell's '…', "…" and \. There is no expansion
// and no shell, so that a signal reaches the program itself; commands with variables or pipes need
// sh -c '…'. The first word becomes the program's path. Errors: InvalidArgument (no word, an
// unclosed quotation mark), NotFound (no such program in PATH).
absl::StatusOr<std::vector<std::string>> ParseWorkerCommand(std::string_view command);

}  // namespace longwave

#endif  // LONGWAVE_CLI_WORKER_COMMAND_H_

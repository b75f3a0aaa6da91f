#ifndef LONGWAVE_CLI_WORKER_COMMAND_H_
#define LONGWAVE_CLI_WORKER_COMMAND_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// A worker that is a command of the user's ("python train.py"): what it is told it finds in its
// environment, since its arguments are its own.

using Environment = std::vector<std::pair<std::string, std::string>>;

// Where such a worker finds what longwave-worker takes as arguments. docs/python.md lists them for
// people, and python/longwave reads them.
inline constexpr std::string_view kCoordinatorVariable = "LONGWAVE_COORDINATOR";  // host:port
inline constexpr std::string_view kNameVariable = "LONGWAVE_NAME";
inline constexpr std::string_view kStateDirVariable = "LONGWAVE_STATE_DIR";  // empty: none
inline constexpr std::string_view kTokenVariable = "LONGWAVE_TOKEN";
inline constexpr std::string_view kRunDirVariable = "LONGWAVE_RUN_DIR";
inline constexpr std::string_view kWorkersVariable = "LONGWAVE_WORKERS";  // that the run waits for
// "off", or the folder of the worker's credentials.
inline constexpr std::string_view kSecurityVariable = "LONGWAVE_SECURITY";
// host:port of its page for Prometheus; empty: none.
inline constexpr std::string_view kMetricsVariable = "LONGWAVE_METRICS";

// The command's words, as a shell splits them: at white space, with '…', "…" and \ as a shell has
// them. Nothing is expanded and no shell is run, so that a signal reaches the program itself;
// whoever wants variables or pipes writes sh -c '…'. The first word becomes the program's path.
// InvalidArgument: no word, a quotation mark without its second. NotFound: no such program in PATH.
absl::StatusOr<std::vector<std::string>> ParseWorkerCommand(std::string_view command);

// Puts name=value into the environment, in place of what the name had.
void SetVariable(std::string_view name, std::string value, Environment& environment);

}  // namespace longwave

#endif  // LONGWAVE_CLI_WORKER_COMMAND_H_

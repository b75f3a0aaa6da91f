#ifndef LONGWAVE_CLI_RUN_COMMANDS_H_
#define LONGWAVE_CLI_RUN_COMMANDS_H_

#include <optional>

#include "cli/logs.h"
#include "cli/status.h"
#include "cli/top.h"
#include "cli/weights.h"

namespace CLI {
class App;
}

namespace longwave {

// Commands about a run in progress or at its end: `longwave status`, `top`, `stop`, `weights` and
// `logs`.
class RunCommands {
 public:
  // Adds the commands to the program.
  explicit RunCommands(CLI::App* app);

  // The exit status of the given command; nullopt if it is none of these.
  std::optional<int> Run() const;

 private:
  StatusOptions status_;  // all commands use its address and credentials
  TopOptions top_;
  LogsOptions logs_;
  WeightsOptions weights_;
  const CLI::App* status_command_;
  const CLI::App* top_command_;
  const CLI::App* stop_command_;
  const CLI::App* weights_command_;
  const CLI::App* logs_command_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_RUN_COMMANDS_H_

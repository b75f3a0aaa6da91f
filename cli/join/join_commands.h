#ifndef LONGWAVE_CLI_JOIN_JOIN_COMMANDS_H_
#define LONGWAVE_CLI_JOIN_JOIN_COMMANDS_H_

#include <optional>

#include "cli/join/doctor_command.h"
#include "cli/join/join.h"

namespace CLI {
class App;
}

namespace longwave {

// `longwave join` and `longwave doctor`.
class JoinCommands {
 public:
  // Adds the commands to the program.
  explicit JoinCommands(CLI::App* app);

  // The exit status of the given command; nullopt if it is none of these.
  std::optional<int> Run() const;

 private:
  JoinOptions join_;
  DoctorOptions doctor_;
  const CLI::App* join_command_;
  const CLI::App* doctor_command_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_JOIN_COMMANDS_H_

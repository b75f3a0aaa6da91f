#ifndef LONGWAVE_CLI_COMMANDS_H_
#define LONGWAVE_CLI_COMMANDS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace longwave {

// The coordinator that a command is about.
struct Target {
  std::string address;   // host:port
  std::string security;  // folder of the caller's credentials; empty: the run is not secured
};

// The program's commands, each with the function that carries it out and returns the exit status.
using Commands = std::vector<std::pair<const CLI::App*, std::function<int()>>>;

// `longwave status`, `stop` and others: about a run in progress or at its end.
void AddRunCommands(CLI::App* app, Commands* commands);
// `longwave config check`, `print` and `schema`, and `longwave data`.
void AddConfigCommands(CLI::App* app, Commands* commands);
// `longwave token create|list|revoke`, `longwave expel` and `longwave certificate make|show`.
void AddSecurityCommands(CLI::App* app, Commands* commands);
// `longwave join` and `longwave doctor`.
void AddJoinCommands(CLI::App* app, Commands* commands);

}  // namespace longwave

#endif  // LONGWAVE_CLI_COMMANDS_H_

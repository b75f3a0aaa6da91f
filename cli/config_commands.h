#ifndef LONGWAVE_CLI_CONFIG_COMMANDS_H_
#define LONGWAVE_CLI_CONFIG_COMMANDS_H_

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longwave {

// `longwave config check`, `print` and `schema`.
class ConfigCommands {
 public:
  // Adds the commands to the program.
  explicit ConfigCommands(CLI::App* app);

  // The exit status of the given command; nullopt if it is none of these.
  std::optional<int> Run() const;

 private:
  std::string file_;
  std::vector<std::string> overrides_;
  const CLI::App* check_;
  const CLI::App* print_;
  const CLI::App* schema_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_CONFIG_COMMANDS_H_

#ifndef LONGWAVE_CLI_SECURITY_SECURITY_COMMANDS_H_
#define LONGWAVE_CLI_SECURITY_SECURITY_COMMANDS_H_

#include <memory>
#include <optional>

namespace CLI {
class App;
}

namespace longwave {

// `longwave token create|list|revoke`, `longwave expel` and `longwave certificate make|show`.
class SecurityCommands {
 public:
  // Adds the commands to the program.
  explicit SecurityCommands(CLI::App* app);
  ~SecurityCommands();

  // The exit status of the given command; nullopt if it is none of these.
  std::optional<int> Run();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_SECURITY_COMMANDS_H_

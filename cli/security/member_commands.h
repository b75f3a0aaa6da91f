#ifndef LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_
#define LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

#include <cstdint>
#include <string>

#include "cli/commands.h"
#include "common/control/control.h"

namespace longwave {

// An operator's commands to a coordinator. Each returns an exit status and prints the reason for a
// failure on standard error.

struct TokenCreateOptions {
  std::string life = "1h";
  uint32_t uses = 1;
  std::string name;    // empty: any worker's
  int64_t shard = -1;  // -1: not for a shard
};
// Prints only the token, for scripts.
int CreateTokenCommand(const Target& target, const TokenCreateOptions& token);
int ListTokensCommand(const Target& target);
int RevokeTokenCommand(const Target& target, const std::string& id);
// The result in a line, the other names that the worker's tokens admitted, and how to expel those.
std::string DescribeExpulsion(const Target& target, const std::string& worker, bool undo,
                              const Expulsion& expulsion);
// whole: also expels the other workers that the certificate names.
int ExpelCommand(const Target& target, const std::string& worker, bool undo, bool whole);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

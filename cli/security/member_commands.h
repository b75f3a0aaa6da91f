#ifndef LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_
#define LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/commands.h"
#include "common/control/control.h"

namespace longwave {

// An operator's commands to a coordinator, whose results they print.

struct TokenCreateOptions {
  std::string life = "1h";
  uint32_t uses = 1;
  std::string name;    // empty: any worker's
  int64_t shard = -1;  // -1: not for a shard
};
// Prints only the token, for scripts.
absl::Status CreateToken(const Target& target, const TokenCreateOptions& token);
absl::Status ListTokens(const Target& target);
absl::Status RevokeToken(const Target& target, const std::string& id);
// The result in a line, the other names that the worker's tokens admitted, and how to expel those.
std::string DescribeExpulsion(const Target& target, const std::string& worker, bool undo,
                              const Expulsion& expulsion);
// whole: also expels the other workers that the certificate names.
absl::Status Expel(const Target& target, const std::string& worker, bool undo, bool whole);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

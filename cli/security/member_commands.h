#ifndef LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_
#define LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/rpc/admission.h"

namespace longwave {

// Commands of an operator to a coordinator, with the credentials of a folder. Each returns an exit
// status and says on standard error why it is not 0.

struct OperatorOptions {
  std::string address;   // host:port of the coordinator
  std::string security;  // folder
};

struct TokenCreateOptions {
  std::string life = "1h";
  uint32_t uses = 1;
  std::string name;    // empty: any worker's
  int64_t shard = -1;  // -1: not for a shard
};
// Prints the token alone, so that a script can take it.
int CreateTokenCommand(const OperatorOptions& options, const TokenCreateOptions& token);
int ListTokensCommand(const OperatorOptions& options);
int RevokeTokenCommand(const OperatorOptions& options, const std::string& id);
// What came of it, in a line; with whom else the worker's tokens let in, and how to expel those.
std::string DescribeExpulsion(const OperatorOptions& options, const std::string& worker, bool undo,
                              const Expulsion& expulsion);
// whole: also where its certificate names other workers, who are shut out with it.
int ExpelCommand(const OperatorOptions& options, const std::string& worker, bool undo, bool whole);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

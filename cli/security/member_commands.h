#ifndef LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_
#define LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

#include <cstdint>
#include <string>

#include "common/rpc/admission.h"

namespace longwave {

// An operator's commands to a coordinator, with the credentials of a folder. Each returns an exit
// status and prints the reason for a failure on standard error.

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
// Prints only the token, for scripts.
int CreateTokenCommand(const OperatorOptions& options, const TokenCreateOptions& token);
int ListTokensCommand(const OperatorOptions& options);
int RevokeTokenCommand(const OperatorOptions& options, const std::string& id);
// The result in a line, the other names that the worker's tokens admitted, and how to expel those.
std::string DescribeExpulsion(const OperatorOptions& options, const std::string& worker, bool undo,
                              const Expulsion& expulsion);
// whole: also expels the other workers that the certificate names.
int ExpelCommand(const OperatorOptions& options, const std::string& worker, bool undo, bool whole);

}  // namespace longwave

#endif  // LONGWAVE_CLI_SECURITY_MEMBER_COMMANDS_H_

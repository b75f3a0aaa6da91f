#ifndef LONGWAVE_CLI_STATUS_H_
#define LONGWAVE_CLI_STATUS_H_

#include <string>

namespace longwave {

// `longwave status`: what the coordinator at `address` knows, once. Returns the exit status.
int RunStatusCommand(const std::string& address, const std::string& security = "");

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_H_

#ifndef LONGWAVE_CLI_STATUS_H_
#define LONGWAVE_CLI_STATUS_H_

#include <string>

#include "common/config/run_config.h"
#include "common/wire/control.h"

namespace longwave {

// The coordinator to query, and the caller's credentials.
struct StatusOptions {
  std::string address;   // host:port
  std::string security;  // folder of credentials; empty: the run is not secured
  bool json = false;
};

// `longwave status`: prints the coordinator's status once. Returns the exit status.
int RunStatusCommand(const StatusOptions& options);

// JSON for programs; docs/running.md documents the fields. `status` has the record of the last
// round.
std::string FormatStatusJson(const RunConfig& config, const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_H_

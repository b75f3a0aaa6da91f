#ifndef LONGWAVE_CLI_STATUS_H_
#define LONGWAVE_CLI_STATUS_H_

#include <string>

#include "cli/commands.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

// `longwave status`: prints the coordinator's status once. Returns the exit status.
int RunStatusCommand(const Target& target, bool json);

// JSON for programs; docs/running.md documents the fields. `status` has the record of the last
// round.
std::string FormatStatusJson(const RunConfig& config, const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_H_

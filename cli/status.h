#ifndef LONGWAVE_CLI_STATUS_H_
#define LONGWAVE_CLI_STATUS_H_

#include <string>

#include "cli/commands.h"
#include "cli/live/live_server.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace longwave {

// `longwave status`: prints the coordinator's status once. Returns the exit status.
int RunStatusCommand(const Target& target, bool json);
// `longwave top`: the live view of any run, and the page for web, until the run or the user ends
// it; plain: a line a round, also in a terminal. Returns the exit status: 0 unless the run failed
// or the coordinator does not answer.
int RunTop(const Target& target, const WebOptions& web, bool plain);

// JSON for programs; docs/reference/commands.md documents the fields. `status` has the record of
// the last round.
std::string FormatStatusJson(const RunConfig& config, const RunStatus& status);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_H_

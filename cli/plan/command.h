#ifndef LONGWAVE_CLI_PLAN_COMMAND_H_
#define LONGWAVE_CLI_PLAN_COMMAND_H_

#include "cli/commands.h"

namespace longwave {

// `longwave plan`.
void AddPlanCommand(CLI::App* app, Commands* commands);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_COMMAND_H_

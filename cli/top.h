#ifndef LONGWAVE_CLI_TOP_H_
#define LONGWAVE_CLI_TOP_H_

#include "cli/commands.h"

namespace longwave {

// `longwave top`: the live view of any run, until the run or the user ends it; plain: a line a
// round, also in a terminal. Returns the exit status: 0 unless the run failed or the coordinator
// does not answer.
int RunTop(const Target& target, bool plain);

}  // namespace longwave

#endif  // LONGWAVE_CLI_TOP_H_

#ifndef LONGWAVE_CLI_PREFLIGHT_H_
#define LONGWAVE_CLI_PREFLIGHT_H_

#include "absl/status/status.h"
#include "common/config/run_config.h"

namespace longwave {

// What can be known of a run before its processes start: that its text is there and long enough,
// and that its model has work for every shard. Refused here, a run leaves no folder behind and may
// be tried again under the same name. The processes check for themselves too: they may run
// elsewhere.
absl::Status CheckRun(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PREFLIGHT_H_

#ifndef LONGWAVE_CLI_PREFLIGHT_H_
#define LONGWAVE_CLI_PREFLIGHT_H_

#include "absl/status/status.h"
#include "common/config/run_config.h"

namespace longwave {

// Checks a run before its processes start: the data exist and are long enough, and the model has
// segments for every shard. A run that fails here leaves no folder and may be repeated under the
// same name. The processes check too, since they may run elsewhere.
absl::Status CheckRun(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PREFLIGHT_H_

#ifndef LONGWAVE_WORKER_MEMBER_FETCH_CONFIG_H_
#define LONGWAVE_WORKER_MEMBER_FETCH_CONFIG_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/config.h"
#include "common/config/run_config.h"
#include "worker/member/stop_signal.h"

namespace longwave {

// Calls `attempt` until it succeeds, fails permanently (see MayPass), or `patience` ends. Returns
// the last result. Cancelled: `stop`. The first failure is logged.
absl::Status KeepTrying(absl::Duration patience, const StopSignal& stop,
                        absl::FunctionRef<absl::Status()> attempt);

// The run's configuration from its coordinator, with the overrides applied, for a worker that knows
// only the address. The worker retries while the coordinator does not answer. state_dir: the
// worker's folder, with its credentials (CredentialsFolder) if the run is secured. Unavailable: no
// answer within cluster.start_timeout_s of the overrides. Cancelled: `stop`. InvalidArgument: an
// override that does not fit. Other errors: the coordinator's refusal.
absl::StatusOr<RunConfig> FetchRunConfig(const std::string& coordinator, const Overrides& overrides,
                                         const std::string& state_dir, const StopSignal& stop);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_FETCH_CONFIG_H_

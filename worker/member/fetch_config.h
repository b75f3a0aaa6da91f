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

// Calls `attempt` until it succeeds, fails with what does not pass (MayPass), or `patience` is
// over. Returns what it returned last; Cancelled: `stop`. The first failure is logged.
absl::Status KeepTrying(absl::Duration patience, const StopSignal& stop,
                        absl::FunctionRef<absl::Status()> attempt);

// The run's configuration as its coordinator tells it, under the overrides: for a worker that has
// nothing but an address. While the coordinator does not answer, the worker asks again. state_dir:
// the worker's folder, by which its credentials are found (CredentialsFolder) where the run is
// secured. Unavailable: no answer within cluster.start_timeout_s of the overrides. Cancelled:
// `stop`. Others: the coordinator's refusal; InvalidArgument: an override that does not fit.
absl::StatusOr<RunConfig> FetchRunConfig(const std::string& coordinator, const Overrides& overrides,
                                         const std::string& state_dir, const StopSignal& stop);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_FETCH_CONFIG_H_

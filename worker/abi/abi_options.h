#ifndef LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_
#define LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/config.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "kernels/ops.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/stop_signal.h"

namespace longwave {

// lw_options, checked and copied.
struct AbiOptions {
  std::string coordinator;
  std::string name;
  std::string token;
  std::string state_dir;
  std::optional<std::string> metrics;  // not given: metrics.listen
  Overrides settings;
  lw_callbacks callbacks{};
};
// InvalidArgument: says which is missing or does not fit.
absl::StatusOr<AbiOptions> ReadOptions(const lw_options* options);

// InvalidArgument: a null pointer, or as Validate has it.
absl::StatusOr<Manifest> ReadManifest(const lw_tensor* tensors, size_t count);

// InvalidArgument: no lw_device. Unavailable: not in this library, or not in this machine.
absl::StatusOr<const KernelOps*> OpsOf(int device);

// The run's configuration under the options' settings, as its coordinator tells it, once the token
// was redeemed where there is one: its credentials then lie in state_dir/security. Errors: as
// JoinRun and FetchRunConfig.
absl::StatusOr<RunConfig> FetchConfig(const AbiOptions& options, const StopSignal& stop);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_

#ifndef LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_
#define LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/config.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
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
  std::optional<std::string> metrics;  // absent: metrics.listen
  Overrides settings;
  lw_callbacks callbacks{};
  lw_node node{};  // ranks 0: one process
  std::vector<Alike> alike;
};
// InvalidArgument names the missing or wrong option.
absl::StatusOr<AbiOptions> ReadOptions(const lw_options* options);

// InvalidArgument: a null pointer, or an error of Validate.
absl::StatusOr<Manifest> ReadManifest(const lw_tensor* tensors, size_t count);

// InvalidArgument: no lw_device. Unavailable: the library or the machine lacks the device.
absl::StatusOr<const KernelOps*> OpsOf(int device);

// The run's configuration from its coordinator, overridden by the options' settings. Redeems the
// token first, if there is one; the credentials are then in state_dir/security. Errors: as JoinRun
// and FetchRunConfig.
absl::StatusOr<RunConfig> FetchConfig(const AbiOptions& options, const StopSignal& stop);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_ABI_OPTIONS_H_

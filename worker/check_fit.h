#ifndef LONGWAVE_WORKER_CHECK_FIT_H_
#define LONGWAVE_WORKER_CHECK_FIT_H_

#include "absl/status/status.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"
#include "worker/models/device.h"

namespace longwave {

// Whether the worker's arrays fit into their memories, and those of the run's other workers
// that are on this machine, too. has_folder: for checkpoints.
absl::Status CheckFit(const RunConfig& config, bool has_folder, const Manifest& manifest,
                      const Device& device);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECK_FIT_H_

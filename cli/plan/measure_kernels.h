#ifndef LONGWAVE_CLI_PLAN_MEASURE_KERNELS_H_
#define LONGWAVE_CLI_PLAN_MEASURE_KERNELS_H_

#include "absl/status/statusor.h"
#include "cli/plan/plan.h"
#include "common/config/run_config.h"

namespace longwave {

// The rates of the configuration's encoding, merge and decoding on this machine's CPU, by a
// worker's pipeline and a shard's merge on a segment of 512 tiles, in about a second. threads: of
// the worker. The merge checks each payload first, as a shard does.
absl::StatusOr<PlanRates> MeasureKernels(const RunConfig& config, int threads);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_MEASURE_KERNELS_H_

#ifndef LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_
#define LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_

#include <cstdint>

#include "common/config/run_config.h"
#include "common/control/round_plan.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// The pipeline's options from the configuration.
SyncOptions SyncOptionsOf(const SyncSection& sync, uint64_t run_seed);

// The plan of the run's rounds. With sync.inner_steps auto no round is decided yet.
RoundPlan RoundPlanOf(const RunConfig& config);
// The plan of the run's syncs. With sync.inner_steps auto no round is decided yet.
SyncPlan SyncPlanOf(const RunConfig& config, uint32_t fragment_count);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_

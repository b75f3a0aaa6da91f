#ifndef LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_
#define LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_

#include <cstdint>

#include "common/config/run_config.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// The pipeline's options from the configuration.
SyncOptions SyncOptionsOf(const SyncSection& sync, uint64_t run_seed);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_SYNC_OPTIONS_H_

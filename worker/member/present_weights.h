#ifndef LONGWAVE_WORKER_MEMBER_PRESENT_WEIGHTS_H_
#define LONGWAVE_WORKER_MEMBER_PRESENT_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

struct PresentWeights {
  std::vector<float> theta;  // flat, in Layout::Create's order of the manifest
  uint32_t rounds = 0;       // number of rounds whose updates are included
  uint64_t steps = 0;        // inner steps of these rounds
  uint64_t state_hash = 0;   // as in the record of the last of these rounds
};

// The weights of a run in training, fetched as a worker that joins late does. Under `name` the
// process becomes a member that is never ready for a first round, so the run does not wait for it.
// The member takes in the shards' state until all segments are at one round, and leaves. It needs
// no data. start: the run's first weights, flat; empty: the shards have a snapshot of them.
// Unavailable: not within `patience`. Aborted: the run has ended meanwhile. Other errors: as
// MemberPlace's.
absl::StatusOr<PresentWeights> FetchPresentWeights(const RunConfig& config, const std::string& name,
                                                   const Manifest& manifest,
                                                   std::vector<float> start,
                                                   absl::Duration patience);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_PRESENT_WEIGHTS_H_

#ifndef LONGWAVE_CLI_PLAN_SYNC_TIME_H_
#define LONGWAVE_CLI_PLAN_SYNC_TIME_H_

#include <cstdint>
#include <span>
#include <vector>

#include "cli/plan/plan.h"
#include "cli/plan/segment_sizes.h"
#include "common/layout/layout.h"

namespace longwave {

// The time of a round's syncs, of all workers from the same moment on. Segments go through
// encoding, journal, links, merge, links and decoding one after the other, as in the product: a
// segment is on its way while the next one is encoded. What is between (the answers of pushes, the
// metrics of a round) is left out.
struct SyncTime {
  std::vector<PlanPart> parts;  // in PlanPart::Kind's order
  double sync_s = 0;
  double hidden_s = 0;
};
SyncTime TimeSync(const PlanInputs& inputs, const Layout& layout,
                  std::span<const SegmentSizes> sizes);

double SlowestStep(const PlanInputs& inputs);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_SYNC_TIME_H_

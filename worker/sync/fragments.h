#ifndef LONGWAVE_WORKER_SYNC_FRAGMENTS_H_
#define LONGWAVE_WORKER_SYNC_FRAGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/control/round_plan.h"
#include "common/layout/layout.h"
#include "common/layout/segment_elements.h"

namespace longwave {

// The contents of a model's fragments (see FragmentCount) and the steps of their syncs.

// The elements of a fragment's segments among `owned`, each once, ascending, neighbours joined.
std::vector<ElementRange> FragmentElements(const Layout& layout, uint32_t fragment,
                                           uint32_t fragment_count, SegmentRange owned);

// The steps of a fragment's sync, counted over the run.
struct SyncPoint {
  uint32_t round = 0;
  uint32_t fragment = 0;
  uint64_t steps = 0;        // covered by its signal: since the fragment's last one
  uint64_t signal_step = 0;  // steps done when the signal is taken
  uint64_t apply_step = 0;   // steps done when the merged update is applied
  bool operator==(const SyncPoint&) const = default;
};

// The order of a run's syncs. Fragment f of round r, which has H inner steps, is taken ⌈(f + 1)·H /
// F⌉ steps after the round's first one, and applied τ steps later. In the last round all fragments
// are taken at the run's end, one by one, so that every step is in a signal. With τ < ⌈H / F⌉ each
// fragment is applied before the next is taken, so that one is in flight at a time.
class SyncPlan {
 public:
  // inner_steps: H ≥ 1 of each round. fragment_count: 1 ≤ F ≤ H. overlap: τ < ⌈H / F⌉.
  SyncPlan(uint32_t inner_steps, uint32_t fragment_count, uint32_t overlap, uint64_t steps);
  // Likewise for every H that `rounds` has or will have.
  SyncPlan(RoundPlan rounds, uint32_t fragment_count, uint32_t overlap);

  const RoundPlan& rounds() const { return rounds_; }
  // See RoundPlan::Extend. Also InvalidArgument: F or τ do not fit a round's H.
  absl::Status Extend(const Intervals& part);
  // kRoundNever: not known yet.
  uint64_t round_count() const { return rounds_.round_count(); }
  uint32_t fragment_count() const { return fragment_count_; }
  // Steps done when the round begins; `steps` after the last round.
  uint64_t FirstStep(uint32_t round) const { return rounds_.FirstStep(round); }
  // The round is decided.
  SyncPoint At(uint32_t round, uint32_t fragment) const;

 private:
  uint64_t SignalStep(uint32_t round, uint32_t fragment) const;

  RoundPlan rounds_;
  uint32_t fragment_count_;
  uint64_t overlap_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_FRAGMENTS_H_

#ifndef LONGWAVE_WORKER_SYNC_FRAGMENTS_H_
#define LONGWAVE_WORKER_SYNC_FRAGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

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

// The order of a run's syncs. Fragment f of round r is taken after step r·H + ⌈(f + 1)·H / F⌉ and
// applied τ steps later. In the last round all fragments are taken at the run's end, one by one, so
// that every step is in a signal. With τ < ⌈H / F⌉ each fragment is applied before the next is
// taken, so that one is in flight at a time.
class SyncPlan {
 public:
  // inner_steps: H ≥ 1. fragment_count: 1 ≤ F ≤ H. overlap: τ < ⌈H / F⌉.
  SyncPlan(uint32_t inner_steps, uint32_t fragment_count, uint32_t overlap, uint64_t steps);

  uint64_t round_count() const { return (steps_ + inner_steps_ - 1) / inner_steps_; }
  uint32_t fragment_count() const { return fragment_count_; }
  uint64_t inner_steps() const { return inner_steps_; }
  // Steps done when the round begins; `steps` after the last round.
  uint64_t FirstStep(uint32_t round) const { return std::min(round * inner_steps_, steps_); }
  SyncPoint At(uint32_t round, uint32_t fragment) const;

 private:
  uint64_t SignalStep(uint32_t round, uint32_t fragment) const;

  uint64_t inner_steps_;
  uint32_t fragment_count_;
  uint64_t overlap_;
  uint64_t steps_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_FRAGMENTS_H_

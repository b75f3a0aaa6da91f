#include "worker/sync/fragments.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/errors.h"

namespace longwave {

std::vector<ElementRange> FragmentElements(const Layout& layout, uint32_t fragment,
                                           uint32_t fragment_count, SegmentRange owned) {
  std::vector<ElementRange> ranges;
  for (uint32_t s = owned.begin; s < owned.end; ++s) {
    if (s % fragment_count == fragment) AppendSegmentElements(layout, s, ranges);
  }
  // Segments that meet inside a row of blocks share its matrix rows.
  std::ranges::sort(ranges, {}, &ElementRange::begin);
  std::vector<ElementRange> joined;
  for (const ElementRange& range : ranges) {
    if (!joined.empty() && joined.back().end == range.begin) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

SyncPlan::SyncPlan(uint32_t inner_steps, uint32_t fragment_count, uint32_t overlap, uint64_t steps)
    : SyncPlan(RoundPlan(inner_steps, steps), fragment_count, overlap) {
  LONGWAVE_CHECK(fragment_count <= inner_steps);
  LONGWAVE_CHECK(overlap < (inner_steps + fragment_count - 1) / fragment_count);
}

SyncPlan::SyncPlan(RoundPlan rounds, uint32_t fragment_count, uint32_t overlap)
    : rounds_(std::move(rounds)), fragment_count_(fragment_count), overlap_(overlap) {
  LONGWAVE_CHECK(fragment_count >= 1);
}

absl::Status SyncPlan::Extend(const Intervals& part) {
  for (const RoundInterval& change : part.changes) {
    if (change.inner_steps >= fragment_count_ &&
        overlap_ < (change.inner_steps + fragment_count_ - 1) / fragment_count_) {
      continue;
    }
    return InvalidArgument("round ", change.first_round, " has ", change.inner_steps,
                           " inner steps, wanted as many as ", fragment_count_,
                           " fragments with an overlap of ", overlap_, " steps need");
  }
  return rounds_.Extend(part);
}

uint64_t SyncPlan::SignalStep(uint32_t round, uint32_t fragment) const {
  if (round + 1 == round_count()) return rounds_.steps();  // no step is left out of the model
  const uint64_t into =
      ((fragment + 1) * uint64_t{rounds_.InnerSteps(round)} + fragment_count_ - 1) /
      fragment_count_;
  return std::min(rounds_.FirstStep(round) + into, rounds_.steps());
}

SyncPoint SyncPlan::At(uint32_t round, uint32_t fragment) const {
  const uint64_t signal_step = SignalStep(round, fragment);
  return {.round = round,
          .fragment = fragment,
          .steps = signal_step - (round == 0 ? 0 : SignalStep(round - 1, fragment)),
          .signal_step = signal_step,
          .apply_step = std::min(signal_step + overlap_, rounds_.steps())};
}

}  // namespace longwave

#ifndef LONGWAVE_COMMON_CONTROL_ROUND_PLAN_H_
#define LONGWAVE_COMMON_CONTROL_ROUND_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/control/control.h"

namespace longwave {

// The inner steps of each round of a run, which ends with its last inner step. With a fixed
// interval all rounds have the same. With sync.inner_steps auto the coordinator decides them a few
// rounds ahead, and a decision stands for good. So any two plans of a run agree on the rounds that
// both know.
class RoundPlan {
 public:
  // Every round has `inner_steps`, at least 1. steps: of the run, at least 1.
  RoundPlan(uint32_t inner_steps, uint64_t steps);
  // No round is decided yet.
  explicit RoundPlan(uint64_t steps) : steps_(steps) {}

  // Takes more decided rounds in. `part` may begin with known ones. InvalidArgument: rounds are
  // missing in between, a round has no steps, or the part contradicts this plan; nothing changes.
  absl::Status Extend(const Intervals& part);
  // The decided rounds from `round` on; empty if there are none.
  Intervals From(uint32_t round) const;

  // The rounds before this one are decided. kRoundNever: all.
  uint32_t decided_rounds() const { return decided_; }
  bool IsDecided(uint32_t round) const { return round < decided_; }
  // As decided; the last round of the run may take fewer. `round` is decided.
  uint32_t InnerSteps(uint32_t round) const;
  // Steps done when the round begins; `steps` after the last round. All rounds before are decided.
  uint64_t FirstStep(uint32_t round) const;
  // The round that has the inner step; beyond the decided rounds decided_rounds().
  uint32_t RoundOf(uint64_t step) const;
  // The round from which on all decided ones have the same steps as the last; 0: none is decided.
  uint32_t last_change() const { return entries_.empty() ? 0 : entries_.back().first_round; }
  uint64_t change_count() const { return entries_.empty() ? 0 : entries_.size() - 1; }
  uint64_t steps() const { return steps_; }
  // Every round has the same number of steps.
  bool is_fixed() const { return decided_ == kRoundNever; }
  // kRoundNever: not known yet, as the decided rounds do not reach the run's end.
  uint64_t round_count() const { return round_count_; }
  // Likewise, and if it is not known the number if the last decided interval stayed; 0: no round
  // is decided.
  uint64_t expected_round_count() const;

 private:
  struct Entry {
    uint32_t first_round = 0;
    uint32_t inner_steps = 0;
    uint64_t first_step = 0;  // may exceed steps_
  };
  const Entry& EntryOf(uint32_t round) const;
  void Append(uint32_t end, uint32_t inner_steps);

  uint64_t steps_;
  std::vector<Entry> entries_;  // ascending
  uint32_t decided_ = 0;
  uint64_t round_count_ = kRoundNever;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONTROL_ROUND_PLAN_H_

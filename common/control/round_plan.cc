#include "common/control/round_plan.h"

#include <algorithm>
#include <iterator>

#include "common/base/ceil_divide.h"
#include "common/base/check.h"
#include "common/base/errors.h"

namespace longwave {

RoundPlan::RoundPlan(uint32_t inner_steps, uint64_t steps) : steps_(steps) {
  LONGWAVE_CHECK(inner_steps >= 1);
  Append(kRoundNever, inner_steps);
}

void RoundPlan::Append(uint32_t end, uint32_t inner_steps) {
  if (entries_.empty() || entries_.back().inner_steps != inner_steps) {
    uint64_t first_step = 0;
    if (!entries_.empty()) {
      const Entry& last = entries_.back();
      first_step =
          last.first_step + uint64_t{decided_ - last.first_round} * uint64_t{last.inner_steps};
    }
    entries_.push_back(
        {.first_round = decided_, .inner_steps = inner_steps, .first_step = first_step});
  }
  decided_ = end;
  const Entry& last = entries_.back();
  const uint64_t left = steps_ - std::min(steps_, last.first_step);
  const uint64_t count = last.first_round + CeilDivide(left, last.inner_steps);
  if (round_count_ == kRoundNever && (end == kRoundNever || count <= end)) round_count_ = count;
}

absl::Status RoundPlan::Extend(const Intervals& part) {
  const std::vector<RoundInterval>& changes = part.changes;
  if (part.decided_rounds <= decided_ && changes.empty()) return absl::OkStatus();
  if (changes.empty() || changes.front().first_round > decided_) {
    return InvalidArgument("rounds before ", part.decided_rounds, " are decided from round ",
                           changes.empty() ? part.decided_rounds : changes.front().first_round,
                           " on, wanted from round ", decided_, " on");
  }
  RoundPlan extended = *this;
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto [first, inner_steps] = changes[i];
    const uint32_t end = i + 1 < changes.size() ? changes[i + 1].first_round : part.decided_rounds;
    if (inner_steps == 0 || end <= first) {
      return InvalidArgument("rounds ", first, " to ", end, " of ", inner_steps,
                             " inner steps, wanted at least one of both");
    }
    for (uint32_t round = first; round < std::min(end, decided_);) {
      const auto next = std::ranges::upper_bound(entries_, round, {}, &Entry::first_round);
      if (InnerSteps(round) != inner_steps) {
        return InvalidArgument("round ", round, " has ", inner_steps, " inner steps, wanted ",
                               InnerSteps(round), " as was decided before");
      }
      round = next == entries_.end() ? decided_ : next->first_round;
    }
    if (end > extended.decided_) extended.Append(end, inner_steps);
  }
  *this = std::move(extended);
  return absl::OkStatus();
}

Intervals RoundPlan::From(uint32_t round) const {
  Intervals part{.decided_rounds = decided_, .changes = {}};
  if (round >= decided_) return part;
  part.changes.push_back({.first_round = round, .inner_steps = InnerSteps(round)});
  for (const Entry& entry : entries_) {
    if (entry.first_round > round) part.changes.push_back({entry.first_round, entry.inner_steps});
  }
  return part;
}

const RoundPlan::Entry& RoundPlan::EntryOf(uint32_t round) const {
  LONGWAVE_CHECK(!entries_.empty() && round <= decided_);
  return *std::prev(std::ranges::upper_bound(entries_, round, {}, &Entry::first_round));
}

uint32_t RoundPlan::InnerSteps(uint32_t round) const {
  LONGWAVE_CHECK(IsDecided(round));
  return EntryOf(round).inner_steps;
}

uint64_t RoundPlan::FirstStep(uint32_t round) const {
  if (round == 0) return 0;
  const Entry& entry = EntryOf(round);
  return std::min(entry.first_step + uint64_t{round - entry.first_round} * entry.inner_steps,
                  steps_);
}

uint32_t RoundPlan::RoundOf(uint64_t step) const {
  const auto after = std::ranges::upper_bound(entries_, step, {}, &Entry::first_step);
  if (after == entries_.begin()) return decided_;
  const Entry& entry = *std::prev(after);
  const uint64_t round = entry.first_round + (step - entry.first_step) / entry.inner_steps;
  return static_cast<uint32_t>(std::min<uint64_t>(round, decided_));
}

uint64_t RoundPlan::expected_round_count() const {
  if (round_count_ != kRoundNever || entries_.empty())
    return round_count_ == kRoundNever ? 0 : round_count_;
  return decided_ + CeilDivide(steps_ - FirstStep(decided_), entries_.back().inner_steps);
}

}  // namespace longwave

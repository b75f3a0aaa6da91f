// The inner steps of rounds, if the coordinator decides them (sync.inner_steps auto).

#include <algorithm>

#include "server/coordinator/coordinator.h"

namespace longwave {

uint64_t Coordinator::rounds() const {
  return KnowsRounds() && schedule_ ? schedule_->plan().round_count() : options_.rounds;
}

uint32_t Coordinator::NewestBegun() const {
  // The members report a round before the shards do. What one member reports proves nothing.
  uint32_t reported = kRoundNever;
  for (const auto& [index, worker] : workers_) {
    if (worker.is_active() && !worker.behind) reported = std::min(reported, ledger_.NextOf(index));
  }
  return std::max({NewestRound(), ledger_.next_round(), reported == kRoundNever ? 0 : reported});
}

void Coordinator::DecideIntervals(Effects& effects) {
  if (!schedule_ || phase_ != RunPhase::kTraining) return;
  std::string notice;
  if (!schedule_->Decide(NewestBegun(), &notice)) return;
  if (!notice.empty()) Note(effects, notice);
  ledger_.SetRoundCount(rounds());
  intervals_unsaved_ = unsaved_ = true;
}

}  // namespace longwave

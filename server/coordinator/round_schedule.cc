#include "server/coordinator/round_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"

namespace longwave {

void RoundSchedule::Add(uint32_t round, std::span<const RoundWork> work) {
  if (plan_.IsDecided(round)) control_.Add(round, plan_.InnerSteps(round), work);
}

uint32_t RoundSchedule::LeadRounds(uint32_t inner_steps) const {
  const double seconds = control_.SecondsOfRound(inner_steps).value_or(0);
  if (!control_.has_measured() || control_.Moves(inner_steps) || seconds <= 0)
    return kLeadRoundsMin;
  const double lead = absl::ToDoubleSeconds(heartbeat_timeout_) * kLeadShare;
  return static_cast<uint32_t>(
      std::clamp<double>(std::ceil(lead / seconds), kLeadRoundsMin, kLeadRoundsMax));
}

bool RoundSchedule::Decide(uint32_t newest, std::string* notice) {
  if (plan_.round_count() != kRoundNever) return false;  // decided to the run's end
  const uint32_t first = plan_.decided_rounds();
  const uint32_t present = first == 0 ? control_.First() : plan_.InnerSteps(first - 1);
  IntervalControl::Choice choice{.inner_steps = present, .reason = {}};
  if (first > 0 && plan_.change_count() < kChangesMax)
    choice = control_.Next(present, first - plan_.last_change());
  const uint64_t end = uint64_t{newest} + 1 + LeadRounds(choice.inner_steps);
  if (end <= first || end >= kRoundNever) return false;
  if (choice.inner_steps != present) {
    *notice = absl::StrCat("inner steps of a round: ", choice.inner_steps, " from round ", first,
                           " on, ", present, " before: ", choice.reason);
    reason_ = std::move(choice.reason);
  }
  const absl::Status extended =
      plan_.Extend({.decided_rounds = static_cast<uint32_t>(end),
                    .changes = {{.first_round = first, .inner_steps = choice.inner_steps}}});
  LONGWAVE_CHECK(extended.ok());
  return true;
}

absl::Status RoundSchedule::CheckKnown(const WorkerHeartbeat& heartbeat, bool is_obsolete) const {
  const uint32_t decided = plan_.decided_rounds();
  if (heartbeat.known_rounds > decided) {
    const std::string why = absl::StrCat(
        "heartbeat of worker ", heartbeat.worker, ": it knows the inner steps of ",
        heartbeat.known_rounds, " rounds, wanted at most the ", decided, " that are decided");
    return is_obsolete ? Aborted(why, "; it is to join again") : Unavailable(why);
  }
  if (plan_.round_count() == kRoundNever && !heartbeat.rounds.empty() &&
      heartbeat.rounds.back().round >= decided) {
    return InvalidArgument("heartbeat of worker ", heartbeat.worker, ": it reports round ",
                           heartbeat.rounds.back().round, ", wanted one of the ", decided,
                           " that are decided");
  }
  if (heartbeat.known_rounds == 0) return absl::OkStatus();
  const uint64_t steps = plan_.FirstStep(heartbeat.known_rounds);
  if (heartbeat.known_steps == steps) return absl::OkStatus();
  return Aborted("heartbeat of worker ", heartbeat.worker, ": the ", heartbeat.known_rounds,
                 " rounds that it knows have ", heartbeat.known_steps, " inner steps, wanted ",
                 steps, " as the coordinator's record has them; it is to join again");
}

std::string RoundSchedule::UndecidedOf(const ShardHeartbeat& heartbeat) const {
  if (heartbeat.state.newest_round <= plan_.decided_rounds()) return "";
  return absl::StrCat("shard ", heartbeat.shard, " has opened round ", heartbeat.state.newest_round,
                      ", and the inner steps of the rounds before ", plan_.decided_rounds(),
                      " alone are decided");
}

std::optional<IntervalStatus> RoundSchedule::Status() const {
  if (plan_.decided_rounds() == 0) return std::nullopt;
  const uint32_t inner_steps = plan_.InnerSteps(plan_.decided_rounds() - 1);
  return IntervalStatus{.inner_steps = inner_steps,
                        .first_round = plan_.last_change(),
                        .changes = plan_.change_count(),
                        .reason = reason_,
                        .rounds = plan_.expected_round_count(),
                        .lost_share = control_.LostShare(inner_steps)};
}

}  // namespace longwave

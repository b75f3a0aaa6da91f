// The schedule: rounds that finish, replicas that differ, what the run waits for, and its end.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {

void Coordinator::FinishRounds(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  const Worker* const validator = Validator();
  if (validator == nullptr) return;  // nobody goes on; who comes back may have more to report
  const bool promised = options_.promises_equal_replicas;
  if (looks_again_) {
    if (AwaitsRepairs()) return;
    ledger_.DropSuspects([&](uint32_t worker) { return !workers_.at(worker).is_active(); });
  }
  const bool were_equal = ledger_.replicas_equal();
  std::vector<RoundOutcome> outcomes =
      ledger_.Finish(MembersWaitedFor(), validator->member.worker, SecondsOfTraining(now),
                     promised && !looks_again_);
  if (outcomes.empty()) return;
  unsaved_ = true;
  const bool is_kept = outcomes.back().is_open;
  for (RoundOutcome& outcome : outcomes) {
    if (promised) TakeRepairs(outcome, effects);
    if (!outcome.is_open) effects.push_back(RoundFinished{std::move(outcome.record)});
  }
  if (were_equal && !ledger_.replicas_equal() && promised) {
    effects.push_back(Notice{absl::StrCat("replicas differ: ", ledger_.inequality())});
  }
  if (!is_kept) return;
  looks_again_ = true;
  FinishRounds(now, effects);  // if nobody is left who could repair anything
}

void Coordinator::TakeRepairs(const RoundOutcome& outcome, Effects& effects) {
  for (const auto& [index, segments] : outcome.suspects) {
    Worker& worker = workers_.at(index);
    const bool is_last = outcome.record.round + 1 == options_.rounds;
    // What a process that is gone had, or one that makes its replica anew, is nobody's any more.
    if (!worker.is_active() || (!is_last && outcome.record.round < worker.member.first_round))
      continue;
    if (segments.empty()) {
      if (!worker.repair) continue;
      worker.repair.reset();
      effects.push_back(
          Notice{absl::StrCat(Describe(worker.member), " has the others' state again, after round ",
                              outcome.record.round)});
      continue;
    }
    if (is_last && !outcome.is_open) continue;  // it was repaired, in vain
    if (is_last) worker.final.reset();          // what it may have written is not the others' state
    if (!worker.repair) {
      ++repairs_;
      effects.push_back(
          Notice{absl::StrCat(Describe(worker.member), " is to fetch ", segments.size(),
                              segments.size() == 1 ? " segment" : " segments",
                              " anew, which differed after round ", outcome.record.round)});
    }
    worker.repair = Repair{outcome.record.round, segments};
  }
}

bool Coordinator::AllAreDone() const {
  bool any = false;
  for (const auto& [index, worker] : workers_) {
    if (!worker.is_active() || worker.behind) continue;
    if (!worker.final && !IsAwaitedRepair(worker)) return false;
    any = true;
  }
  return any;
}

void Coordinator::FinishRunIfDone(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  const bool awaits_repairs = AwaitsRepairs();
  if (!AllAreDone() && !(looks_again_ && awaits_repairs)) {
    lacking_since_.reset();
    return;
  }
  if (options_.promises_equal_replicas && !ledger_.replicas_equal() && !awaits_repairs) {
    return End(RunPhase::kFailed, absl::StrCat("replicas differ: ", ledger_.inequality()), now,
               effects);
  }
  const std::string missing = WhatIsMissing();
  if (missing.empty()) {
    return End(RunPhase::kFinished, absl::StrCat("all ", options_.rounds, " rounds are done"), now,
               effects);
  }
  if (lacking_since_) return;
  lacking_since_ = now;
  effects.push_back(Notice{
      absl::StrCat(missing, "; the run waits for it for ", Seconds(options_.start_timeout))});
}

bool Coordinator::IsAwaitedRepair(const Worker& worker) const {
  return worker.is_active() && worker.repair && worker.repair->round + 1 == options_.rounds;
}

bool Coordinator::AwaitsRepairs() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& entry) { return IsAwaitedRepair(entry.second); });
}

std::string Coordinator::WhatIsMissing() const {
  for (const auto& [index, worker] : workers_) {
    if (!IsAwaitedRepair(worker)) continue;
    if (worker.repair->segments.empty()) {
      return absl::StrCat(Describe(worker.member),
                          " sent its final report, and no hashes of its replica after round ",
                          worker.repair->round);
    }
    return absl::StrCat("replicas differ: ", ledger_.inequality(), "; ", Describe(worker.member),
                        " is to repair its own and has not reported that round again");
  }
  // Rounds that everybody skipped are done all the same: their segments are closed.
  if (ledger_.next_round() < options_.rounds) {
    for (const auto& [index, shard] : shards_) {
      if (shard.state.open_round >= options_.rounds) continue;
      return absl::StrCat("every worker sent its final report after ", ledger_.next_round(),
                          " finished rounds, wanted ", options_.rounds);
    }
  }
  std::string lost;
  for (const auto& [index, worker] : workers_) {
    if (worker.final && !worker.final->model_file.empty()) return "";
    if (worker.lost) absl::StrAppend(&lost, lost.empty() ? "" : ", ", Describe(worker.member));
  }
  return absl::StrCat("all rounds are done, but no worker that is left has written the weights",
                      lost.empty() ? "" : "; lost: ", lost);
}

void Coordinator::WatchShards(absl::Time now, Effects& effects) {
  for (auto& [index, shard] : shards_) {
    const absl::Duration silence = now - shard.heard;
    if (silence <= options_.heartbeat_timeout) continue;
    std::string sentence =
        absl::StrCat("shard ", index, " was not heard for ", Seconds(silence),
                     ", wanted a heartbeat within ", Seconds(options_.heartbeat_timeout));
    if (silence > options_.heartbeat_timeout + options_.start_timeout) {
      return End(RunPhase::kFailed, std::move(sentence), now, effects);
    }
    if (std::exchange(shard.silent, true)) continue;
    effects.push_back(Notice{
        absl::StrCat(sentence, "; the run waits for it for ", Seconds(options_.start_timeout))});
  }
}

void Coordinator::WatchPatience(absl::Time now, Effects& effects) {
  if (!membership_.members.empty()) {
    alone_since_.reset();
  } else if (!alone_since_) {
    alone_since_ = now;
    effects.push_back(Notice{absl::StrCat("no worker is left; the run waits for one for ",
                                          Seconds(options_.start_timeout))});
  } else if (now - *alone_since_ > options_.start_timeout) {
    return End(RunPhase::kFailed,
               absl::StrCat("no worker is left", last_loss_.empty() ? "" : ": ", last_loss_), now,
               effects);
  }
  FinishRunIfDone(now, effects);
  if (lacking_since_ && now - *lacking_since_ > options_.start_timeout) {
    End(RunPhase::kFailed, WhatIsMissing(), now, effects);
  }
}

void Coordinator::ForgiveOwnPause(absl::Time now) {
  const absl::Duration pause = now - last_tick_.value_or(now);
  last_tick_ = now;
  if (pause <= options_.heartbeat_timeout / 2) return;
  const auto forgive = [&](absl::Time& since) { since = std::min(now, since + pause); };
  for (auto& [index, worker] : workers_) forgive(worker.heard);
  for (auto& [index, shard] : shards_) forgive(shard.heard);
  if (alone_since_) forgive(*alone_since_);
  if (lacking_since_) forgive(*lacking_since_);
}

void Coordinator::End(RunPhase phase, std::string reason, absl::Time now, Effects& effects) {
  phase_ = phase;
  reason_ = std::move(reason);
  ended_ = now;
  unsaved_ = true;
  effects.push_back(PhaseChanged{phase_, reason_});
}

uint32_t Coordinator::NewestRound() const {
  uint32_t newest = 0;
  for (const auto& [index, shard] : shards_) newest = std::max(newest, shard.state.newest_round);
  return newest;
}

}  // namespace longwave

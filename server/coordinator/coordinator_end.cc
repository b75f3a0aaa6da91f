// The schedule: rounds that finish, replicas that differ, what the run waits for, and its end.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {

void Coordinator::FinishRounds(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  if (looks_again_) {
    if (AwaitsRepairs()) return;
    LeaveOutOutvoted(effects);
  }
  const Worker* const validator = Validator();
  if (validator == nullptr) return;  // nobody goes on; who comes back may have more to report
  const bool promised = options_.promises_equal_replicas;
  const bool were_equal = ledger_.replicas_equal();
  const uint32_t next_round = ledger_.next_round();
  std::vector<RoundOutcome> outcomes =
      ledger_.Finish(MembersWaitedFor(), validator->member.worker, SecondsOfTraining(now),
                     promised && !looks_again_, looks_again_ ? NotActive() : nullptr);
  if (ledger_.next_round() != next_round) unsaved_ = true;  // also by rounds that all have skipped
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

void Coordinator::LeaveOutOutvoted(Effects& effects) {
  for (;;) {
    const std::vector<uint32_t> outvoted = ledger_.Outvoted(NotActive());
    if (outvoted.empty()) return;
    for (const uint32_t worker : outvoted) {
      LeaveOut(workers_.at(worker),
               "has another state after the last round than the majority, and has not repaired it",
               effects);
    }
  }
}

void Coordinator::LeaveOutUncompared(Effects& effects) {
  const bool others_are = std::ranges::any_of(workers_, [&](const auto& entry) {
    return entry.second.is_active() && ledger_.HasReportedEnd(entry.first);
  });
  for (auto& [index, worker] : workers_) {
    if (!others_are || !IsAwaitedRepair(worker) || ledger_.HasReportedEnd(index)) continue;
    LeaveOut(worker, "has reported no hashes of its replica after the last round", effects);
  }
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
    lacking_.clear();
    return;
  }
  if (options_.promises_equal_replicas && AllAreClosed() && !ledger_.replicas_equal() &&
      !awaits_repairs) {
    return End(RunPhase::kFailed, absl::StrCat("replicas differ: ", ledger_.inequality()), now,
               effects);
  }
  std::string missing = WhatIsMissing();
  if (missing.empty()) {
    return End(RunPhase::kFinished, absl::StrCat("all ", options_.rounds, " rounds are done"), now,
               effects);
  }
  if (!lacking_since_) lacking_since_ = now;
  // That all is closed, the shards' next heartbeats say as a rule.
  if (!AllAreClosed() || missing == lacking_) return;
  lacking_ = std::move(missing);
  effects.push_back(Notice{
      absl::StrCat(lacking_, "; the run waits for it for ", Seconds(options_.start_timeout))});
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
  // Rounds that everybody skipped are done all the same.
  if (!AllAreClosed()) {
    return absl::StrCat("every worker sent its final report after ", ledger_.next_round(),
                        " finished rounds, wanted ", options_.rounds);
  }
  if (Writer() != nullptr) return "";
  std::string lost;
  for (const auto& [index, worker] : workers_) {
    if (worker.lost) absl::StrAppend(&lost, lost.empty() ? "" : ", ", Describe(worker.member));
  }
  return absl::StrCat("all rounds are done, but no worker that is left has written the weights",
                      lost.empty() ? "" : "; lost: ", lost);
}

const Coordinator::Worker* Coordinator::Writer() const {
  for (const auto& [index, worker] : workers_) {
    if (!worker.left && worker.final && !worker.final->model_file.empty()) return &worker;
  }
  return nullptr;
}

void Coordinator::WatchShards(absl::Time now, Effects& effects) {
  for (auto& [index, shard] : shards_) {
    const absl::Duration silence = now - shard.heard;
    if (silence <= options_.heartbeat_timeout) continue;
    std::string sentence = absl::StrCat("shard ", index, " was not heard for ", Seconds(silence),
                                        ", wanted a heartbeat within ",
                                        Seconds(options_.heartbeat_timeout), LastSaid(shard));
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
  LeaveOutOverdue(now, effects);
  FinishRunIfDone(now, effects);
  if (phase_ != RunPhase::kTraining) return;
  PassDutyOn(now, effects);
  if (lacking_since_ && now - *lacking_since_ > options_.start_timeout) {
    End(RunPhase::kFailed, WhatIsMissing(), now, effects);
  }
}

void Coordinator::LeaveOutOverdue(absl::Time now, Effects& effects) {
  const auto lasts = [now](bool holds, std::optional<absl::Time>& since) {
    if (!holds) since.reset();
    if (holds && !since) since = now;
    return holds ? now - *since : absl::ZeroDuration();
  };
  const uint32_t epoch = membership_.epoch;
  const bool holds_up = lacking_since_ && AllAreClosed() && AwaitsRepairs();
  if (lasts(holds_up, repairs_since_) > options_.heartbeat_timeout) {
    LeaveOutOutvoted(effects);
    LeaveOutUncompared(effects);
  }

  const bool anyone_is_done = std::ranges::any_of(
      workers_, [](const auto& entry) { return entry.second.is_active() && entry.second.final; });
  const absl::Duration held = lasts(AllAreClosed() && anyone_is_done, done_since_);
  // What comes after the last round, a validation say, may take longer where rounds are long.
  const absl::Duration patience =
      std::max(options_.start_timeout, absl::Seconds(SecondsOfTraining(now)) / 10);
  for (auto& [index, worker] : workers_) {
    if (held <= patience || !worker.is_active() || worker.final || IsAwaitedRepair(worker))
      continue;
    LeaveOut(worker,
             absl::StrCat("has sent no final report for ", Seconds(held),
                          " after the last round was closed"),
             effects);
  }
  if (membership_.epoch != epoch) FinishRounds(now, effects);
}

void Coordinator::PassDutyOn(absl::Time now, Effects& effects) {
  const Worker* const writer = Validator();
  const bool waits = lacking_since_ && AllAreClosed() && !AwaitsRepairs() && writer != nullptr;
  if (!waits || writer->member.worker != duty_of_) duty_since_.reset();
  if (!waits) return;
  duty_of_ = writer->member.worker;
  if (!duty_since_) duty_since_ = now;
  if (now - *duty_since_ <= options_.heartbeat_timeout) return;
  workers_.at(duty_of_).shirks = true;
  if (Validator()->member.worker == duty_of_) return;
  effects.push_back(Notice{absl::StrCat(
      Describe(writer->member), " has not written the weights for ", Seconds(now - *duty_since_),
      "; ", Describe(Validator()->member), " is to do it")});
}

void Coordinator::ForgiveOwnPause(absl::Time now) {
  const absl::Duration pause = now - last_tick_.value_or(now);
  last_tick_ = now;
  if (pause <= options_.heartbeat_timeout / 2) return;
  const auto forgive = [&](absl::Time& since) { since = std::min(now, since + pause); };
  for (auto& [index, worker] : workers_) forgive(worker.heard);
  for (auto& [index, shard] : shards_) forgive(shard.heard);
  for (auto* since :
       {&alone_since_, &lacking_since_, &repairs_since_, &done_since_, &duty_since_}) {
    if (*since) forgive(**since);
  }
}

void Coordinator::End(RunPhase phase, std::string reason, absl::Time now, Effects& effects) {
  phase_ = phase;
  reason_ = std::move(reason);
  ended_ = now;
  unsaved_ = true;
  effects.push_back(PhaseChanged{phase_, reason_});
}

bool Coordinator::HearOfClosedRounds() {
  if (shards_.size() < options_.shards_wanted) return false;
  uint32_t closed = kRoundNever;
  for (const auto& [index, shard] : shards_) closed = std::min(closed, shard.state.open_round);
  return ledger_.SetClosedRounds(closed);
}

uint32_t Coordinator::NewestRound() const {
  uint32_t newest = 0;
  for (const auto& [index, shard] : shards_) newest = std::max(newest, shard.state.newest_round);
  return newest;
}

}  // namespace longwave

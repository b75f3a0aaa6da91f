// The schedule: finished rounds, repairs, waits and the end of the run.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {

void Coordinator::FinishRounds(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  const Worker* const validator = Validator();
  // No member goes on. A worker that rejoins may report more, or wait for its next round.
  if (validator == nullptr) return DecideIntervals(effects);
  const bool promised = options_.promises_equal_replicas;
  const bool were_equal = ledger_.replicas_equal();
  const uint32_t next_round = ledger_.next_round();
  std::vector<RoundOutcome> outcomes =
      ledger_.Finish(MembersWaitedFor(), validator->member.worker, SecondsOfTraining(now));
  // Also for rounds that all members have skipped.
  if (ledger_.next_round() != next_round) unsaved_ = true;
  bool is_in_vain = false;
  for (RoundOutcome& outcome : outcomes) {
    if (schedule_ && outcome.round < rounds()) schedule_->Add(outcome.round, outcome.work);
    if (promised && outcome.round >= rounds()) is_in_vain = LeaveOutOutvoted(outcome, effects);
    if (promised) OrderRepairs(outcome, effects);
    WarnOfEqualLosses(outcome, effects);
    if (outcome.record.round < rounds()) effects.push_back(RoundFinished{outcome.record});
  }
  if (were_equal && !ledger_.replicas_equal() && promised) {
    Note(effects, "replicas differ: ", ledger_.inequality());
  }
  if (is_in_vain) {
    End(RunPhase::kFailed, absl::StrCat("replicas differ: ", ledger_.inequality()), now, effects);
  }
  DecideIntervals(effects);
}

bool Coordinator::LeaveOutOutvoted(const RoundOutcome& outcome, Effects& effects) {
  bool is_in_vain = false, may_help = false;
  for (const auto& [index, segments] : outcome.suspects) {
    Worker& worker = workers_.at(index);
    if (!worker.is_active() || segments.empty()) continue;
    if (!worker.repair || worker.repair->round < rounds()) {
      may_help = true;  // no repair of this state was ordered yet
    } else if (segments.size() > outcome.undecided) {
      LeaveOut(worker,
               "has another state after the last round than the majority, and has not repaired it",
               effects);
      may_help = true;
    } else {
      is_in_vain = true;
    }
  }
  return is_in_vain && !may_help;
}

void Coordinator::OrderRepairs(const RoundOutcome& outcome, Effects& effects) {
  for (const auto& [index, segments] : outcome.suspects) {
    Worker& worker = workers_.at(index);
    // The replica of a process that has left, or that fetches its replica anew, does not count.
    if (!worker.is_active() || outcome.round < worker.member.first_round) continue;
    if (segments.empty()) {
      if (!worker.repair) continue;
      worker.repair.reset();
      Note(effects, Describe(worker.member), " has the others' state again, after round ",
           outcome.round);
      continue;
    }
    if (!worker.repair) {
      ++repairs_;
      Note(effects, Describe(worker.member), " is to fetch ", segments.size(),
           segments.size() == 1 ? " segment" : " segments", " anew, which differed after round ",
           outcome.round);
    }
    worker.repair = Repair{outcome.round, segments};
  }
}

bool Coordinator::IsSealed() const {
  return AllAreClosed() && ledger_.IsSealed(MembersWaitedFor(), options_.promises_equal_replicas);
}

bool Coordinator::AllHaveEnded() const {
  return std::ranges::any_of(
             workers_,
             [](const auto& entry) { return entry.second.is_active() && !entry.second.behind; }) &&
         std::ranges::all_of(workers_, [this](const auto& entry) {
           const Worker& worker = entry.second;
           return !worker.is_active() || worker.behind || ledger_.HasReportedEnd(entry.first);
         });
}

void Coordinator::FinishRunIfDone(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  const bool is_sealed = IsSealed();
  if (is_sealed && Writer() != nullptr) {
    return End(RunPhase::kFinished, absl::StrCat("all ", rounds(), " rounds are done"), now,
               effects);
  }
  // LeaveOutOverdue handles the wait for a sealing round.
  if (!AllHaveEnded() || (AllAreClosed() && !is_sealed)) {
    lacking_since_.reset();
    if (!sealing_since_) lacking_.clear();
    return;
  }
  if (!lacking_since_) lacking_since_ = now;
  SayWhatIsMissing(now - *lacking_since_, effects);
}

void Coordinator::SayWhatIsMissing(absl::Duration waited, Effects& effects) {
  if (waited <= options_.heartbeat_timeout) return;  // short waits are usual
  std::string missing = WhatIsMissing();
  if (missing == lacking_) return;
  lacking_ = std::move(missing);
  Note(effects, lacking_, WaitsFor("it", Patience()));
}

std::string Coordinator::WhatIsMissing() const {
  // Also with rounds that all members have skipped.
  if (!AllAreClosed()) {
    return absl::StrCat("every worker has all rounds, and the shards have closed ",
                        ledger_.closed_rounds(), ", wanted ", rounds());
  }
  if (!IsSealed()) {
    for (const auto& [index, worker] : workers_) {
      if (!worker.is_active() || ledger_.HasReported(index, ledger_.sealing_round())) continue;
      if (!worker.repair) {
        return absl::StrCat(Describe(worker.member),
                            " has not reported the hashes of its replica with all rounds");
      }
      return absl::StrCat("replicas differ: ", ledger_.inequality(), "; ", Describe(worker.member),
                          " has to repair its replica and has not reported it again");
    }
  }
  std::string lost;
  for (const auto& [index, worker] : workers_) {
    if (worker.lost) absl::StrAppend(&lost, lost.empty() ? "" : ", ", Describe(worker.member));
  }
  return absl::StrCat("all rounds are done, but no worker that is left has written the weights",
                      lost.empty() ? "" : "; lost: ", lost);
}

const Coordinator::Worker* Coordinator::Writer() const {
  const Worker* const duty = Validator();
  for (const auto& [index, worker] : workers_) {
    // A member that took too long held the duty before.
    const bool was_to_write = &worker == duty || (worker.is_active() && worker.shirks);
    if (was_to_write && worker.final && !worker.final->model_file.empty()) return &worker;
  }
  return nullptr;
}

void Coordinator::WatchShards(absl::Time now, Effects& effects) {
  for (auto& [index, shard] : shards_) {
    const absl::Duration silence = now - shard.heard;
    if (silence <= options_.heartbeat_timeout) continue;
    std::string sentence = absl::StrCat("shard ", index, " was not heard for ",
                                        FormatSeconds(silence), ", wanted a heartbeat within ",
                                        FormatSeconds(options_.heartbeat_timeout), LastSaid(shard));
    if (silence > options_.heartbeat_timeout + Patience()) {
      return End(RunPhase::kFailed, std::move(sentence), now, effects);
    }
    if (std::exchange(shard.silent, true)) continue;
    Note(effects, sentence, WaitsFor("it", Patience()));
  }
}

void Coordinator::WatchPatience(absl::Time now, Effects& effects) {
  if (!membership_.members.empty()) {
    alone_since_.reset();
  } else if (!alone_since_) {
    alone_since_ = now;
    Note(effects, "no worker is left", WaitsFor("one", Patience()));
  } else if (now - *alone_since_ > Patience()) {
    return End(RunPhase::kFailed,
               absl::StrCat("no worker is left", last_loss_.empty() ? "" : ": ", last_loss_), now,
               effects);
  }
  LeaveOutOverdue(now, effects);
  FinishRunIfDone(now, effects);
  if (phase_ != RunPhase::kTraining) return;
  PassDutyOn(now, effects);
  const Worker* const writer = Validator();
  const bool is_written = IsSealed() && writer != nullptr && !writer->shirks;
  if (lacking_since_ && !is_written && now - *lacking_since_ > Patience()) {
    End(RunPhase::kFailed, WhatIsMissing(), now, effects);
  }
}

void Coordinator::LeaveOutOverdue(absl::Time now, Effects& effects) {
  const uint32_t round = ledger_.sealing_round();
  const auto has_ended = [&](const auto& entry) {
    return entry.second.is_active() && ledger_.HasReportedEnd(entry.first);
  };
  const bool is_held_up = AllAreClosed() && !IsSealed() && std::ranges::any_of(workers_, has_ended);
  if (!is_held_up || round != held_up_) sealing_since_.reset();
  if (!is_held_up) return;
  held_up_ = round;
  if (!sealing_since_) sealing_since_ = now;
  const absl::Duration held = now - *sealing_since_;
  SayWhatIsMissing(held, effects);
  if (held <= EndPatience(now)) return;
  for (auto& [index, worker] : workers_) {
    if (!worker.is_active() || ledger_.HasReported(index, round)) continue;
    LeaveOut(worker,
             absl::StrCat("has not reported the hashes of its replica with all rounds for ",
                          FormatSeconds(held), " after another worker"),
             effects);
  }
  FinishRounds(now, effects);
}

absl::Duration Coordinator::EndPatience(absl::Time now) const {
  return std::max(options_.start_timeout, absl::Seconds(SecondsOfTraining(now)) / 10);
}

void Coordinator::PassDutyOn(absl::Time now, Effects& effects) {
  const Worker* const writer = Validator();
  const bool waits = IsSealed() && Writer() == nullptr;
  if (!waits || writer->member.worker != duty_of_) duty_since_.reset();
  if (!waits) return;
  duty_of_ = writer->member.worker;
  if (!duty_since_) duty_since_ = now;
  if (now - *duty_since_ <= EndPatience(now)) return;
  workers_.at(duty_of_).shirks = true;
  if (Validator()->member.worker == duty_of_) return;
  Note(effects, Describe(writer->member), " has not written the weights for ",
       FormatSeconds(now - *duty_since_), "; ", Describe(Validator()->member), " is to do it");
}

void Coordinator::ForgiveOwnPause(absl::Time now) {
  const absl::Duration pause = now - last_tick_.value_or(now);
  last_tick_ = now;
  if (pause <= options_.heartbeat_timeout / 2) return;
  const auto forgive = [&](absl::Time& since) { since = std::min(now, since + pause); };
  for (auto& [index, worker] : workers_) forgive(worker.heard);
  for (auto& [index, shard] : shards_) forgive(shard.heard);
  for (auto* since :
       {&first_step_, &alone_since_, &lacking_since_, &sealing_since_, &duty_since_}) {
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

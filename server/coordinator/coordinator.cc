#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longwave {
namespace {

// "0.3 s": how sentences give a span of time.
std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options), ledger_(options.rounds) {}

std::vector<CoordinatorEffect> Coordinator::Step(const CoordinatorEvent& event, absl::Time now,
                                                 Rng& rng) {
  if (!first_step_) first_step_ = now;
  while (run_ == 0) run_ = rng.Next();
  Effects effects;
  std::visit([&](const auto& e) { On(e, now, effects); }, event);
  return effects;
}

void Coordinator::On(const RegisterWorker& request, absl::Time now, Effects& effects) {
  if (absl::Status status = CheckRegistration(request, now); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  for (auto& [index, worker] : workers_) {
    if (worker.member.name != request.name) continue;
    worker.heard = now;  // the same process again: its first answer was lost
    effects.push_back(WorkerRegistered{index});
    return;
  }
  uint32_t index = 0;
  while (workers_.contains(index)) ++index;
  Worker& worker = workers_[index];
  worker.member = {index, request.name, 0};
  worker.incarnation = request.incarnation;
  worker.heard = now;
  if (!manifest_) {
    manifest_ = request.manifest;
    layout_hash_ = request.layout_hash;
  }
  effects.push_back(WorkerRegistered{index});
  effects.push_back(Notice{absl::StrCat(Describe(worker.member), " registered, ", workers_.size(),
                                        " of ", options_.workers_wanted)});
  BeginTrainingIfComplete(now, effects);
}

void Coordinator::On(const RegisterShard& request, absl::Time now, Effects& effects) {
  if (absl::Status status = CheckRegistration(request, now); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  const bool is_new = !shards_.contains(request.shard);
  Shard& shard = shards_[request.shard];
  shard.heard = now;
  effects.push_back(ShardRegistered{run_});
  if (!is_new) return;
  shard.address = {request.shard, request.data_endpoint, request.control_endpoint};
  shard.incarnation = request.incarnation;
  effects.push_back(Notice{absl::StrCat("shard ", request.shard, " registered, ", shards_.size(),
                                        " of ", options_.shards_wanted)});
  BeginTrainingIfComplete(now, effects);
}

void Coordinator::On(const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects) {
  if (absl::Status status = CheckHeartbeat(heartbeat); !status.ok()) {
    effects.push_back(Refused{std::move(status)});
    return;
  }
  const auto found = workers_.find(heartbeat.worker);
  // Somebody unknown, or lost, gets this far only to be told to stop.
  Worker* const known =
      found != workers_.end() && found->second.incarnation == heartbeat.incarnation ? &found->second
                                                                                    : nullptr;
  if (known != nullptr && !known->lost) {
    Worker& worker = *known;
    worker.heard = now;
    worker.state = heartbeat.state;
    if (!heartbeat.failure.empty()) worker.state.phase = WorkerPhase::kFailed;
    if (!is_over()) {
      if (heartbeat.final && !worker.final) worker.final = heartbeat.final;
      if (std::string failure = FailureIn(worker, heartbeat); !failure.empty()) {
        worker.state.phase = WorkerPhase::kFailed;
        End(RunPhase::kFailed, std::move(failure), now, effects);
      } else {
        ledger_.Add(worker.member, heartbeat.rounds);
        FinishRounds(now, effects);
        FinishRunIfDone(now, effects);
      }
    }
  }
  if (known != nullptr && is_over()) known->told = true;
  effects.push_back(ReplyTo(heartbeat));
}

void Coordinator::On(const ShardHeartbeat& heartbeat, absl::Time now, Effects& effects) {
  const auto found = shards_.find(heartbeat.shard);
  if (!is_over()) {
    if (found == shards_.end()) {
      effects.push_back(Refused{absl::NotFoundError(
          absl::StrCat("heartbeat of shard ", heartbeat.shard, ": wanted one of the ",
                       shards_.size(), " registered shards"))});
      return;
    }
    if (found->second.incarnation != heartbeat.incarnation) {
      effects.push_back(Refused{absl::AbortedError(
          absl::StrFormat("heartbeat of shard %d: incarnation %016x, wanted %016x", heartbeat.shard,
                          heartbeat.incarnation, found->second.incarnation))});
      return;
    }
  }
  if (found != shards_.end() && found->second.incarnation == heartbeat.incarnation) {
    Shard& shard = found->second;
    shard.heard = now;
    shard.state = heartbeat.state;
    shard.known_epoch = heartbeat.known_epoch;
    if (!heartbeat.failure.empty() && !is_over()) {
      End(RunPhase::kFailed, absl::StrCat("shard ", heartbeat.shard, ": ", heartbeat.failure), now,
          effects);
    }
    if (is_over()) shard.told = true;
  }
  effects.push_back(ReplyTo(heartbeat));
}

void Coordinator::On(const StopRequested& request, absl::Time now, Effects& effects) {
  if (!is_over()) End(RunPhase::kStopped, request.reason, now, effects);
}

void Coordinator::On(const Tick&, absl::Time now, Effects& effects) {
  if (phase_ == RunPhase::kWaiting) {
    DropSilentBeforeStart(now, effects);
    if (now - *first_step_ <= options_.start_timeout) return;
    std::string names;
    for (const auto& [index, worker] : workers_) {
      absl::StrAppend(&names, names.empty() ? " (" : ", ", worker.member.name);
    }
    if (!names.empty()) names += ")";
    End(RunPhase::kFailed,
        absl::StrCat("the run did not start within ", Seconds(options_.start_timeout), ": ",
                     workers_.size(), " of ", options_.workers_wanted, " workers", names, " and ",
                     shards_.size(), " of ", options_.shards_wanted, " shards are registered"),
        now, effects);
  } else if (phase_ == RunPhase::kTraining) {
    for (const auto& [index, shard] : shards_) {
      if (now - shard.heard <= options_.heartbeat_timeout) continue;
      return End(RunPhase::kFailed,
                 absl::StrCat("shard ", index, " was not heard for ", Seconds(now - shard.heard),
                              ", wanted a heartbeat within ", Seconds(options_.heartbeat_timeout)),
                 now, effects);
    }
    LoseSilentWorkers(now, effects);
  }
}

void Coordinator::BeginTrainingIfComplete(absl::Time now, Effects& effects) {
  if (workers_.size() < options_.workers_wanted || shards_.size() < options_.shards_wanted) return;
  phase_ = RunPhase::kTraining;
  training_began_ = now;
  membership_.epoch = 1;
  for (const auto& [index, worker] : workers_) membership_.members.push_back(worker.member);
  effects.push_back(
      PhaseChanged{phase_, absl::StrCat("all ", options_.workers_wanted, " workers and ",
                                        options_.shards_wanted, " shards are registered")});
}

void Coordinator::DropSilentBeforeStart(absl::Time now, Effects& effects) {
  const auto is_silent = [&](const auto& entry) {
    return now - entry.second.heard > options_.heartbeat_timeout;
  };
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (!is_silent(*it)) {
      ++it;
      continue;
    }
    effects.push_back(
        Notice{absl::StrCat(Describe(it->second.member), " was not heard for ",
                            Seconds(now - it->second.heard), " and gives its place up")});
    it = workers_.erase(it);
  }
  // The next worker may bring another model: nobody is left who holds to this one.
  if (workers_.empty()) manifest_.reset();
  for (auto it = shards_.begin(); it != shards_.end();) {
    if (!is_silent(*it)) {
      ++it;
      continue;
    }
    effects.push_back(
        Notice{absl::StrCat("shard ", it->first, " was not heard for ",
                            Seconds(now - it->second.heard), " and gives its place up")});
    it = shards_.erase(it);
  }
}

void Coordinator::LoseSilentWorkers(absl::Time now, Effects& effects) {
  std::string last;
  for (auto& [index, worker] : workers_) {
    const absl::Duration silence = now - worker.heard;
    if (worker.lost || worker.final || silence <= options_.heartbeat_timeout) continue;
    worker.lost = true;
    std::erase_if(membership_.members, [i = index](const Member& m) { return m.worker == i; });
    ++membership_.epoch;
    last = absl::StrCat(Describe(worker.member), " was not heard for ", Seconds(silence),
                        ", wanted a heartbeat within ", Seconds(options_.heartbeat_timeout));
    effects.push_back(Notice{absl::StrCat(last, "; epoch ", membership_.epoch, " goes on with ",
                                          membership_.members.size(), " workers")});
  }
  if (last.empty()) return;
  if (membership_.members.empty()) {
    return End(RunPhase::kFailed, absl::StrCat("no worker is left: ", last), now, effects);
  }
  // What waited for the lost ones alone is complete now.
  FinishRounds(now, effects);
  FinishRunIfDone(now, effects);
}

void Coordinator::FinishRounds(absl::Time now, Effects& effects) {
  const Worker* validator = Validator();
  if (validator == nullptr) return;
  const bool were_equal = ledger_.replicas_equal();
  for (RoundRecord& record :
       ledger_.Finish(membership_.members, validator->member.worker, SecondsOfTraining(now))) {
    effects.push_back(RoundFinished{std::move(record)});
  }
  if (were_equal && !ledger_.replicas_equal() && options_.promises_equal_replicas) {
    effects.push_back(Notice{absl::StrCat("replicas differ: ", ledger_.inequality())});
  }
}

void Coordinator::FinishRunIfDone(absl::Time now, Effects& effects) {
  if (phase_ != RunPhase::kTraining) return;
  for (const Member& member : membership_.members) {
    if (!workers_.at(member.worker).final) return;
  }
  if (std::string missing = WhatIsMissing(); !missing.empty()) {
    return End(RunPhase::kFailed, std::move(missing), now, effects);
  }
  End(RunPhase::kFinished, absl::StrCat("all ", options_.rounds, " rounds are done"), now, effects);
}

std::string Coordinator::WhatIsMissing() const {
  if (ledger_.records().size() < options_.rounds) {
    return absl::StrCat("every worker sent its final report after ", ledger_.records().size(),
                        " finished rounds, wanted ", options_.rounds);
  }
  if (options_.promises_equal_replicas && !ledger_.replicas_equal()) {
    return absl::StrCat("replicas differ: ", ledger_.inequality());
  }
  std::string lost;
  for (const auto& [index, worker] : workers_) {
    if (worker.lost) {
      absl::StrAppend(&lost, lost.empty() ? "" : ", ", Describe(worker.member));
    } else if (worker.final && !worker.final->model_file.empty()) {
      return "";
    }
  }
  return absl::StrCat("all rounds are done, but no worker that is left has written the weights",
                      lost.empty() ? "" : "; lost: ", lost);
}

bool Coordinator::EveryoneToldOfTheEnd() const {
  return is_over() &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& entry) { return entry.second.lost || entry.second.told; }) &&
         std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& entry) { return entry.second.told; });
}

void Coordinator::End(RunPhase phase, std::string reason, absl::Time now, Effects& effects) {
  phase_ = phase;
  reason_ = std::move(reason);
  ended_ = now;
  effects.push_back(PhaseChanged{phase_, reason_});
}

const Coordinator::Worker* Coordinator::Validator() const {
  for (const auto& [index, worker] : workers_) {
    if (!worker.lost) return &worker;
  }
  return nullptr;
}

const Coordinator::Worker* Coordinator::FindWorker(const std::string& name) const {
  for (const auto& [index, worker] : workers_) {
    if (worker.member.name == name) return &worker;
  }
  return nullptr;
}

bool Coordinator::EveryShardKnowsEpoch() const {
  return std::all_of(shards_.begin(), shards_.end(), [&](const auto& entry) {
    return entry.second.known_epoch == membership_.epoch;
  });
}

double Coordinator::SecondsOfTraining(absl::Time now) const {
  if (!training_began_) return 0;
  return absl::ToDoubleSeconds(ended_.value_or(now) - *training_began_);
}

}  // namespace longwave

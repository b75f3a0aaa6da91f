// The members: founding, joining, losing, leaving and returning workers.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {

void Coordinator::BeginTrainingIfComplete(absl::Time now, Effects& effects) {
  if (workers_.size() < options_.workers_wanted || shards_.size() < options_.shards_wanted) return;
  if (!AnyoneBringsStart()) return;
  phase_ = RunPhase::kTraining;
  training_began_ = now;
  for (auto& [index, worker] : workers_) {
    // A worker that begins with other weights fetches the run's first.
    worker.begun = !worker.member.other_start;
    worker.member.first_round = worker.begun ? 0 : kRoundNever;
    worker.joined_epoch = worker.begun ? 0 : membership_.epoch + 1;
    SetMember(worker);
  }
  BeginEpoch();
  DecideIntervals(effects);
  effects.push_back(
      PhaseChanged{phase_, absl::StrCat("all ", options_.workers_wanted, " workers and ",
                                        options_.shards_wanted, " shards are registered")});
}

bool Coordinator::AnyoneBringsStart() const {
  return std::ranges::any_of(workers_,
                             [](const auto& entry) { return !entry.second.member.other_start; });
}

void Coordinator::SetStart(Worker& worker, const std::vector<uint64_t>& hashes) {
  worker.member.other_start = true;  // an earlier registration of this worker does not count
  if (phase_ == RunPhase::kWaiting && !hashes.empty() && !AnyoneBringsStart()) {
    start_hashes_ = hashes;
    manifest_unsaved_ = unsaved_ = true;
  }
  worker.member.other_start = hashes.empty() || hashes != start_hashes_;
}

void Coordinator::DropBeforeStart(uint32_t worker, Effects& effects) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;  // removed along with another worker
  const bool brought_start = !found->second.member.other_start;
  workers_.erase(found);
  unsaved_ = true;
  if (brought_start && !AnyoneBringsStart()) {
    if (!workers_.empty()) {
      Note(effects,
           "nobody is left with the weights that the run was to begin with: "
           "the others register again");
    }
    workers_.clear();
  }
  if (!workers_.empty()) return;
  start_hashes_.clear();
  // The next worker may bring another model, since no worker with this one is left.
  manifest_.reset();
  manifest_unsaved_ = true;
}

void Coordinator::DropSilentBeforeStart(absl::Time now, Effects& effects) {
  const auto is_silent = [&](const auto& entry) {
    return now - entry.second.heard > options_.heartbeat_timeout;
  };
  const auto notice = [&](const std::string& who, absl::Time heard) {
    Note(effects, who, " was not heard for ", FormatSeconds(now - heard),
         " and gives its place up");
  };
  std::vector<uint32_t> silent;
  for (const auto& entry : workers_) {
    if (!is_silent(entry)) continue;
    notice(Describe(entry.second.member), entry.second.heard);
    silent.push_back(entry.first);
  }
  for (const uint32_t worker : silent) DropBeforeStart(worker, effects);
  for (auto it = shards_.begin(); it != shards_.end();) {
    if (!is_silent(*it)) {
      ++it;
      continue;
    }
    notice(absl::StrCat("shard ", it->first), it->second.heard);
    it = shards_.erase(it);
    unsaved_ = true;
  }
}

void Coordinator::Join(Worker& worker, const std::string& how, Effects& effects) {
  worker.lost = worker.left = worker.begun = worker.behind = false;
  worker.member.first_round = kRoundNever;
  worker.ready_round = kRoundNever;
  SetMember(worker);
  LowerFirstRounds();
  BeginEpoch();
  worker.joined_epoch = membership_.epoch;
  Note(effects, Describe(worker.member), " ", how, "; ", Members());
}

void Coordinator::Activate(Worker& worker, Effects& effects) {
  // A sealed run lacks only its weights, and the members that sealed it write them.
  if (IsSealed()) return;
  uint64_t first = worker.ready_round;
  if (AnyoneHasBegun()) first = std::max<uint64_t>(first, uint64_t{NewestRound()} + 1);
  worker.member.first_round = static_cast<uint32_t>(std::min(first, rounds()));
  SetMember(worker);
  BeginEpoch();
  Note(effects, Describe(worker.member), " has caught up and takes part from round ",
       worker.member.first_round, " on; ", Members());
}

void Coordinator::Leave(Worker& worker, const std::string& why, Effects& effects) {
  worker.lost = worker.left = true;
  SetMember(worker);
  LowerFirstRounds();
  BeginEpoch();
  last_loss_ = absl::StrCat(Describe(worker.member), " ", why);
  Note(effects, last_loss_, "; ", Members());
}

void Coordinator::Fail(Worker& worker, const std::string& failure, absl::Time now,
                       Effects& effects) {
  if (worker.is_joining()) {
    return LeaveOut(worker, absl::StrCat("could not join: ", failure), effects);
  }
  // Members that are done or past the heartbeat timeout count as well: they have the model or may
  // come back to it.
  const bool others_go_on = std::ranges::any_of(
      workers_, [&](const auto& entry) { return &entry.second != &worker && !entry.second.left; });
  worker.state.phase = WorkerPhase::kFailed;
  if (!others_go_on) {
    return End(RunPhase::kFailed, absl::StrCat(Describe(worker.member), ": ", failure), now,
               effects);
  }
  const auto failed = std::ranges::count_if(
      workers_, [](const auto& entry) { return entry.second.state.phase == WorkerPhase::kFailed; });
  LeaveOut(worker, absl::StrCat("failed (", failed, " of ", workers_.size(), " have): ", failure),
           effects);
  FinishRounds(now, effects);
  FinishRunIfDone(now, effects);
}

void Coordinator::LeaveOut(Worker& worker, const std::string& why, Effects& effects) {
  worker.state.phase = WorkerPhase::kFailed;
  Leave(worker, why, effects);
}

void Coordinator::On(const WorkerExpelled& expelled, absl::Time now, Effects& effects) {
  Worker* const worker = FindWorker(expelled.name);
  if (worker == nullptr || is_over()) return;
  if (phase_ == RunPhase::kWaiting) {
    Note(effects, Describe(worker->member), " was expelled");
    return DropBeforeStart(worker->member.worker, effects);
  }
  if (worker->left) return;
  Leave(*worker, "was expelled", effects);
  FinishRounds(now, effects);
  FinishRunIfDone(now, effects);
}

void Coordinator::LoseSilentWorkers(absl::Time now, Effects& effects) {
  std::vector<std::string> losses;
  for (auto& [index, worker] : workers_) {
    const absl::Duration silence = now - worker.heard;
    if (worker.lost || silence <= options_.heartbeat_timeout) continue;
    worker.lost = true;
    SetMember(worker);
    losses.push_back(absl::StrCat(Describe(worker.member), " was not heard for ",
                                  FormatSeconds(silence), ", wanted a heartbeat within ",
                                  FormatSeconds(options_.heartbeat_timeout)));
  }
  if (losses.empty()) return;
  LowerFirstRounds();
  BeginEpoch();
  last_loss_ = losses.back();
  const std::string members = Members();
  for (const std::string& loss : losses) {
    Note(effects, loss, "; ", members);
  }
  // Rounds that waited only for the lost workers are complete now.
  FinishRounds(now, effects);
  FinishRunIfDone(now, effects);
}

bool Coordinator::AnyoneHasBegun() const {
  return std::ranges::any_of(
      workers_, [](const auto& entry) { return entry.second.is_active() && entry.second.begun; });
}

bool Coordinator::AnyoneHasRoundsLeft() const {
  return std::ranges::any_of(workers_, [this](const auto& entry) {
    return entry.second.is_active() && !ledger_.HasReportedEnd(entry.first);
  });
}

void Coordinator::LowerFirstRounds() {
  if (AnyoneHasBegun()) return;
  for (auto& [index, worker] : workers_) {
    if (!worker.is_active() || worker.ready_round >= worker.member.first_round) continue;
    worker.member.first_round = worker.ready_round;
    SetMember(worker);
  }
}

void Coordinator::SetMember(Worker& worker) {
  worker.member_epoch = membership_.epoch + 1;
  PutMember(worker);
}

void Coordinator::PutMember(const Worker& worker) {
  std::vector<Member>& members = membership_.members;
  const auto at = std::ranges::lower_bound(members, worker.member.worker, {}, &Member::worker);
  const bool is_there = at != members.end() && at->worker == worker.member.worker;
  if (worker.lost) {
    if (is_there) members.erase(at);
  } else if (is_there) {
    *at = worker.member;
  } else {
    members.insert(at, worker.member);
  }
}

void Coordinator::SetBehind(Worker& worker, bool behind, Effects& effects) {
  if (worker.behind == behind) return;
  worker.behind = behind;
  unsaved_ = true;
  const std::string who = Describe(worker.member);
  effects.push_back(
      Notice{behind ? absl::StrCat(who, " sends heartbeats, but its newest report is more than ",
                                   options_.rounds_behind_max, " rounds old: nobody waits for it")
                    : absl::StrCat(who, " reports rounds again")});
}

std::vector<Member> Coordinator::MembersWaitedFor() const {
  std::vector<Member> members = membership_.members;
  std::erase_if(members, [&](const Member& member) { return workers_.at(member.worker).behind; });
  return members;
}

void Coordinator::BeginEpoch() {
  ++membership_.epoch;
  unsaved_ = true;
}

std::string Coordinator::Members() const {
  const auto joining = std::ranges::count(membership_.members, kRoundNever, &Member::first_round);
  const size_t active = membership_.members.size() - static_cast<size_t>(joining);
  std::string text = absl::StrCat("epoch ", membership_.epoch, " goes on with ", active,
                                  active == 1 ? " worker" : " workers");
  if (joining > 0)
    absl::StrAppend(&text, " and ", joining, " that ", joining == 1 ? "joins" : "join");
  return text;
}

}  // namespace longwave

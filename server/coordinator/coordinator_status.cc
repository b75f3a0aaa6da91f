// The coordinator's answers to heartbeats, and its status.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/sentences.h"

namespace longwave {

WorkerHeartbeatReply Coordinator::ReplyTo(const WorkerHeartbeat& heartbeat) const {
  WorkerHeartbeatReply reply;
  reply.phase = phase_;
  reply.run = run_;
  // Also for a run that is over: an unfinished run's weights are written now, and even an unknown
  // worker is told.
  const Worker* const validator = Validator();
  reply.validates = validator != nullptr && validator->member.worker == heartbeat.worker;
  if (is_over()) {
    reply.instruction = Instruction::kStop;
    reply.reason = reason_;
    return reply;
  }
  const Worker& worker = workers_.at(heartbeat.worker);
  if (worker.left) {
    reply.instruction = Instruction::kStop;
    reply.reason = absl::StrCat(Describe(worker.member), kIsNoMember);
    return reply;
  }
  if (phase_ != RunPhase::kTraining) return reply;
  if (worker.is_active()) reply.repair = worker.repair;
  reply.sealed = IsSealed();
  if (schedule_ && heartbeat.known_rounds < schedule_->plan().decided_rounds())
    reply.intervals = schedule_->plan().From(heartbeat.known_rounds);
  if (!reply.sealed && KnowsRounds() &&
      !ledger_.HasReported(heartbeat.worker, ledger_.sealing_round()))
    reply.sealing_round = ledger_.sealing_round();
  if (EveryShardKnows(worker.member_epoch)) {
    if (heartbeat.known_epoch != membership_.epoch) {
      reply.membership = membership_;
      for (Member& member : reply.membership->members) member.data_key.clear();
      for (const auto& [index, shard] : shards_) reply.shards.push_back(shard.address);
    }
  } else if (heartbeat.known_epoch == 0) {
    reply.phase = RunPhase::kWaiting;  // until every shard knows this member
  }
  return reply;
}

ShardHeartbeatReply Coordinator::ReplyTo(const ShardHeartbeat& heartbeat) const {
  ShardHeartbeatReply reply;
  if (is_over()) {
    reply.instruction = Instruction::kStop;
    reply.reason = reason_;
    return reply;
  }
  if (phase_ != RunPhase::kTraining) return reply;
  if (heartbeat.known_epoch != membership_.epoch) {
    reply.membership = membership_;
    for (Member& member : reply.membership->members) {
      // A member with all rounds pushes no more.
      if (ledger_.HasReportedEnd(member.worker)) member.first_round = kRoundNever;
    }
  }
  if (!heartbeat.knows_manifest) reply.manifest = manifest_;
  for (const SnapshotHash& snapshot : heartbeat.snapshots) {
    const bool is_start = snapshot.round == 0;
    const std::optional<bool> equal = is_start ? IsOfStart(snapshot) : ledger_.Judge(snapshot);
    if (equal) reply.hash_checks.push_back({snapshot.segment, snapshot.round, *equal});
  }
  return reply;
}

bool Coordinator::IsOfStart(const SnapshotHash& snapshot) const {
  return snapshot.segment < start_hashes_.size() &&
         start_hashes_[snapshot.segment] == snapshot.hash;
}

RunStatus Coordinator::Status(uint64_t round_records_from, absl::Time now) const {
  RunStatus status;
  status.phase = phase_;
  if (phase_ == RunPhase::kFailed) status.failure = reason_;
  status.epoch = membership_.epoch;
  for (const auto& [index, worker] : workers_) {
    status.members.push_back(
        {worker.member, worker.state, absl::ToDoubleSeconds(now - worker.heard), worker.alike});
    status.members.back().member.data_key.clear();
    WorkerPhase& phase = status.members.back().state.phase;
    if (worker.is_joining() || worker.behind) phase = WorkerPhase::kJoining;
    if (worker.lost && !worker.left) phase = WorkerPhase::kLost;
    if (worker.left && phase != WorkerPhase::kFailed) phase = WorkerPhase::kDone;
  }
  for (const auto& [index, shard] : shards_) {
    status.shards.push_back({shard.address, shard.state, absl::ToDoubleSeconds(now - shard.heard),
                             shard.silent, shard.trouble, shard.complaint});
  }

  const std::span<const FinishedRound> rounds = ledger_.rounds();
  const uint64_t begin = std::min<uint64_t>(round_records_from, rounds.size());
  const uint64_t end = std::min<uint64_t>(begin + kStatusRecordsMax, rounds.size());
  for (uint64_t i = begin; i < end; ++i) status.records.push_back(rounds[i].record);
  status.record_count = rounds.size();
  status.parameters = manifest_ ? static_cast<uint64_t>(ParameterCount(*manifest_)) : 0;
  status.replicas_equal = ledger_.replicas_equal();
  status.inequality = ledger_.inequality();
  status.seconds = SecondsOfTraining(now);
  status.state_hash = ledger_.state_hash();
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    if (!round->record.validation_loss) continue;
    status.validation_loss = round->record.validation_loss;
    break;
  }
  // A final report is newer than any round's report.
  if (const Worker* const writer = Writer(); writer != nullptr && (is_over() || IsSealed())) {
    if (writer->final->validation_loss) status.validation_loss = writer->final->validation_loss;
    status.model_file = writer->final->model_file;
  }
  status.workers_wanted = options_.workers_wanted;
  status.shards_wanted = options_.shards_wanted;
  status.trouble = Trouble();
  status.repairs = repairs_;
  status.warnings = warnings_;
  if (schedule_) status.interval = schedule_->Status();
  return status;
}

std::span<const FinishedRound> Coordinator::RoundsFrom(uint32_t round) const {
  const std::span<const FinishedRound> rounds = ledger_.rounds();
  const auto first = std::ranges::lower_bound(
      rounds, round, {}, [](const FinishedRound& finished) { return finished.record.round; });
  return rounds.subspan(static_cast<size_t>(first - rounds.begin()));
}

std::string Coordinator::WhoIsRegistered() const {
  std::vector<std::string> names;
  for (const auto& [index, worker] : workers_) names.push_back(worker.member.name);
  return absl::StrCat(workers_.size(), " of ", options_.workers_wanted, " workers",
                      names.empty() ? "" : absl::StrCat(" (", absl::StrJoin(names, ", "), ")"),
                      " and ", shards_.size(), " of ", options_.shards_wanted,
                      " shards are registered", last_loss_.empty() ? "" : "; ", last_loss_);
}

std::string Coordinator::Trouble() const {
  if (!outdated_.empty()) return outdated_;
  if (phase_ == RunPhase::kWaiting) return WhoIsRegistered();
  if (phase_ != RunPhase::kTraining) return "";
  std::vector<std::string> sentences;
  for (const auto& [index, shard] : shards_) {
    if (shard.silent) {
      sentences.push_back(absl::StrCat("shard ", index, " is silent", LastSaid(shard),
                                       ": waiting for it to come back"));
    } else if (!shard.trouble.empty()) {
      sentences.push_back(absl::StrCat("shard ", index, ": ", shard.trouble));
    }
  }
  if (membership_.members.empty()) {
    sentences.push_back("no worker is left: waiting for one to come back");
  }
  if (!lacking_.empty()) sentences.push_back(lacking_);
  return absl::StrJoin(sentences, "; ");
}

std::string Coordinator::LastSaid(const Shard& shard) {
  return shard.trouble.empty() ? "" : absl::StrCat(" (it had said: ", shard.trouble, ")");
}

std::string Coordinator::OverSentence() const {
  return absl::StrCat("the run is over (", std::string(Name(phase_)), ": ", reason_, ")");
}

const Coordinator::Worker* Coordinator::Validator() const {
  const auto rank = [](const Worker& worker) { return std::pair(worker.behind, worker.shirks); };
  const Worker* first = nullptr;
  for (const auto& [index, worker] : workers_) {
    if (!worker.is_active()) continue;
    if (first == nullptr || rank(worker) < rank(*first)) first = &worker;
  }
  return first;
}

bool Coordinator::EveryShardKnows(uint32_t epoch) const {
  return std::ranges::all_of(shards_,
                             [&](const auto& entry) { return entry.second.known_epoch >= epoch; });
}

double Coordinator::SecondsOfTraining(absl::Time now) const {
  if (!training_began_) return seconds_before_;
  return seconds_before_ + absl::ToDoubleSeconds(ended_.value_or(now) - *training_began_);
}

}  // namespace longwave

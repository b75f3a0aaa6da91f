// What the coordinator tells: the answers to heartbeats, and the figures that people look at.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"

namespace longwave {

WorkerHeartbeatReply Coordinator::ReplyTo(const WorkerHeartbeat& heartbeat) const {
  WorkerHeartbeatReply reply;
  reply.phase = phase_;
  reply.run = run_;
  if (is_over()) {
    reply.instruction = Instruction::kStop;
    reply.reason = reason_;
    return reply;
  }
  const Worker& worker = workers_.at(heartbeat.worker);
  if (worker.lost) {
    reply.instruction = Instruction::kStop;
    reply.reason =
        absl::StrCat(Describe(worker.member), " was silent for too long and is no longer a member");
    return reply;
  }
  reply.validates = &worker == Validator();
  if (phase_ != RunPhase::kTraining) return reply;
  if (EveryShardKnowsEpoch()) {
    if (heartbeat.known_epoch != membership_.epoch) {
      reply.membership = membership_;
      for (const auto& [index, shard] : shards_) reply.shards.push_back(shard.address);
    }
  } else if (heartbeat.known_epoch == 0) {
    reply.phase = RunPhase::kWaiting;  // for the shards to know who will push
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
  if (heartbeat.known_epoch != membership_.epoch) reply.membership = membership_;
  if (!heartbeat.knows_manifest) reply.manifest = manifest_;
  return reply;
}

RunStatus Coordinator::Status(uint64_t round_records_from, absl::Time now) const {
  RunStatus status;
  status.phase = phase_;
  if (phase_ == RunPhase::kFailed) status.failure = reason_;
  status.epoch = membership_.epoch;
  for (const auto& [index, worker] : workers_) {
    status.members.push_back(
        {worker.member, worker.state, absl::ToDoubleSeconds(now - worker.heard)});
    if (worker.lost) status.members.back().state.phase = WorkerPhase::kLost;
  }
  for (const auto& [index, shard] : shards_) {
    status.shards.push_back({shard.address, shard.state, absl::ToDoubleSeconds(now - shard.heard)});
  }

  const std::vector<RoundRecord>& records = ledger_.records();
  const uint64_t begin = std::min<uint64_t>(round_records_from, records.size());
  const uint64_t end = std::min<uint64_t>(begin + kStatusRecordsMax, records.size());
  status.records.assign(records.begin() + static_cast<ptrdiff_t>(begin),
                        records.begin() + static_cast<ptrdiff_t>(end));
  status.record_count = records.size();
  status.parameters = manifest_ ? static_cast<uint64_t>(ParameterCount(*manifest_)) : 0;
  status.replicas_equal = ledger_.replicas_equal();
  status.inequality = ledger_.inequality();
  status.seconds = SecondsOfTraining(now);
  if (!records.empty()) status.state_hash = records.back().state_hash;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (!record->validation_loss) continue;
    status.validation_loss = record->validation_loss;
    break;
  }
  // A final report is later than any round's; among several the validating worker's comes first.
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
    const auto& final = worker->second.final;
    if (!final) continue;
    if (final->validation_loss) status.validation_loss = final->validation_loss;
    if (!final->model_file.empty()) status.model_file = final->model_file;
  }
  status.workers_wanted = options_.workers_wanted;
  status.shards_wanted = options_.shards_wanted;
  return status;
}

}  // namespace longwave

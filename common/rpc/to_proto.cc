// Plain values to messages: field for field, nothing is decided here.
#include <string>

#include "common/base/utf8.h"
#include "common/rpc/convert.h"

namespace longwave {
namespace {

std::string Sentence(const std::string& text) { return Utf8Prefix(text, kSentenceBytesMax); }

void Fill(const Member& value, v1::Member* message) {
  message->set_worker(value.worker);
  message->set_name(value.name);
  message->set_first_round(value.first_round);
  message->set_data_key(value.data_key);
  message->set_other_start(value.other_start);
}

void Fill(const Membership& value, v1::Membership* message) {
  message->set_epoch(value.epoch);
  for (const Member& member : value.members) Fill(member, message->add_members());
}

void Fill(const ShardAddress& value, v1::Shard* message) {
  message->set_shard(value.shard);
  message->set_data_endpoint(value.data_endpoint);
  message->set_control_endpoint(value.control_endpoint);
}

void Fill(const ByteCounts& value, v1::ByteCounts* message) {
  message->set_pushed(value.pushed);
  message->set_pulled(value.pulled);
  message->set_payload_pushed(value.payload_pushed);
  message->set_payload_pulled(value.payload_pulled);
}

void Fill(const WorkerState& value, v1::WorkerState* message) {
  message->set_phase(static_cast<v1::WorkerPhase>(value.phase));
  message->set_step(value.step);
  message->set_round(value.round);
  message->set_train_loss(value.train_loss);
  message->set_tokens(value.tokens);
  Fill(value.bytes, message->mutable_bytes());
  message->set_seconds_computing(value.seconds_computing);
  message->set_seconds_syncing(value.seconds_syncing);
}

void Fill(const Traffic& value, v1::Traffic* message) {
  message->set_frames(value.frames);
  message->set_bytes(value.bytes);
  message->set_payload_bytes(value.payload_bytes);
}

void Fill(const TrafficByKind& value, v1::TrafficByKind* message) {
  Fill(value[FrameKind::kHello], message->mutable_hello());
  Fill(value[FrameKind::kPush], message->mutable_push());
  Fill(value[FrameKind::kAnswer], message->mutable_answer());
  Fill(value[FrameKind::kMerged], message->mutable_merged());
  Fill(value[FrameKind::kPull], message->mutable_pull());
  Fill(value[FrameKind::kFetch], message->mutable_fetch());
  Fill(value[FrameKind::kSnapshot], message->mutable_snapshot());
  Fill(value[FrameKind::kAsk], message->mutable_ask());
}

void Fill(const LinkTraffic& value, v1::LinkTraffic* message) {
  Fill(value.sent, message->mutable_sent());
  Fill(value.received, message->mutable_received());
}

void Fill(const ShardState& value, v1::ShardState* message) {
  message->set_pushes_accepted(value.pushes_accepted);
  message->set_pushes_duplicate(value.pushes_duplicate);
  message->set_pushes_late(value.pushes_late);
  message->set_pushes_rejected(value.pushes_rejected);
  message->set_segments_closed(value.segments_closed);
  message->set_open_round(value.open_round);
  message->set_bytes_received(value.bytes_received);
  message->set_bytes_sent(value.bytes_sent);
  message->set_pushes_busy(value.pushes_busy);
  message->set_pushes_clipped(value.pushes_clipped);
  message->set_newest_round(value.newest_round);
  message->set_closed_by_quorum(value.closed_by_quorum);
  message->set_log_bytes(value.log_bytes);
  message->set_snapshot_bytes(value.snapshot_bytes);
  message->set_log_records(value.log_records);
}

void Fill(const Repair& value, v1::Repair* message) {
  message->set_round(value.round);
  message->mutable_segments()->Add(value.segments.begin(), value.segments.end());
}

void Fill(const SnapshotHash& value, v1::SnapshotHash* message) {
  message->set_segment(value.segment);
  message->set_round(value.round);
  message->set_hash(value.hash);
}

void Fill(const SnapshotVerdict& value, v1::SnapshotVerdict* message) {
  message->set_segment(value.segment);
  message->set_round(value.round);
  message->set_equal(value.equal);
}

void Fill(const RoundReport& value, v1::RoundReport* message) {
  message->set_round(value.round);
  message->set_step(value.step);
  message->set_train_loss(value.train_loss);
  if (value.validation_loss.has_value()) message->set_validation_loss(*value.validation_loss);
  message->mutable_segment_hashes()->Add(value.segment_hashes.begin(), value.segment_hashes.end());
  message->set_tokens(value.tokens);
  Fill(value.bytes, message->mutable_bytes());
  message->set_seconds_computing(value.seconds_computing);
  message->set_seconds_syncing(value.seconds_syncing);
}

void Fill(const RoundRecord& value, v1::RoundRecord* message) {
  message->set_round(value.round);
  message->set_step(value.step);
  message->set_train_loss(value.train_loss);
  if (value.validation_loss.has_value()) message->set_validation_loss(*value.validation_loss);
  message->set_tokens(value.tokens);
  Fill(value.bytes, message->mutable_bytes());
  message->set_seconds(value.seconds);
  message->set_tokens_per_second(value.tokens_per_second);
  message->set_replicas_equal(value.replicas_equal);
  message->set_state_hash(value.state_hash);
  message->set_members(value.members);
  message->set_compute_share(value.compute_share);
}

template <typename Message>
void FillRefusals(const std::vector<RefusalCount>& value, Message& message) {
  for (const RefusalCount& refusal : value) {
    v1::RefusalCount* const count = message.add_refusals();
    count->set_reason(refusal.reason);
    count->set_count(refusal.count);
  }
}

}  // namespace

v1::Manifest ToProto(const Manifest& value) {
  v1::Manifest message;
  for (const TensorSpec& tensor : value.tensors) {
    v1::TensorSpec* const spec = message.add_tensors();
    spec->set_name(tensor.name);
    spec->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  }
  message.set_hash(HashOf(value));
  return message;
}

v1::RegisterWorkerRequest ToProto(const RegisterWorker& value) {
  v1::RegisterWorkerRequest message;
  message.set_name(value.name);
  *message.mutable_manifest() = ToProto(value.manifest);
  message.set_layout_hash(value.layout_hash);
  message.set_incarnation(value.incarnation);
  message.set_settings(value.settings);
  message.set_identity(value.identity);
  message.set_process(value.process);
  message.set_data_key(value.data_key);
  message.mutable_start_hashes()->Add(value.start_hashes.begin(), value.start_hashes.end());
  return message;
}

v1::GetRunResponse ToProto(const RunDescription& value) {
  v1::GetRunResponse message;
  message.set_configuration(value.configuration);
  if (value.manifest.has_value()) *message.mutable_manifest() = ToProto(*value.manifest);
  return message;
}

v1::RegisterShardRequest ToProto(const RegisterShard& value) {
  v1::RegisterShardRequest message;
  message.set_shard(value.shard);
  message.set_data_endpoint(value.data_endpoint);
  message.set_control_endpoint(value.control_endpoint);
  message.set_incarnation(value.incarnation);
  message.set_settings(value.settings);
  message.set_run(value.run);
  message.set_folder(value.folder);
  return message;
}

v1::RegisterShardResponse ToProto(const ShardRegistration& value) {
  v1::RegisterShardResponse message;
  message.set_run(value.run);
  message.set_restore(value.restore);
  message.set_rounds(value.rounds);
  message.set_log_records(value.log_records);
  message.set_told_epoch(value.told_epoch);
  return message;
}

v1::WorkerHeartbeatRequest ToProto(const WorkerHeartbeat& value) {
  v1::WorkerHeartbeatRequest message;
  message.set_worker(value.worker);
  message.set_incarnation(value.incarnation);
  Fill(value.state, message.mutable_state());
  for (const RoundReport& round : value.rounds) Fill(round, message.add_rounds());
  message.set_known_epoch(value.known_epoch);
  message.set_failure(Sentence(value.failure));
  if (value.final.has_value()) {
    v1::FinalReport* const final_report = message.mutable_final();
    if (value.final->validation_loss.has_value()) {
      final_report->set_validation_loss(*value.final->validation_loss);
    }
    final_report->set_model_file(Utf8Prefix(value.final->model_file, kPathBytesMax));
  }
  if (value.ready_round != kRoundNever) message.set_ready_round(value.ready_round);
  message.set_leaving(value.leaving);
  return message;
}

v1::WorkerHeartbeatResponse ToProto(const WorkerHeartbeatReply& value) {
  v1::WorkerHeartbeatResponse message;
  message.set_instruction(static_cast<v1::Instruction>(value.instruction));
  message.set_reason(Sentence(value.reason));
  message.set_phase(static_cast<v1::RunPhase>(value.phase));
  message.set_run(value.run);
  if (value.membership.has_value()) Fill(*value.membership, message.mutable_membership());
  for (const ShardAddress& shard : value.shards) Fill(shard, message.add_shards());
  message.set_validates(value.validates);
  if (value.repair.has_value()) Fill(*value.repair, message.mutable_repair());
  message.set_sealing_round(value.sealing_round);
  message.set_sealed(value.sealed);
  return message;
}

v1::ShardHeartbeatRequest ToProto(const ShardHeartbeat& value) {
  v1::ShardHeartbeatRequest message;
  message.set_shard(value.shard);
  message.set_incarnation(value.incarnation);
  message.set_known_epoch(value.known_epoch);
  message.set_knows_manifest(value.knows_manifest);
  Fill(value.state, message.mutable_state());
  message.set_failure(Sentence(value.failure));
  message.set_trouble(Sentence(value.trouble));
  for (const SnapshotHash& snapshot : value.snapshots) Fill(snapshot, message.add_snapshots());
  message.set_names_version(value.names_version);
  message.set_complaint(Sentence(value.complaint));
  return message;
}

v1::ShardHeartbeatResponse ToProto(const ShardHeartbeatReply& value) {
  v1::ShardHeartbeatResponse message;
  message.set_instruction(static_cast<v1::Instruction>(value.instruction));
  message.set_reason(Sentence(value.reason));
  if (value.membership.has_value()) Fill(*value.membership, message.mutable_membership());
  if (value.manifest.has_value()) *message.mutable_manifest() = ToProto(*value.manifest);
  for (const SnapshotVerdict& verdict : value.verdicts) Fill(verdict, message.add_verdicts());
  if (value.names.has_value()) {
    v1::CallerNames* const names = message.mutable_names();
    names->set_version(value.names->version);
    for (const std::string& name : value.names->expelled) names->add_expelled(name);
    for (const NameOwner& owner : value.names->owners) {
      v1::NameOwner* const added = names->add_owners();
      added->set_subject(owner.subject);
      added->set_key(owner.key.data(), owner.key.size());
    }
  }
  return message;
}

v1::GetStatusResponse ToProto(const RunStatus& value) {
  v1::GetStatusResponse message;
  message.set_phase(static_cast<v1::RunPhase>(value.phase));
  message.set_failure(Sentence(value.failure));
  message.set_epoch(value.epoch);
  for (const MemberStatus& member : value.members) {
    v1::MemberStatus* const status = message.add_members();
    Fill(member.member, status->mutable_member());
    Fill(member.state, status->mutable_state());
    status->set_heartbeat_age_seconds(member.heartbeat_age_s);
  }
  for (const ShardStatus& shard : value.shards) {
    v1::ShardStatus* const status = message.add_shards();
    Fill(shard.shard, status->mutable_shard());
    Fill(shard.state, status->mutable_state());
    status->set_heartbeat_age_seconds(shard.heartbeat_age_s);
    status->set_silent(shard.silent);
    status->set_trouble(Sentence(shard.trouble));
    status->set_complaint(Sentence(shard.complaint));
  }
  for (const RoundRecord& record : value.records) Fill(record, message.add_records());
  message.set_record_count(value.record_count);
  message.set_parameters(value.parameters);
  message.set_replicas_equal(value.replicas_equal);
  message.set_inequality(Sentence(value.inequality));
  message.set_seconds(value.seconds);
  if (value.validation_loss.has_value()) message.set_validation_loss(*value.validation_loss);
  message.set_state_hash(value.state_hash);
  message.set_model_file(Utf8Prefix(value.model_file, kPathBytesMax));
  message.set_workers_wanted(value.workers_wanted);
  message.set_shards_wanted(value.shards_wanted);
  message.set_trouble(Sentence(value.trouble));
  message.set_repairs(value.repairs);
  FillRefusals(value.refusals, message);
  message.set_secured(value.secured);
  return message;
}

v1::GetShardStatusResponse ToProto(const ShardReport& value) {
  v1::GetShardStatusResponse message;
  message.set_shard(value.shard);
  Fill(value.state, message.mutable_state());
  for (const SegmentReport& segment : value.segments) {
    v1::SegmentStatus* const status = message.add_segments();
    status->set_segment(segment.segment);
    status->set_open_round(segment.open_round);
    status->mutable_waiting_for()->Add(segment.waiting_for.begin(), segment.waiting_for.end());
    status->set_open_bytes(segment.open_bytes);
  }
  Fill(value.traffic, message.mutable_traffic());
  for (const WorkerLinkReport& worker : value.workers) {
    v1::WorkerLink* const link = message.add_workers();
    link->set_worker(worker.worker);
    link->set_connections(worker.connections);
    link->set_bytes_per_second(worker.bytes_per_second);
    link->set_frames_waiting(worker.frames_waiting);
    link->set_bytes_waiting(worker.bytes_waiting);
    Fill(worker.traffic, link->mutable_traffic());
  }
  FillRefusals(value.refusals, message);
  message.set_secured(value.secured);
  return message;
}

}  // namespace longwave

// Messages to plain values, with the checks that convert.h promises.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/rpc/convert.h"

namespace longwave {
namespace {

// What could not be read from one message, the first of it; reading goes on over it.
class Checks {
 public:
  explicit Checks(const char* message) : message_(message) {}

  double Duration(const char* field, double value) {
    if (!std::isfinite(value) || value < 0) {
      Refuse(field, absl::StrCat("got ", value, ", wanted a duration of 0 or more"));
    }
    return value;
  }

  double Finite(const char* field, double value) {
    if (!std::isfinite(value))
      Refuse(field, absl::StrCat("got ", value, ", wanted a finite number"));
    return value;
  }

  const std::string& Text(const char* field, const std::string& value,
                          int bytes_max = kTextBytesMax) {
    if (value.size() > static_cast<size_t>(bytes_max)) {
      Refuse(field, absl::StrCat("got ", value.size(), " bytes, wanted at most ", bytes_max));
    }
    return value;
  }

  // A text for people, which is escaped where it is shown.
  const std::string& Sentence(const char* field, const std::string& value) {
    return Text(field, value, kSentenceBytesMax);
  }

  // A name or an address: one word among others in sentences and tables.
  const std::string& Name(const char* field, const std::string& value) {
    if (FindControlCharacter(value, "") != std::string::npos) {
      Refuse(field,
             absl::StrCat("got ", Quotable(value), ", wanted one without control characters"));
    }
    return Text(field, value, kNameBytesMax);
  }

  static constexpr size_t kKeyBytes = 32;
  // Empty: none.
  const std::string& DataKey(const std::string& value) {
    return value.empty() ? value : Key("data_key", value);
  }
  const std::string& Key(const char* field, const std::string& value) {
    if (value.size() != kKeyBytes)
      Refuse(field, absl::StrCat("got ", value.size(), " bytes, wanted ", kKeyBytes));
    return value;
  }

  // False, and refused, if there are more than `limit`.
  bool AtMost(const char* field, int count, int limit) {
    if (count <= limit) return true;
    Refuse(field, absl::StrCat("got ", count, ", wanted at most ", limit));
    return false;
  }

  // Enums of control.h and of the protos have the same numbers; 0 is "not set".
  template <typename Enum>
  Enum Known(const char* field, int value, Enum last) {
    if (value >= 1 && value <= static_cast<int>(last)) return static_cast<Enum>(value);
    Refuse(field, absl::StrCat("got ", value, ", wanted 1 to ", static_cast<int>(last)));
    return last;
  }

  const absl::Status& status() const { return status_; }
  template <typename Value>
  absl::StatusOr<Value> Return(Value value) const {
    if (!status_.ok()) return status_;
    return value;
  }

 private:
  void Refuse(const char* field, const std::string& what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(message_, ": ", field, ": ", what));
  }

  const char* const message_;
  absl::Status status_;
};

Member Read(const v1::Member& message, Checks& checks) {
  return {.worker = message.worker(),
          .name = checks.Name("member's name", message.name()),
          .first_round = message.first_round(),
          .data_key = checks.DataKey(message.data_key()),
          .other_start = message.other_start()};
}

Membership Read(const v1::Membership& message, Checks& checks) {
  Membership value{.epoch = message.epoch()};
  if (!checks.AtMost("members", message.members_size(), kMembersMax)) return value;
  for (const v1::Member& member : message.members()) value.members.push_back(Read(member, checks));
  return value;
}

ShardAddress Read(const v1::Shard& message, Checks& checks) {
  return {.shard = message.shard(),
          .data_endpoint = checks.Name("data_endpoint", message.data_endpoint()),
          .control_endpoint = checks.Name("control_endpoint", message.control_endpoint())};
}

ByteCounts Read(const v1::ByteCounts& message) {
  return {.pushed = message.pushed(),
          .pulled = message.pulled(),
          .payload_pushed = message.payload_pushed(),
          .payload_pulled = message.payload_pulled()};
}

// last_phase: kFailed from a worker, which cannot say of itself that it is lost.
WorkerState Read(const v1::WorkerState& message, WorkerPhase last_phase, Checks& checks) {
  return {.phase = checks.Known("phase", message.phase(), last_phase),
          .step = message.step(),
          .round = message.round(),
          .train_loss = message.train_loss(),
          .tokens = message.tokens(),
          .bytes = Read(message.bytes()),
          .seconds_computing = checks.Duration("seconds_computing", message.seconds_computing()),
          .seconds_syncing = checks.Duration("seconds_syncing", message.seconds_syncing())};
}

ShardState Read(const v1::ShardState& message) {
  return {.pushes_accepted = message.pushes_accepted(),
          .pushes_duplicate = message.pushes_duplicate(),
          .pushes_late = message.pushes_late(),
          .pushes_rejected = message.pushes_rejected(),
          .segments_closed = message.segments_closed(),
          .open_round = message.open_round(),
          .bytes_received = message.bytes_received(),
          .bytes_sent = message.bytes_sent(),
          .pushes_busy = message.pushes_busy(),
          .pushes_clipped = message.pushes_clipped(),
          .newest_round = message.newest_round(),
          .closed_by_quorum = message.closed_by_quorum(),
          .log_bytes = message.log_bytes(),
          .snapshot_bytes = message.snapshot_bytes(),
          .log_records = message.log_records()};
}

template <typename Message>
std::vector<RefusalCount> ReadRefusals(const Message& message, Checks& checks) {
  constexpr int kReasonsMax = 256;
  std::vector<RefusalCount> counts;
  if (!checks.AtMost("refusals", message.refusals_size(), kReasonsMax)) return counts;
  for (const v1::RefusalCount& count : message.refusals())
    counts.push_back({checks.Name("refusal", count.reason()), count.count()});
  return counts;
}

Repair Read(const v1::Repair& message, Checks& checks) {
  Repair value{.round = message.round()};
  if (checks.AtMost("repair's segments", message.segments_size(), kSegmentsMax)) {
    value.segments.assign(message.segments().begin(), message.segments().end());
  }
  return value;
}

SnapshotHash Read(const v1::SnapshotHash& message) {
  return {.segment = message.segment(), .round = message.round(), .hash = message.hash()};
}

SnapshotVerdict Read(const v1::SnapshotVerdict& message) {
  return {.segment = message.segment(), .round = message.round(), .equal = message.equal()};
}

Traffic Read(const v1::Traffic& message) {
  return {.frames = message.frames(),
          .bytes = message.bytes(),
          .payload_bytes = message.payload_bytes()};
}

TrafficByKind Read(const v1::TrafficByKind& message) {
  TrafficByKind value;
  value[FrameKind::kHello] = Read(message.hello());
  value[FrameKind::kPush] = Read(message.push());
  value[FrameKind::kAnswer] = Read(message.answer());
  value[FrameKind::kMerged] = Read(message.merged());
  value[FrameKind::kPull] = Read(message.pull());
  value[FrameKind::kFetch] = Read(message.fetch());
  value[FrameKind::kSnapshot] = Read(message.snapshot());
  value[FrameKind::kAsk] = Read(message.ask());
  return value;
}

LinkTraffic Read(const v1::LinkTraffic& message) {
  return {.sent = Read(message.sent()), .received = Read(message.received())};
}

template <typename Message>
std::optional<double> ValidationLoss(const Message& message) {
  if (!message.has_validation_loss()) return std::nullopt;
  return message.validation_loss();
}

RoundReport Read(const v1::RoundReport& message, Checks& checks) {
  RoundReport value{
      .round = message.round(),
      .step = message.step(),
      .train_loss = message.train_loss(),
      .validation_loss = ValidationLoss(message),
      .tokens = message.tokens(),
      .bytes = Read(message.bytes()),
      .seconds_computing = checks.Duration("seconds_computing", message.seconds_computing()),
      .seconds_syncing = checks.Duration("seconds_syncing", message.seconds_syncing())};
  if (checks.AtMost("segment_hashes", message.segment_hashes_size(), kSegmentsMax)) {
    value.segment_hashes.assign(message.segment_hashes().begin(), message.segment_hashes().end());
  }
  return value;
}

RoundRecord Read(const v1::RoundRecord& message, Checks& checks) {
  return {.round = message.round(),
          .step = message.step(),
          .train_loss = message.train_loss(),
          .validation_loss = ValidationLoss(message),
          .tokens = message.tokens(),
          .bytes = Read(message.bytes()),
          .seconds = checks.Duration("seconds", message.seconds()),
          .tokens_per_second = checks.Finite("tokens_per_second", message.tokens_per_second()),
          .replicas_equal = message.replicas_equal(),
          .state_hash = message.state_hash(),
          .members = message.members(),
          .compute_share = checks.Finite("compute_share", message.compute_share())};
}

}  // namespace

absl::StatusOr<Manifest> FromProto(const v1::Manifest& message) {
  Checks checks("manifest");
  Manifest value;
  if (!checks.AtMost("tensors", message.tensors_size(), static_cast<int>(kManifestTensorsMax))) {
    return checks.status();
  }
  value.tensors.reserve(message.tensors_size());
  for (const v1::TensorSpec& tensor : message.tensors()) {
    checks.Text("tensor's name", tensor.name());
    if (!checks.AtMost("tensor's dimensions", tensor.shape_size(), kTensorRankMax)) break;
    value.tensors.push_back(
        {.name = tensor.name(), .shape = {tensor.shape().begin(), tensor.shape().end()}});
  }
  LONGWAVE_RETURN_IF_ERROR(checks.status());
  LONGWAVE_RETURN_IF_ERROR(Validate(value));
  if (const uint64_t hash = HashOf(value); hash != message.hash()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("manifest: says hash %016x, its tensors have %016x", message.hash(), hash));
  }
  return value;
}

absl::StatusOr<RegisterWorker> FromProto(const v1::RegisterWorkerRequest& message) {
  Checks checks("worker's registration");
  RegisterWorker value{.name = checks.Name("name", message.name()),
                       .identity = message.identity(),
                       .layout_hash = message.layout_hash(),
                       .incarnation = message.incarnation(),
                       .settings = checks.Text("settings", message.settings()),
                       .process = message.process(),
                       .data_key = checks.DataKey(message.data_key())};
  if (checks.AtMost("start_hashes", message.start_hashes_size(), kSegmentsMax))
    value.start_hashes.assign(message.start_hashes().begin(), message.start_hashes().end());
  LONGWAVE_RETURN_IF_ERROR(checks.status());
  LONGWAVE_ASSIGN_OR_RETURN(value.manifest, FromProto(message.manifest()));
  return value;
}

absl::StatusOr<RunDescription> FromProto(const v1::GetRunResponse& message) {
  Checks checks("the run's description");
  RunDescription value{.configuration = checks.Text("configuration", message.configuration())};
  LONGWAVE_RETURN_IF_ERROR(checks.status());
  if (!message.has_manifest()) return value;
  LONGWAVE_ASSIGN_OR_RETURN(value.manifest, FromProto(message.manifest()));
  return value;
}

absl::StatusOr<RegisterShard> FromProto(const v1::RegisterShardRequest& message) {
  Checks checks("shard's registration");
  return checks.Return(
      RegisterShard{.shard = message.shard(),
                    .data_endpoint = checks.Name("data_endpoint", message.data_endpoint()),
                    .control_endpoint = checks.Name("control_endpoint", message.control_endpoint()),
                    .incarnation = message.incarnation(),
                    .settings = checks.Text("settings", message.settings()),
                    .run = message.run(),
                    .folder = message.folder()});
}

absl::StatusOr<ShardRegistration> FromProto(const v1::RegisterShardResponse& message) {
  return ShardRegistration{.run = message.run(),
                           .restore = message.restore(),
                           .rounds = message.rounds(),
                           .log_records = message.log_records(),
                           .told_epoch = message.told_epoch()};
}

absl::StatusOr<WorkerHeartbeat> FromProto(const v1::WorkerHeartbeatRequest& message) {
  Checks checks("worker's heartbeat");
  WorkerHeartbeat value{.worker = message.worker(),
                        .incarnation = message.incarnation(),
                        .state = Read(message.state(), WorkerPhase::kFailed, checks),
                        .known_epoch = message.known_epoch(),
                        .failure = checks.Sentence("failure", message.failure())};
  if (checks.AtMost("rounds", message.rounds_size(), kRoundsMax)) {
    for (const v1::RoundReport& round : message.rounds()) {
      value.rounds.push_back(Read(round, checks));
    }
  }
  if (message.has_final()) {
    value.final = FinalReport{
        .validation_loss = ValidationLoss(message.final()),
        .model_file = checks.Text("model_file", message.final().model_file(), kPathBytesMax)};
  }
  if (message.has_ready_round()) value.ready_round = message.ready_round();
  value.leaving = message.leaving();
  return checks.Return(std::move(value));
}

absl::StatusOr<WorkerHeartbeatReply> FromProto(const v1::WorkerHeartbeatResponse& message) {
  Checks checks("answer to a worker's heartbeat");
  WorkerHeartbeatReply value{
      .instruction = checks.Known("instruction", message.instruction(), Instruction::kStop),
      .reason = checks.Sentence("reason", message.reason()),
      .phase = checks.Known("phase", message.phase(), RunPhase::kStopped),
      .run = message.run(),
      .validates = message.validates(),
      .sealing_round = message.sealing_round(),
      .sealed = message.sealed()};
  if (message.has_membership()) value.membership = Read(message.membership(), checks);
  if (checks.AtMost("shards", message.shards_size(), kMembersMax)) {
    for (const v1::Shard& shard : message.shards()) value.shards.push_back(Read(shard, checks));
  }
  if (message.has_repair()) value.repair = Read(message.repair(), checks);
  return checks.Return(std::move(value));
}

absl::StatusOr<ShardHeartbeat> FromProto(const v1::ShardHeartbeatRequest& message) {
  Checks checks("shard's heartbeat");
  ShardHeartbeat value{.shard = message.shard(),
                       .incarnation = message.incarnation(),
                       .known_epoch = message.known_epoch(),
                       .knows_manifest = message.knows_manifest(),
                       .state = Read(message.state()),
                       .failure = checks.Sentence("failure", message.failure()),
                       .trouble = checks.Sentence("trouble", message.trouble()),
                       .complaint = checks.Sentence("complaint", message.complaint())};
  if (checks.AtMost("snapshots", message.snapshots_size(), kSegmentsMax)) {
    for (const v1::SnapshotHash& snapshot : message.snapshots()) {
      value.snapshots.push_back(Read(snapshot));
    }
  }
  value.names_version = message.names_version();
  return checks.Return(std::move(value));
}

absl::StatusOr<ShardHeartbeatReply> FromProto(const v1::ShardHeartbeatResponse& message) {
  Checks checks("answer to a shard's heartbeat");
  ShardHeartbeatReply value{
      .instruction = checks.Known("instruction", message.instruction(), Instruction::kStop),
      .reason = checks.Sentence("reason", message.reason())};
  if (message.has_membership()) value.membership = Read(message.membership(), checks);
  if (checks.AtMost("verdicts", message.verdicts_size(), kSegmentsMax)) {
    for (const v1::SnapshotVerdict& verdict : message.verdicts()) {
      value.verdicts.push_back(Read(verdict));
    }
  }
  if (message.has_names()) {
    CallerNames& names = value.names.emplace();
    names.version = message.names().version();
    for (const std::string& name : message.names().expelled())
      names.expelled.push_back(checks.Name("expelled", name));
    for (const v1::NameOwner& message_owner : message.names().owners()) {
      NameOwner owner{.subject = checks.Name("subject", message_owner.subject())};
      const std::string& key = checks.Key("key", message_owner.key());
      std::memcpy(owner.key.data(), key.data(), std::min(key.size(), owner.key.size()));
      names.owners.push_back(std::move(owner));
    }
  }
  LONGWAVE_RETURN_IF_ERROR(checks.status());
  if (message.has_manifest()) {
    LONGWAVE_ASSIGN_OR_RETURN(value.manifest, FromProto(message.manifest()));
  }
  return value;
}

absl::StatusOr<RunStatus> FromProto(const v1::GetStatusResponse& message) {
  Checks checks("status of the run");
  RunStatus value{.phase = checks.Known("phase", message.phase(), RunPhase::kStopped),
                  .failure = checks.Sentence("failure", message.failure()),
                  .epoch = message.epoch(),
                  .record_count = message.record_count(),
                  .parameters = message.parameters(),
                  .replicas_equal = message.replicas_equal(),
                  .inequality = checks.Sentence("inequality", message.inequality()),
                  .seconds = checks.Duration("seconds", message.seconds()),
                  .validation_loss = ValidationLoss(message),
                  .state_hash = message.state_hash(),
                  .model_file = checks.Text("model_file", message.model_file(), kPathBytesMax),
                  .workers_wanted = message.workers_wanted(),
                  .shards_wanted = message.shards_wanted(),
                  .trouble = checks.Sentence("trouble", message.trouble()),
                  .repairs = message.repairs(),
                  .refusals = ReadRefusals(message, checks),
                  .secured = message.secured()};
  if (!checks.AtMost("members", message.members_size(), kMembersMax) ||
      !checks.AtMost("shards", message.shards_size(), kMembersMax) ||
      !checks.AtMost("records", message.records_size(), kRoundsMax)) {
    return checks.status();
  }
  for (const v1::MemberStatus& member : message.members()) {
    value.members.push_back(
        {.member = Read(member.member(), checks),
         .state = Read(member.state(), WorkerPhase::kJoining, checks),
         .heartbeat_age_s = checks.Duration("heartbeat_age", member.heartbeat_age_seconds())});
  }
  for (const v1::ShardStatus& shard : message.shards()) {
    value.shards.push_back(
        {.shard = Read(shard.shard(), checks),
         .state = Read(shard.state()),
         .heartbeat_age_s = checks.Duration("heartbeat_age", shard.heartbeat_age_seconds()),
         .silent = shard.silent(),
         .trouble = checks.Sentence("shard's trouble", shard.trouble()),
         .complaint = checks.Sentence("shard's complaint", shard.complaint())});
  }
  for (const v1::RoundRecord& record : message.records()) {
    value.records.push_back(Read(record, checks));
  }
  return checks.Return(std::move(value));
}

absl::StatusOr<ShardReport> FromProto(const v1::GetShardStatusResponse& message) {
  Checks checks("status of a shard");
  ShardReport value{.shard = message.shard(), .state = Read(message.state())};
  value.refusals = ReadRefusals(message, checks);
  value.secured = message.secured();
  if (!checks.AtMost("segments", message.segments_size(), kSegmentsMax)) return checks.status();
  for (const v1::SegmentStatus& segment : message.segments()) {
    if (!checks.AtMost("waiting_for", segment.waiting_for_size(), kMembersMax)) break;
    value.segments.push_back(
        {.segment = segment.segment(),
         .open_round = segment.open_round(),
         .waiting_for = {segment.waiting_for().begin(), segment.waiting_for().end()},
         .open_bytes = segment.open_bytes()});
  }
  value.traffic = Read(message.traffic());
  if (!checks.AtMost("workers", message.workers_size(), kMembersMax)) return checks.status();
  for (const v1::WorkerLink& worker : message.workers()) {
    value.workers.push_back({.worker = worker.worker(),
                             .connections = worker.connections(),
                             .bytes_per_second = worker.bytes_per_second(),
                             .frames_waiting = worker.frames_waiting(),
                             .bytes_waiting = worker.bytes_waiting(),
                             .traffic = Read(worker.traffic())});
  }
  return checks.Return(std::move(value));
}

}  // namespace longwave

// Opening a shard from its folder, at the start and after a failure, or from the members' replicas.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/shard/aggregator_checks.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/shard_store.h"
#include "server/store/snapshot_content.h"

namespace longwave {
namespace {

// The first record of a log that begins in mid-run. As long as the log has it, the shard restores
// segments without a state snapshot, also after a restart.
constexpr absl::string_view kRestoreNote =
    "this log begins in mid-run: segments come from replicas";

// A copy, so that the payload does not keep the whole file in memory.
Buffer Copied(const Buffer& payload) {
  return Buffer(std::vector<std::byte>(payload.bytes().begin(), payload.bytes().end()));
}

}  // namespace

absl::Status DurableShard::OpenAll() {
  AggregatorOptions options = options_.aggregator;
  options.logs = open_store_ != nullptr;
  if (options_.can_catch_up && (options.logs || options_.restore)) {
    options.snapshot_bytes += SnapshotBytes() * (options_.keeps_start ? 2 : 1);
  }
  if (options_.lowers_open_bytes) {
    LONGWAVE_ASSIGN_OR_RETURN(const uint64_t left, OpenBytesLeft(options, layout_));
    options.open_bytes_max = std::min(options.open_bytes_max, left);
  }
  open_bytes_max_ = options.open_bytes_max;
  LONGWAVE_ASSIGN_OR_RETURN(Aggregator aggregator, Aggregator::Create(options, layout_));
  aggregator_ = std::make_unique<Aggregator>(std::move(aggregator));
  progress_.assign(segment_count_, {});
  bool restores = options_.restore;
  if (open_store_ != nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(store_, open_store_());
    LONGWAVE_ASSIGN_OR_RETURN(restores, Recover());
  }
  if (restores) {
    for (uint32_t i = 0; i < segment_count_; ++i) {
      const uint32_t segment = first_segment_ + i;
      if (progress_[i].has_state) continue;
      restores_.emplace(segment, ReplicaRestore(segment, options_.rounds));
      aggregator_->AwaitRestore(segment);
    }
  }
  if (!restores_.empty()) {
    notices_.push_back(absl::StrCat(restores_.size(), " of ", segment_count_,
                                    " segments are to be restored from the members' replicas"));
  }
  return absl::OkStatus();
}

uint64_t DurableShard::SnapshotBytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < segment_count_; ++i) bytes += ModelBytes(first_segment_ + i);
  return bytes;
}

absl::StatusOr<bool> DurableShard::Recover() {
  DeltaLog& log = store_->log();
  const LogRecovery& found = log.recovery();
  for (const DamagedSnapshot& damaged : store_->snapshots().damaged())
    notices_.push_back(damaged.reason);
  if (!found.cut.empty()) notices_.push_back(found.cut);
  LONGWAVE_RETURN_IF_ERROR(CheckLog(found));
  if (found.next_sequence == 1 && options_.restore) {
    LONGWAVE_RETURN_IF_ERROR(log.Append(NoteRecord{0, std::string(kRestoreNote)}).status());
    LONGWAVE_RETURN_IF_ERROR(log.Sync());
  }

  uint64_t from = found.next_sequence;
  for (uint32_t i = 0; i < segment_count_; ++i) {
    LONGWAVE_RETURN_IF_ERROR(RestoreSegment(first_segment_ + i));
    from = std::min(from, progress_[i].replay_from);
  }
  bool restores = found.next_sequence == 1 && options_.restore;
  const auto replay = [&](uint64_t sequence, const LogRecord& record) {
    if (const auto* note = std::get_if<NoteRecord>(&record)) restores |= note->text == kRestoreNote;
    return ReplayRecord(sequence, record);
  };
  LONGWAVE_RETURN_IF_ERROR(log.Replay(from, replay));
  LONGWAVE_RETURN_IF_ERROR(CheckRounds(restores));

  // The newest membership may be in the log before the replayed records, or not be in it yet.
  if (found.membership.epoch > 0) {
    LONGWAVE_RETURN_IF_ERROR(aggregator_->Replay(MembershipRecord{found.membership}));
    membership_sequence_ = found.membership_sequence;
  }
  if (membership_.epoch <= found.membership.epoch) {
    membership_ = found.membership;
  } else {
    KeepMembership();
    LONGWAVE_RETURN_IF_ERROR(aggregator_->Replay(MembershipRecord{membership_}));
  }
  WantMissingModels();
  WantMissingStarts();
  if (found.next_sequence > 1) {
    notices_.push_back(absl::StrCat("recovered: records ", from, " to ", found.next_sequence - 1,
                                    " of the log, open round ", state().open_round));
  }
  return restores;
}

absl::Status DurableShard::CheckLog(const LogRecovery& found) {
  if (found.next_sequence < durable_before_) {
    return FailedPrecondition(
        "the folder is not the one that was there, or is from an older time: its log ends before ",
        "record ", found.next_sequence, ", wanted at least record ", durable_before_ - 1,
        ", which was durable; is its disk mounted? ", kShardWayOut);
  }
  for (const SnapshotHeader& header : store_->snapshots().All()) {
    if (header.replay_from <= found.next_sequence) continue;
    return DataLoss("the end of the log is lost: it ends before record ", found.next_sequence,
                    ", and ", SnapshotName(header.key), " goes on with record ",
                    header.replay_from);
  }
  // An older coordinator also tells epochs: an epoch told since counts only once it is in the log.
  knows_untold_epoch_ = found.membership.epoch > told_epoch_;
  if (!knows_untold_epoch_) return absl::OkStatus();
  return FailedPrecondition(
      "the coordinator's folder is from an older time: the log has epoch ", found.membership.epoch,
      ", wanted none after ", told_epoch_,
      ", the last that the coordinator knows to have told. Start it again with its newest folder");
}

absl::Status DurableShard::CheckRounds(bool restores) const {
  for (uint32_t i = 0; i < segment_count_; ++i) {
    const uint32_t open_round = aggregator_->open_round(first_segment_ + i);
    const bool is_to_come = restores && !progress_[i].has_state;
    if (is_to_come || open_round >= options_.rounds) continue;
    return FailedPrecondition("the folder is from an older time: segment ", first_segment_ + i,
                              " has the rounds before ", open_round, ", wanted all before ",
                              options_.rounds, ", which the run has finished. ", kShardWayOut);
  }
  return absl::OkStatus();
}

// A stop loses open requests and snapshots without a hash check.
void DurableShard::WantMissingModels() {
  if (!options_.can_catch_up) return;
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment) {
    const auto latest = store_->snapshots().Latest(SnapshotKind::kModel, segment);
    const uint32_t have = latest.has_value() ? latest->key.round : 0;
    if (have < LastModelRound(segment, OpenRound(segment))) WantModel(segment);
  }
}

void DurableShard::WantMissingStarts() {
  if (!options_.keeps_start) return;
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment) {
    if (store_->snapshots().Latest(SnapshotKind::kStart, segment).has_value()) continue;
    start_requests_.Want(segment, 0, segment, RequestPatience(segment));
  }
}

void DurableShard::NoteMissingStarts() {
  if (!options_.keeps_start || store_ == nullptr || said_no_start_) return;
  if (!MembersOfStart().empty()) return;
  uint32_t missing = 0;
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment)
    missing += !store_->snapshots().Latest(SnapshotKind::kStart, segment).has_value();
  if (missing == 0) return;
  said_no_start_ = true;
  notices_.push_back(absl::StrCat(
      "of ", missing, " of ", segment_count_,
      " segments this shard lacks what the run began with, ",
      "and no member has it now: without it `longwave replay` begins with a later snapshot"));
}

absl::StatusOr<std::vector<SegmentSnapshot>> DurableShard::ReadState(const SnapshotHeader& header) {
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer content, store_->snapshots().Read(header.key));
  return DecodeStateContent(content, header.key.segment_count);
}

absl::Status DurableShard::RestoreSegment(uint32_t segment) {
  Progress& progress = ProgressOf(segment);
  const uint64_t first = store_->log().recovery().first_sequence;
  SnapshotStore& snapshots = store_->snapshots();
  std::string damaged;
  for (;;) {
    const auto latest = snapshots.Latest(SnapshotKind::kState, segment);
    if (!latest.has_value() || latest->replay_from < first) break;
    auto state = ReadState(*latest);
    if (state.ok()) {
      SegmentSnapshot snapshot = std::move((*state)[segment - latest->key.first_segment]);
      if (snapshot.closed.has_value()) snapshot.closed->payload = Copied(snapshot.closed->payload);
      progress.open_round = snapshot.open_round;
      progress.replay_from = latest->replay_from;
      progress.has_state = true;
      return aggregator_->Restore(segment, std::move(snapshot));
    }
    damaged = std::string(state.status().message());
    notices_.push_back(damaged);
    // The store has set a damaged snapshot aside, and the one before is the latest now.
    if (snapshots.Latest(SnapshotKind::kState, segment) == latest) return state.status();
  }
  if (first == 1) return absl::OkStatus();  // the log has the segment from the beginning
  return DataLoss("segment ", segment, ": no state snapshot that leads to the log, which begins ",
                  "with record ", first, damaged.empty() ? "" : "; ", damaged);
}

absl::Status DurableShard::ReplayRecord(uint64_t sequence, const LogRecord& record) {
  if (const auto* push = std::get_if<PushRecord>(&record)) {
    return aggregator_->Replay(PushRecord{push->header, Copied(push->payload)});
  }
  const auto* merged = std::get_if<MergedRecord>(&record);
  if (merged == nullptr) return aggregator_->Replay(record);
  LONGWAVE_RETURN_IF_ERROR(aggregator_->Replay(record));
  Progress& progress = ProgressOf(merged->header.segment);  // Replay has checked the segment
  if (merged->header.round < progress.open_round) return absl::OkStatus();
  progress.open_round = merged->header.round + 1;
  progress.replay_from = sequence + 1;
  // The shard may have ended before it wrote a state snapshot.
  progress.state_is_due |= StateIsDueAfter(merged->header);
  return absl::OkStatus();
}

void DurableShard::Fail(const absl::Status& status, absl::Time now) {
  trouble_ = std::string(WithWayOut(status).message());
  ReopenLater(now < reopened_at_ + kReopenMax, now);
  notices_.push_back(absl::StrCat(trouble_, "; pushes are refused as busy until the folder can be ",
                                  "opened again"));
  if (aggregator_ != nullptr) Add(aggregator_->state(), counted_);
  if (store_ != nullptr) {
    durable_before_ = std::max(durable_before_, store_->log().durable_sequence());
  }
  aggregator_.reset();
  store_.reset();  // unlocks the folder
  append_failure_ = absl::OkStatus();
  requests_.Clear();
  start_requests_.Clear();
  confirmed_.clear();
  restores_.clear();
  restores_decide_at_ = absl::InfinitePast();
  drop_is_due_ = false;
}

void DurableShard::Reopen(absl::Time now) {
  const absl::Status opened = WithWayOut(OpenAll());
  if (opened.ok()) {
    notices_.push_back("the folder is open again");
    trouble_.clear();
    reopen_at_ = absl::InfiniteFuture();
    reopened_at_ = now;
    return;
  }
  if (trouble_ != opened.message()) notices_.emplace_back(opened.message());
  trouble_ = std::string(opened.message());
  ReopenLater(true, now);
  aggregator_.reset();
  store_.reset();
  restores_.clear();
  append_failure_ = absl::OkStatus();
}

// again: another failure soon after the last.
void DurableShard::ReopenLater(bool again, absl::Time now) {
  reopen_after_ = again ? std::clamp(2 * reopen_after_, kReopenMin, kReopenMax) : kReopenMin;
  reopen_at_ = now + reopen_after_;
}

ReplicaRestore* DurableShard::RestoreOf(const FrameName& frame) {
  if (restores_.empty() || frame.run != options_.aggregator.run) return nullptr;
  const auto restore = restores_.find(frame.segment);
  if (restore == restores_.end() || !aggregator_->IsMember(frame.worker)) return nullptr;
  return &restore->second;
}

bool DurableShard::HearForRestore(const PullFrame& pull) {
  ReplicaRestore* const restore = RestoreOf(pull);
  if (restore == nullptr) return false;
  if (pull.epoch >= first_epoch_) restore->Heard(pull.worker, pull.round);
  return true;
}

void DurableShard::PursueRestores(absl::Time now) {
  std::vector<uint32_t> awaited = MembersTakingPart();
  if (awaited.empty()) {
    for (const Member& member : membership_.members) awaited.push_back(member.worker);
    // Members that join first may be far behind those still to join.
    if (restores_decide_at_ == absl::InfinitePast() && !awaited.empty())
      restores_decide_at_ = now + options_.join_patience;
  }
  const bool decides = restores_decide_at_ <= now;
  std::vector<SnapshotRequests::Request> known;  // need no parameters
  for (auto& [segment, restore] : restores_) {
    for (const uint32_t worker : restore.Silent(awaited, now)) EmitRequest(worker, segment, 0);
    if (!decides) {
      restore.GiveUntil(restores_decide_at_);
      continue;
    }
    const auto choice = restore.Due(awaited, now);
    if (!choice.has_value()) continue;
    if (choice->round == 0 || !options_.can_catch_up) {
      known.push_back({segment, choice->round, choice->worker});
    } else {
      EmitRequest(choice->worker, segment, choice->round);
      restore.GiveUntil(now + RestorePatience(segment, AwaitedBytes(choice->worker)));
    }
  }
  for (const SnapshotRequests::Request& each : known) {
    FinishRestore(each.segment, each.round, each.worker, std::nullopt);
  }
}

uint64_t DurableShard::AwaitedBytes(uint32_t worker) const {
  uint64_t bytes = 0;
  for (const auto& [segment, restore] : restores_) {
    if (restore.choice().has_value() && restore.choice()->worker == worker) {
      bytes += ModelBytes(segment);
    }
  }
  return bytes;
}

// A member sends snapshots one by one, and a second member sends the same ones meanwhile.
absl::Duration DurableShard::RestorePatience(uint32_t segment, uint64_t awaited_bytes) const {
  // Each of the other shards may have requested a snapshot from it.
  const uint64_t others = layout_.options().shard_count - 1;
  return ReplicaRestore::kPatience + TimeOnSlowLink(others * ModelBytes(segment) + awaited_bytes);
}

void DurableShard::HastenRestores(uint32_t worker, absl::Time now) {
  const uint64_t awaited_bytes = AwaitedBytes(worker);
  for (auto& [segment, restore] : restores_) {
    if (!restore.choice().has_value() || restore.choice()->worker != worker) continue;
    restore.GiveAtMostUntil(now + RestorePatience(segment, awaited_bytes));
  }
}

void DurableShard::FinishRestore(uint32_t segment, uint32_t round, uint32_t worker,
                                 std::optional<SnapshotRequests::Held> model) {
  restores_.erase(segment);
  SegmentSnapshot snapshot = aggregator_->Export(segment);  // of a new segment: E = 0
  snapshot.open_round = round;
  Progress& progress = ProgressOf(segment);
  progress.open_round = round;
  progress.first_round = round;
  absl::Status restored = aggregator_->Restore(segment, std::move(snapshot));
  const std::string note =
      absl::StrCat("segment ", segment, " is restored: round ", round, " is open, as worker ",
                   worker, " has it; what the shard held back is lost");
  notices_.push_back(note);
  if (store_ != nullptr) {
    Keep(NoteRecord{round, note});
    // The snapshot is durable at once. Records still to be written may be lost, and other records
    // then get their numbers.
    progress.replay_from = store_->log().durable_sequence();
    // The model comes first: a segment that has a state is not restored again. An interrupted
    // restore may have written the model already.
    if (restored.ok() && model.has_value()) {
      restored = WriteModel(*model);
      if (absl::IsAlreadyExists(restored)) restored = absl::OkStatus();
    }
    // The segment's later records are useless without its state.
    if (restored.ok()) restored = WriteState(segment);
  } else if (model.has_value()) {
    restored_models_[segment] = *std::move(model);
  }
  append_failure_.Update(restored);
}

}  // namespace longwave

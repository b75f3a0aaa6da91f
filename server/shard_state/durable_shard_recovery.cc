// Opening a shard from its folder, at the start and after a failure, or from the members' replicas.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/control/lost_rounds.h"
#include "server/shard/aggregator_checks.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/shard_store.h"

namespace longwave {

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
  // Earlier progress counts until Recover has read the folder.
  progress_.resize(segment_count_, {.may_be_short = open_store_ != nullptr});
  bool restores = options_.restore;
  if (open_store_ != nullptr) {
    LONGWAVE_ASSIGN_OR_RETURN(store_, open_store_());
    LONGWAVE_ASSIGN_OR_RETURN(restores, Recover());
  }
  if (restores) {
    for (uint32_t i = 0; i < segment_count_; ++i) {
      const uint32_t segment = first_segment_ + i;
      if (progress_[i].has_state) continue;
      progress_[i].may_be_short = false;  // there is no log of it
      restores_.Begin(segment);
      aggregator_->AwaitRestore(segment);
    }
  }
  if (!restores_.empty()) {
    notices_.push_back(absl::StrCat(restores_.restoring_count(), " of ", segment_count_,
                                    " segments are to be restored from the members' replicas"));
  }
  for (uint32_t segment = first_segment_; IsMine(segment); ++segment) {
    const bool has_ended =
        options_.aggregator.rounds > 0 && OpenRound(segment) >= options_.aggregator.rounds;
    if (!ProgressOf(segment).may_be_short || restores_.Contains(segment) || has_ended) continue;
    restores_.Check(segment, OpenRound(segment));
    aggregator_->HoldOpen(segment, true);
  }
  rounds_have_moved_ = true;
  NoteDurableRounds();
  return absl::OkStatus();
}

uint64_t DurableShard::SnapshotBytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < segment_count_; ++i)
    bytes += ModelBytes(layout_, first_segment_ + i, options_.model_arrays);
  return bytes;
}

absl::StatusOr<bool> DurableShard::Recover() {
  const LogRecovery& found = store_->log().recovery();
  for (const DamagedSnapshot& damaged : store_->snapshots().damaged())
    notices_.push_back(damaged.reason);
  if (!found.cut.empty()) notices_.push_back(found.cut);
  LONGWAVE_RETURN_IF_ERROR(CheckLog(found));
  const RecoveryOptions options{.segments = Segments(),
                                .state_rounds = options_.state_rounds,
                                .rounds = rounds_wanted_,
                                .restore = options_.restore};
  LONGWAVE_ASSIGN_OR_RETURN(RecoveredShard recovered,
                            RecoverSegments(options, *store_, *aggregator_, notices_));
  for (uint32_t i = 0; i < segment_count_; ++i) {
    // A log that had no end to lose, or of which this process has closed a round, is whole.
    recovered.progress[i].may_be_short = progress_[i].may_be_short && found.next_sequence > 1;
  }
  progress_ = std::move(recovered.progress);
  rounds_have_moved_ = true;
  NoteDurableRounds();
  std::vector<uint32_t> logged;
  for (const Member& member : found.membership.members) {
    if (member.first_round != kRoundNever) logged.push_back(member.worker);
  }
  restores_.SetLogged(std::move(logged));

  // The newest membership may be in the log before the replayed records, or not be in it yet.
  if (found.membership.epoch > 0) {
    LONGWAVE_RETURN_IF_ERROR(aggregator_->Replay(MembershipRecord{found.membership}));
    membership_sequence_ = found.membership_sequence;
  }
  // Of one epoch the coordinator's own stays, which knows who began with other weights.
  if (membership_.epoch < found.membership.epoch) {
    membership_ = found.membership;
  } else if (membership_.epoch > found.membership.epoch) {
    KeepMembership();
    LONGWAVE_RETURN_IF_ERROR(aggregator_->Replay(MembershipRecord{membership_}));
  }
  WantMissingModels();
  WantMissingStarts();
  if (found.next_sequence > 1) {
    notices_.push_back(absl::StrCat("recovered: records ", recovered.replayed_from, " to ",
                                    found.next_sequence - 1, " of the log",
                                    segment_count_ == 0
                                        ? ", and no segment"
                                        : absl::StrCat(", open round ", state().open_round)));
  }
  return recovered.restores;
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
  restores_.Clear();
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
  restores_.Clear();
  append_failure_ = absl::OkStatus();
}

// again: another failure soon after the last.
void DurableShard::ReopenLater(bool again, absl::Time now) {
  reopen_after_ = again ? std::clamp(2 * reopen_after_, kReopenMin, kReopenMax) : kReopenMin;
  reopen_at_ = now + reopen_after_;
}

bool DurableShard::IsForRestore(const FrameName& frame) const {
  if (frame.run != options_.aggregator.run || !restores_.Contains(frame.segment) ||
      !aggregator_->IsMember(frame.worker)) {
    return false;
  }
  // The log's closed rounds are true in any case.
  return restores_.IsRestoring(frame.segment) ||
         (frame.kind != FrameKind::kFetch && frame.round >= OpenRound(frame.segment));
}

void DurableShard::NoteProgress(const FrameName& frame) {
  if (frame.run != options_.aggregator.run || !IsMine(frame.segment) ||
      !aggregator_->IsMember(frame.worker) || !ProgressOf(frame.segment).may_be_short) {
    return;
  }
  const uint32_t open_round = OpenRound(frame.segment);
  if (frame.round <= open_round) return;
  if (!restores_.Contains(frame.segment)) restores_.Check(frame.segment, open_round);
  aggregator_->AwaitRestore(frame.segment);
  const size_t restoring = restores_.restoring_count();
  restores_.Heard(frame.segment, frame.worker, frame.round);
  const std::string found =
      absl::StrCat("segment ", frame.segment, " has the rounds before ", open_round,
                   ", and worker ", frame.worker, " all before ", frame.round);
  if (frame.round - open_round > kLostRoundsMax) {
    rounds_wanted_ = std::max(rounds_wanted_, frame.round - kLostRoundsMax);
    append_failure_.Update(
        FailedPrecondition("the folder is from an older time: ", found, ". ", kShardWayOut));
  } else if (restores_.restoring_count() > restoring) {
    notices_.push_back(absl::StrCat("the end of the log is lost: ", found));
  }
}

bool DurableShard::IsHeldBack(const FrameName& frame, absl::Time now) {
  if (!IsForRestore(frame)) return false;
  PursueRestores(now);
  return IsForRestore(frame);
}

void DurableShard::PursueRestores(absl::Time now) {
  const ReplicaRestores::Steps steps = restores_.TakeDue(membership_, MembersTakingPart(), now);
  for (const uint32_t segment : steps.intact) {
    restores_.End(segment);
    aggregator_->HoldOpen(segment, false);
  }
  for (const SnapshotRequests::Request& each : steps.requests) EmitRequest(each);
  for (const SnapshotRequests::Request& each : steps.known)
    FinishRestore(each.segment, each.round, each.worker, std::nullopt);
}

void DurableShard::FinishRestore(uint32_t segment, uint32_t round, uint32_t worker,
                                 std::optional<SnapshotRequests::Held> model) {
  restores_.End(segment);
  const RestoredRecord record{segment, round, worker};
  SegmentProgress& progress = ProgressOf(segment);
  progress.open_round = round;
  progress.first_round = round;
  rounds_have_moved_ = true;
  // With an E of zeros: that of an earlier round has what was sent.
  absl::Status restored = aggregator_->RestoreAnew(segment, round);
  notices_.push_back(RestoredText(record));
  if (store_ != nullptr) {
    // Records still to be written may be lost, and other records then get their numbers.
    progress.replay_from = store_->log().durable_sequence();
    // The model comes first: with the record the segment is not restored again. An interrupted
    // restore may have written the model already.
    if (restored.ok() && model.has_value()) {
      restored = WriteModel(*model);
      if (absl::IsAlreadyExists(restored)) restored = absl::OkStatus();
    }
    if (restored.ok()) restored = KeepRestored(record);
  } else if (model.has_value()) {
    restored_models_[segment] = *std::move(model);
  }
  // Without its record on the disk the segment is as short as before once the folder is open again.
  progress.may_be_short &= !restored.ok();
  append_failure_.Update(restored);
}

absl::Status DurableShard::KeepRestored(const RestoredRecord& record) {
  // A failed commit takes back what it has appended, which must not become durable here.
  LONGWAVE_RETURN_IF_ERROR(append_failure_);
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t sequence, store_->log().Append(record));
  LONGWAVE_RETURN_IF_ERROR(store_->log().Sync());
  ProgressOf(record.segment).replay_from = sequence + 1;
  return WriteState(record.segment);
}

}  // namespace longwave

// Snapshots, and the removal of log.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/snapshot_content.h"

namespace longwave {

void DurableShard::Tend(absl::Time) {
  if (store_ == nullptr) return;
  // A snapshot that cannot be written only keeps the log longer: the next one replaces it.
  const auto note = [&](const absl::Status& written) {
    if (written.ok()) {
      drop_is_due_ = true;
    } else if (!absl::IsAlreadyExists(written)) {
      notices_.push_back(absl::StrCat("not kept: ", written.message()));
    }
  };
  for (uint32_t i = 0; i < segment_count_; ++i) {
    if (std::exchange(progress_[i].state_is_due, false)) note(WriteState(first_segment_ + i));
  }
  // A single one: hash checks of many segments come together, and events and heartbeats wait.
  if (!confirmed_.empty()) {
    note(WriteModel(confirmed_.front()));
    confirmed_.erase(confirmed_.begin());
  }
  if (!std::exchange(drop_is_due_, false)) return;
  if (const absl::Status dropped = DropLog(); !dropped.ok()) {
    notices_.push_back(absl::StrCat("log that nothing needs any more: ", dropped.message()));
  }
}

// The rounds are spread over all of the run's segments, not this shard's alone: all shards share
// the members' links.
uint32_t DurableShard::LastModelRound(uint32_t segment, uint32_t open_round) const {
  const uint64_t rounds = options_.snapshot_rounds;
  const auto first = static_cast<uint32_t>(segment * rounds / layout_.segments().size());
  if (open_round < first) return 0;
  return open_round - static_cast<uint32_t>((open_round - first) % rounds);
}

void DurableShard::Greeted(uint32_t worker) {
  if (!greeted_.insert(worker).second) return;
  requests_.MembersChanged();
  start_requests_.MembersChanged();
}

std::vector<uint32_t> DurableShard::Reachable(std::vector<uint32_t> members) const {
  std::erase_if(members, [this](uint32_t worker) { return !greeted_.contains(worker); });
  return members;
}

void DurableShard::WantModel(uint32_t segment) {
  const uint32_t open_round = OpenRound(segment);
  requests_.Want(segment, open_round, uint64_t{segment} + open_round / options_.snapshot_rounds,
                 RequestPatience(segment));
}

absl::Duration DurableShard::RequestPatience(uint32_t segment) const {
  // Each of the shards may have requested a snapshot from it, and the member sends them one by one.
  const uint64_t shards = layout_.options().shard_count;
  return kRequestPatience +
         TimeOnSlowLink(shards * ModelBytes(layout_, segment, options_.model_arrays));
}

absl::Status DurableShard::WriteState(uint32_t segment) {
  const SegmentSnapshot snapshot = aggregator_->Export(segment);
  LONGWAVE_ASSIGN_OR_RETURN(Buffer content, EncodeStateContent(std::span(&snapshot, 1)));
  const SnapshotKey key{SnapshotKind::kState, segment, 1, snapshot.open_round};
  SegmentProgress& progress = ProgressOf(segment);
  // E hardly compresses.
  LONGWAVE_RETURN_IF_ERROR(
      store_->snapshots().Write(key, progress.replay_from, std::move(content), Compression::kNone));
  progress.has_state = true;
  ++snapshots_written_.states;
  return absl::OkStatus();
}

absl::Status DurableShard::WriteModel(const SnapshotRequests::Held& held) {
  const uint64_t elements = ElementCount(SegmentElements(layout_, held.segment));
  LONGWAVE_ASSIGN_OR_RETURN(
      const auto arrays,
      DecodeSnapshotPayload(held.payload.bytes(), options_.model_arrays, elements));
  const std::vector<std::span<const float>> spans(arrays.begin(), arrays.end());
  // The first record that the snapshot does not have: its round's update, or the next record.
  const SnapshotKind kind = held.round == 0 ? SnapshotKind::kStart : SnapshotKind::kModel;
  const auto after = store_->log().MergedSequence(held.segment, held.round);
  const uint64_t replay_from = after.ok() ? *after : ProgressOf(held.segment).replay_from;
  LONGWAVE_RETURN_IF_ERROR(store_->snapshots().Write({kind, held.segment, 1, held.round},
                                                     replay_from, EncodeModelContent(spans),
                                                     Compression::kZstd));
  ++snapshots_written_.models;
  return absl::OkStatus();
}

absl::Status DurableShard::DropLog() {
  const std::optional<uint64_t> from =
      LogNeededFrom(store_->snapshots(), Segments(), options_.can_catch_up);
  DeltaLog& log = store_->log();
  if (!from.has_value() || !log.CanDrop(*from)) return absl::OkStatus();
  if (membership_sequence_ < *from && membership_.epoch > 0) {
    LONGWAVE_ASSIGN_OR_RETURN(membership_sequence_, log.Append(MembershipRecord{membership_}));
    LONGWAVE_RETURN_IF_ERROR(log.Sync());
  }
  return log.Drop(*from);
}

}  // namespace longwave

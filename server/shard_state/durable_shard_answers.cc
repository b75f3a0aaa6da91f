// Effects of a commit, those that need the disk, and those of a failed commit.
#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/wire/snapshot_payload.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/snapshot_content.h"

namespace longwave {
namespace {

// Memory or descriptors are used up: the disk may give later what it does not give now.
bool MayBeReadLater(const absl::Status& status) { return absl::IsResourceExhausted(status); }

}  // namespace

// Workers ask again and again for what cannot be read.
void DurableShard::NoteUnreadable(const absl::Status& status) {
  if (!std::has_single_bit(++unreadable_)) return;
  notices_.push_back(absl::StrCat(status.message(), " (", unreadable_, " unreadable so far)"));
}

void DurableShard::AnswerFromLog(const FrameName& asked) {
  const bool is_push = asked.kind == FrameKind::kPush;
  if (read_bytes_ >= options_.read_bytes_max) return Answer(asked, Outcome::kBusy, "");
  absl::StatusOr<MergedRecord> record = NotFound("");
  if (store_ != nullptr) record = store_->log().ReadMerged(asked.segment, asked.round);
  if (!record.ok() && !absl::IsNotFound(record.status())) {
    NoteUnreadable(record.status());
    if (MayBeReadLater(record.status())) return Answer(asked, Outcome::kBusy, "");
    // The disk has damaged the record since the start. A snapshot of a later round replaces it.
    store_->log().ForgetMerged(asked.segment, asked.round);
  }
  // The shard cannot tell whether the push is in a merge. `late` could count it twice.
  if (!record.ok()) return Answer(asked, Outcome::kCompacted, "");
  read_bytes_ += record->payload.size();
  if (is_push) {
    const auto own = std::ranges::find(record->contributors, asked.worker, &Contributor::worker);
    const bool was_in_it = own != record->contributors.end();
    AnswerFrame answer =
        aggregator_->AnswerTo(asked, was_in_it ? Outcome::kDuplicate : Outcome::kLate);
    // An earlier process of the worker, whose residual is lost, may have sent the contribution.
    if (was_in_it) answer.held_crc = own->crc;
    Emit(AnswerWith(answer, ""));
  }
  Emit(SendUpdate({asked.worker}, record->header, std::move(record->payload), CauseOf(asked)));
}

std::optional<uint64_t> DurableShard::MergedBytes(uint32_t segment, uint32_t from) const {
  const uint32_t open_round = OpenRound(segment);
  if (from >= open_round) return 0;
  if (store_ == nullptr) {
    // The aggregator has the last update; the worker pulls it.
    const bool has_it = from + 1 == open_round && from >= ProgressOf(segment).first_round;
    return has_it ? std::optional<uint64_t>(0) : std::nullopt;
  }
  const auto bytes = store_->log().MergedPayloadBytes(segment, from, open_round - 1);
  return bytes.ok() ? std::optional<uint64_t>(*bytes) : std::nullopt;
}

std::optional<SnapshotHeader> DurableShard::CheapestSnapshot(
    uint32_t segment, uint32_t from, std::optional<uint64_t> log_bytes) const {
  std::optional<SnapshotHeader> best;
  uint64_t least = log_bytes.value_or(~uint64_t{0});
  for (const SnapshotKind kind : {SnapshotKind::kModel, SnapshotKind::kStart}) {
    const auto latest = store_->snapshots().Latest(kind, segment);
    if (!latest.has_value() || (from != kRoundNever && latest->key.round <= from)) continue;
    const std::optional<uint64_t> after = MergedBytes(segment, latest->key.round);
    if (!after.has_value() || latest->stored_bytes + *after >= least) continue;
    best = latest;
    least = latest->stored_bytes + *after;
  }
  return best;
}

void DurableShard::AnswerFetch(const FrameName& fetch) {
  const uint32_t segment = fetch.segment;
  const uint32_t open_round = OpenRound(segment);
  const bool has_nothing = fetch.round == kRoundNever;
  const std::string place =
      absl::StrCat("fetch of worker ", fetch.worker,
                   has_nothing ? "" : absl::StrCat(", round ", fetch.round), ", segment ", segment);
  if (!has_nothing && fetch.round > open_round) {
    return Answer(fetch, Outcome::kRejected,
                  absl::StrCat(place, ": wanted round ", open_round, " or earlier"));
  }
  const std::optional<uint64_t> log_bytes =
      has_nothing ? std::nullopt : MergedBytes(segment, fetch.round);
  if (const auto restored = restored_models_.find(segment);
      !log_bytes.has_value() && restored != restored_models_.end() &&
      (has_nothing || restored->second.round > fetch.round)) {
    return SendSnapshot(fetch, restored->second.round, restored->second.payload);
  }
  while (store_ != nullptr) {
    const std::optional<SnapshotHeader> best = CheapestSnapshot(segment, fetch.round, log_bytes);
    if (!best.has_value()) break;
    if (read_bytes_ >= options_.read_bytes_max) return Answer(fetch, Outcome::kBusy, "");
    absl::StatusOr<Buffer> payload = SnapshotPayload(best->key);
    if (payload.ok()) {
      read_bytes_ += payload->size();
      return SendSnapshot(fetch, best->key.round, *std::move(payload));
    }
    NoteUnreadable(payload.status());
    if (MayBeReadLater(payload.status())) return Answer(fetch, Outcome::kBusy, "");
    WantMissingStarts();
    // The store has set a damaged snapshot aside: the next best one follows. An unreadable one
    // stays.
    if (store_->snapshots().Latest(best->key.kind, segment) == best) break;
  }
  if (log_bytes.has_value()) return Answer(fetch, Outcome::kAccepted, "");
  if (!has_nothing && store_ != nullptr && options_.can_catch_up) {
    WantModel(segment);  // the log is damaged
    return Answer(fetch, Outcome::kBusy, "");
  }
  if (!has_nothing) {
    return Answer(
        fetch, Outcome::kRejected,
        absl::StrCat(place, ": the shard keeps neither the merged updates from there to ", "round ",
                     open_round, ", which is open, nor a snapshot of a later ", "round"));
  }
  if (options_.keeps_start) return Answer(fetch, Outcome::kBusy, "");  // the start may still arrive
  Answer(fetch, Outcome::kRejected,
         absl::StrCat(place, ": it has not what the run began with, and the ",
                      "shard keeps no snapshot yet"));
}

absl::StatusOr<Buffer> DurableShard::SnapshotPayload(const SnapshotKey& key) {
  const absl::StatusOr<Buffer> content = store_->snapshots().Read(key);
  if (!content.ok()) return content.status();
  const auto arrays = DecodeModelContent(*content, options_.model_arrays);
  if (!arrays.ok()) return arrays.status();
  return EncodeSnapshotPayload(*arrays);
}

void DurableShard::TurnBack() {
  std::erase_if(effects_, [&](ShardEffect& effect) {
    const std::optional<FrameName>& request = effect.request;
    const auto* const given = HeaderOf<AnswerFrame>(effect);
    const Outcome outcome = given == nullptr ? Outcome::kNone : given->outcome;
    const bool of_snapshot = given != nullptr && !request.has_value();
    if (of_snapshot || outcome == Outcome::kRejected || outcome == Outcome::kNotMember ||
        outcome == Outcome::kBusy || outcome == Outcome::kCompacted) {
      // True whatever the disk has, except that a closed round may be open again.
      AnswerFrame answer = *given;
      answer.open_round = 0;
      SealedFrame& frame = std::get<SendFrame>(effect.what).frame;
      frame = SealFitting(answer, frame.payload());
      return false;
    }
    const auto* const merged = HeaderOf<MergedFrame>(effect);
    const bool is_pulled = merged != nullptr && request.has_value() &&
                           request->kind == FrameKind::kPull && request->round == merged->round &&
                           request->segment == merged->segment;
    if (merged != nullptr && !is_pulled) {
      // The log may have the update all the same, and nothing else would send it.
      for (const uint32_t worker : std::get<SendFrame>(effect.what).workers)
        dropped_.emplace_back(worker, merged->segment);
      return true;
    }
    const bool answers =
        given != nullptr || is_pulled || std::holds_alternative<AnswerFromDisk>(effect.what);
    if (!request.has_value() || !answers) return true;
    if (outcome == Outcome::kAccepted) --counted_.pushes_accepted;
    if (request->kind == FrameKind::kPush) ++counted_.pushes_busy;
    AnswerFrame busy = AnswerTo(*request, Outcome::kBusy);
    busy.open_round = 0;
    effect.what = AnswerWith(busy, "");
    return false;
  });
}

}  // namespace longwave

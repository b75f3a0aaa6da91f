// Effects of a commit, those that need the disk, and those of a failed commit.
#include <algorithm>
#include <bit>
#include <type_traits>
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

void DurableShard::Tell(Outgoing outgoing, std::vector<ShardEffect>& effects) {
  const uint64_t event = outgoing.event;
  std::visit(
      [&]<typename What>(What& what) {
        if constexpr (std::is_same_v<What, AnswerFromLog>) {
          TellFromLog(event, what.asked, effects);
        } else if constexpr (std::is_same_v<What, AnswerFetch>) {
          TellFetch(event, what.header, effects);
        } else {
          effects.push_back({event, std::move(what)});
        }
      },
      outgoing.what);
}

// Workers ask again and again for what cannot be read.
void DurableShard::NoteUnreadable(const absl::Status& status) {
  if (!std::has_single_bit(++unreadable_)) return;
  notices_.push_back(absl::StrCat(status.message(), " (", unreadable_, " unreadable so far)"));
}

void DurableShard::TellFromLog(uint64_t event, const FrameName& asked,
                               std::vector<ShardEffect>& effects) {
  const bool is_push = asked.kind == FrameKind::kPush;
  const auto busy = [&] {
    if (is_push) ++counted_.pushes_busy;
    effects.push_back({event, AnswerTo(asked, Outcome::kBusy, "")});
  };
  if (read_bytes_ >= options_.read_bytes_max) return busy();
  absl::StatusOr<MergedRecord> record = NotFound("");
  if (store_ != nullptr) record = store_->log().ReadMerged(asked.segment, asked.round);
  if (!record.ok() && !absl::IsNotFound(record.status())) {
    NoteUnreadable(record.status());
    if (MayBeReadLater(record.status())) return busy();
    // The disk has damaged a record since the start.
    if (!is_push) {
      effects.push_back({event, AnswerTo(asked, Outcome::kRejected,
                                         absl::StrCat("pull of worker ", asked.worker, ", round ",
                                                      asked.round, ", segment ", asked.segment,
                                                      ": the shard's log is damaged there"))});
      return;
    }
  }
  if (!record.ok()) {
    // The shard cannot tell whether the push is in a merge. `late` could count it twice.
    effects.push_back({event, AnswerTo(asked, Outcome::kCompacted, "")});
    return;
  }
  read_bytes_ += record->payload.size();
  if (is_push) {
    const auto own = std::ranges::find(record->contributors, asked.worker, &Contributor::worker);
    const bool was_in_it = own != record->contributors.end();
    AnswerFrame answer =
        aggregator_->AnswerTo(asked, was_in_it ? Outcome::kDuplicate : Outcome::kLate);
    // An earlier process of the worker, whose residual is lost, may have sent the contribution.
    if (was_in_it) answer.held_crc = own->crc;
    effects.push_back({event, AnswerPush{answer, ""}});
  }
  effects.push_back(
      {event, SendMerged{{asked.worker}, record->header, std::move(record->payload)}});
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

void DurableShard::TellFetch(uint64_t event, const FetchFrame& fetch,
                             std::vector<ShardEffect>& effects) {
  const uint32_t segment = fetch.segment;
  const uint32_t open_round = OpenRound(segment);
  const auto answer = [&](Outcome outcome, std::string reason) {
    effects.push_back({event, AnswerTo(fetch, outcome, std::move(reason))});
  };
  const auto send = [&](uint32_t round, Buffer payload) {
    effects.push_back({event, SnapshotFor(fetch, round, std::move(payload))});
  };
  const bool has_nothing = fetch.round == kRoundNever;
  const std::string place =
      absl::StrCat("fetch of worker ", fetch.worker,
                   has_nothing ? "" : absl::StrCat(", round ", fetch.round), ", segment ", segment);
  if (!has_nothing && fetch.round > open_round) {
    return answer(Outcome::kRejected,
                  absl::StrCat(place, ": wanted round ", open_round, " or earlier"));
  }
  const std::optional<uint64_t> log_bytes =
      has_nothing ? std::nullopt : MergedBytes(segment, fetch.round);
  if (const auto restored = restored_models_.find(segment);
      !log_bytes.has_value() && restored != restored_models_.end() &&
      (has_nothing || restored->second.round > fetch.round)) {
    return send(restored->second.round, restored->second.payload);
  }
  while (store_ != nullptr) {
    const std::optional<SnapshotHeader> best = CheapestSnapshot(segment, fetch.round, log_bytes);
    if (!best.has_value()) break;
    if (read_bytes_ >= options_.read_bytes_max) return answer(Outcome::kBusy, "");
    absl::StatusOr<Buffer> payload = SnapshotPayload(best->key);
    if (payload.ok()) {
      read_bytes_ += payload->size();
      return send(best->key.round, *std::move(payload));
    }
    NoteUnreadable(payload.status());
    if (MayBeReadLater(payload.status())) return answer(Outcome::kBusy, "");
    WantMissingStarts();
    // The store has set a damaged snapshot aside: the next best one follows. An unreadable one
    // stays.
    if (store_->snapshots().Latest(best->key.kind, segment) == best) break;
  }
  if (log_bytes.has_value()) return answer(Outcome::kAccepted, "");
  if (!has_nothing) {
    return answer(
        Outcome::kRejected,
        absl::StrCat(place, ": the shard keeps neither the merged updates from there to ", "round ",
                     open_round, ", which is open, nor a snapshot of a later ", "round"));
  }
  if (options_.keeps_start) return answer(Outcome::kBusy, "");  // the start may still arrive
  answer(Outcome::kRejected, absl::StrCat(place, ": it has not what the run began with, and the ",
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
  std::erase_if(outgoing_, [&](Outgoing& outgoing) {
    auto* const answer = std::get_if<AnswerPush>(&outgoing.what);
    const Outcome outcome = answer == nullptr ? Outcome::kNone : answer->header.outcome;
    if (answer != nullptr) answer->header.open_round = 0;  // a closed round may be open again
    const bool of_snapshot = answer != nullptr && !outgoing.request.has_value();
    if (of_snapshot || outcome == Outcome::kRejected || outcome == Outcome::kNotMember ||
        outcome == Outcome::kBusy || outcome == Outcome::kCompacted) {
      return false;  // true whatever the disk has
    }
    const std::optional<FrameName>& request = outgoing.request;
    const bool is_push = request.has_value() && request->kind == FrameKind::kPush;
    const auto* const merged = std::get_if<SendMerged>(&outgoing.what);
    const bool is_pulled =
        merged != nullptr && request.has_value() && request->kind == FrameKind::kPull &&
        request->round == merged->header.round && request->segment == merged->header.segment;
    if (merged != nullptr && !is_pulled) {
      // The log may have the update all the same, and nothing else would send it.
      for (const uint32_t worker : merged->workers)
        untold_.emplace_back(worker, merged->header.segment);
      return true;
    }
    const bool answers = answer != nullptr || is_pulled ||
                         std::holds_alternative<AnswerFromLog>(outgoing.what) ||
                         std::holds_alternative<AnswerFetch>(outgoing.what);
    if (!request.has_value() || !answers) return true;
    if (outcome == Outcome::kAccepted) --counted_.pushes_accepted;
    if (is_push) ++counted_.pushes_busy;
    AnswerPush busy = AnswerTo(*request, Outcome::kBusy, "");
    busy.header.open_round = 0;
    outgoing.what = std::move(busy);
    return false;
  });
}

}  // namespace longwave

// Effects of a commit, those that need the disk, and those of a failed commit.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/wire/snapshot_payload.h"
#include "server/shard_state/durable_shard.h"
#include "server/store/snapshot_content.h"

namespace longwave {

void DurableShard::Tell(Outgoing outgoing, std::vector<ShardEffect>& effects) {
  const uint64_t event = outgoing.event;
  if (const auto* request = std::get_if<AnswerFromLog>(&outgoing.what)) {
    return TellFromLog(event, request->asked, effects);
  }
  if (const auto* fetch = std::get_if<AnswerFetch>(&outgoing.what)) {
    return TellFetch(event, fetch->header, effects);
  }
  if (auto* answer = std::get_if<AnswerPush>(&outgoing.what)) {
    effects.push_back({event, std::move(*answer)});
  } else if (auto* merged = std::get_if<SendMerged>(&outgoing.what)) {
    effects.push_back({event, std::move(*merged)});
  } else if (auto* snapshot = std::get_if<SendSnapshot>(&outgoing.what)) {
    effects.push_back({event, std::move(*snapshot)});
  } else if (auto* clipped = std::get_if<ContributionClipped>(&outgoing.what)) {
    effects.push_back({event, std::move(*clipped)});
  } else {
    effects.push_back({event, std::get<RequestSnapshot>(std::move(outgoing.what))});
  }
}

void DurableShard::TellFromLog(uint64_t event, const FrameName& asked,
                               std::vector<ShardEffect>& effects) {
  const bool is_push = asked.kind == FrameKind::kPush;
  absl::StatusOr<MergedRecord> record = NotFound("");
  if (store_ != nullptr) record = store_->log().ReadMerged(asked.segment, asked.round);
  if (!record.ok() && !absl::IsNotFound(record.status())) {
    // The disk has damaged a record since the start.
    notices_.push_back(std::string(record.status().message()));
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

void DurableShard::TellFetch(uint64_t event, const FetchFrame& fetch,
                             std::vector<ShardEffect>& effects) {
  if (fetch.round == kRoundNever) return TellBeginning(event, fetch, effects);
  const uint32_t segment = fetch.segment;
  const uint32_t open_round = OpenRound(segment);
  const auto answer = [&](Outcome outcome, std::string reason) {
    effects.push_back({event, AnswerTo(fetch, outcome, std::move(reason))});
  };
  const auto send = [&](uint32_t round, Buffer payload) {
    effects.push_back(
        {event, SendSnapshot{fetch.worker, SnapshotTo(fetch, round), std::move(payload)}});
  };
  const std::string place = absl::StrCat("fetch of worker ", fetch.worker, ", round ", fetch.round,
                                         ", segment ", segment);
  if (fetch.round > open_round) {
    return answer(Outcome::kRejected,
                  absl::StrCat(place, ": wanted round ", open_round, " or earlier"));
  }
  const std::optional<uint64_t> log_bytes = MergedBytes(segment, fetch.round);
  if (const auto restored = restored_models_.find(segment); !log_bytes.has_value() &&
                                                            restored != restored_models_.end() &&
                                                            restored->second.round > fetch.round) {
    return send(restored->second.round, restored->second.payload);
  }
  while (store_ != nullptr) {
    const auto latest = store_->snapshots().Latest(SnapshotKind::kModel, segment);
    if (!latest.has_value() || latest->key.round <= fetch.round) break;
    const std::optional<uint64_t> after = MergedBytes(segment, latest->key.round);
    if (!after.has_value()) break;
    if (log_bytes.has_value() && *log_bytes <= latest->stored_bytes + *after) break;
    absl::StatusOr<Buffer> payload = SnapshotPayload(latest->key);
    if (payload.ok()) return send(latest->key.round, *std::move(payload));
    notices_.push_back(std::string(payload.status().message()));
    // The store has set a damaged snapshot aside: the one before is next. An unreadable one stays.
    if (store_->snapshots().Latest(SnapshotKind::kModel, segment) == latest) break;
  }
  if (log_bytes.has_value()) return answer(Outcome::kAccepted, "");
  answer(Outcome::kRejected,
         absl::StrCat(place, ": the shard keeps neither the merged updates from there to round ",
                      open_round, ", which is open, nor a snapshot of a later round"));
}

void DurableShard::TellBeginning(uint64_t event, const FetchFrame& fetch,
                                 std::vector<ShardEffect>& effects) {
  const uint32_t segment = fetch.segment;
  const auto send = [&](uint32_t round, Buffer payload) {
    effects.push_back(
        {event, SendSnapshot{fetch.worker, SnapshotTo(fetch, round), std::move(payload)}});
  };
  if (const auto restored = restored_models_.find(segment); restored != restored_models_.end()) {
    return send(restored->second.round, restored->second.payload);
  }
  // The store sets a damaged snapshot aside, so that the next best one follows.
  while (store_ != nullptr) {
    std::optional<SnapshotHeader> best;
    uint64_t least = 0;
    for (const SnapshotKind kind : {SnapshotKind::kModel, SnapshotKind::kStart}) {
      const auto latest = store_->snapshots().Latest(kind, segment);
      if (!latest.has_value()) continue;
      const std::optional<uint64_t> after = MergedBytes(segment, latest->key.round);
      if (!after.has_value()) continue;
      const uint64_t bytes = latest->stored_bytes + *after;
      if (best.has_value() && least <= bytes) continue;
      best = latest;
      least = bytes;
    }
    if (!best.has_value()) break;
    absl::StatusOr<Buffer> payload = SnapshotPayload(best->key);
    if (payload.ok()) return send(best->key.round, *std::move(payload));
    notices_.push_back(std::string(payload.status().message()));
    WantMissingStarts();
    if (store_->snapshots().Latest(best->key.kind, segment) == best) break;
  }
  if (options_.keeps_start) {  // the start may still arrive
    effects.push_back({event, AnswerTo(fetch, Outcome::kBusy, "")});
    return;
  }
  effects.push_back({event, AnswerTo(fetch, Outcome::kRejected,
                                     absl::StrCat("fetch of worker ", fetch.worker, ", segment ",
                                                  segment, ": it has not what the run began with, ",
                                                  "and the shard keeps no snapshot yet"))});
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

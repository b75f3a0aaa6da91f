#include "worker/trainer/catch_up.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "common/log/log.h"
#include "common/wire/snapshot_payload.h"

namespace longwave {
namespace {

// How long one wait lasts before the host is asked again.
constexpr absl::Duration kPatience = absl::Milliseconds(20);
// Rounds that close are told unasked; asking makes up for what was lost on the way.
constexpr absl::Duration kNewsEvery = absl::Seconds(1);
// While some segments have closed a round and others are about to.
constexpr absl::Duration kLaggardsEvery = absl::Milliseconds(200);

}  // namespace

CatchUp::CatchUp(CatchUpParts parts) : parts_(std::move(parts)), repaired_before_(SegmentCount()) {}

uint32_t CatchUp::LowestRound() const {
  uint32_t lowest = kRoundNever;
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    lowest = std::min(lowest, parts_.pipeline->anchor_round(s));
  }
  return lowest;
}

uint32_t CatchUp::HighestAnchor() const {
  uint32_t highest = 0;
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    highest = std::max(highest, parts_.pipeline->anchor_round(s));
  }
  return highest;
}

uint32_t CatchUp::HighestRound() const {
  return std::max(parts_.exchange->NewestOpenRound(), HighestAnchor());
}

absl::Status CatchUp::CheckPossible() const {
  if (parts_.possible) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "got no way to catch up: with sync.update inner or local a replica is more than the merged "
      "updates; wanted a worker that is there from the first round on and is never away for longer "
      "than shards keep updates");
}

absl::Status CatchUp::CheckStop() const {
  return parts_.host->stop_requested() ? absl::CancelledError("asked to stop while catching up")
                                       : absl::OkStatus();
}

bool CatchUp::IsBehind(uint32_t next) const {
  if (!parts_.possible || next >= parts_.rounds) return false;
  // With fragments it is in order that the first of the next round close before the last of this.
  const uint32_t ahead = parts_.pipeline->fragment_count() > 1 ? 1 : 0;
  return parts_.exchange->NewestOpenRound() > next + ahead || parts_.host->first_round() > next ||
         LowestRound() != next || HighestAnchor() != next;
}

absl::StatusOr<uint32_t> CatchUp::Join() {
  LONGWAVE_RETURN_IF_ERROR(CheckPossible());
  LONGWAVE_RETURN_IF_ERROR(Hear());
  return Follow();
}

absl::Status CatchUp::Hear() {
  parts_.host->SetReadyRound(kRoundNever);
  taken_ = {};
  heard_.assign(SegmentCount(), false);
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    const absl::Status fetching = parts_.exchange->Fetch(s, parts_.pipeline->anchor_round(s));
    // One that is being fetched still tells as well.
    if (!absl::IsFailedPrecondition(fetching)) LONGWAVE_RETURN_IF_ERROR(fetching);
  }
  while (std::ranges::find(heard_, false) != heard_.end()) {
    LONGWAVE_RETURN_IF_ERROR(TakeNext(kPatience).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CatchUp::Follow() {
  absl::Time last_news = MonotonicNow(), last_asked = absl::InfinitePast();
  for (;;) {
    const uint32_t lowest = LowestRound(), highest = HighestRound();
    const uint32_t first = parts_.host->first_round();
    const bool level = lowest == highest;
    parts_.host->SetReadyRound(lowest);
    if (level && (first <= lowest || lowest >= parts_.rounds)) break;
    const absl::Time now = MonotonicNow();
    if (now - last_asked >= (level ? kNewsEvery : kLaggardsEvery)) {
      last_asked = now;
      level ? AskForNews() : FetchBelow(highest);
    }
    LONGWAVE_ASSIGN_OR_RETURN(const bool came, TakeNext(kPatience));
    if (came) last_news = now;
    // What is not up to date is on its way, however long that takes.
    const bool on_its_way = std::ranges::find(heard_, false) != heard_.end();
    if (level || on_its_way || first > lowest || now - last_news < parts_.fill_patience) continue;
    LONGWAVE_RETURN_IF_ERROR(Fill(lowest));
    last_news = MonotonicNow();
  }
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->AdoptAnchor());
  const uint32_t round = LowestRound();
  Log(LogLevel::kInfo, absl::StrCat("caught up: at round ", round, ", after ", taken_.updates,
                                    " merged updates and ", taken_.snapshots,
                                    " snapshots: ", taken_.bytes, " bytes"));
  return round;
}

void CatchUp::FetchBelow(uint32_t round) {
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    if (parts_.pipeline->anchor_round(s) < round) FetchAgain(s);
  }
}

void CatchUp::AskForNews() {
  const auto segments = parts_.layout->segments();
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    if (s == 0 || segments[s].shard != segments[s - 1].shard) FetchAgain(s);
  }
}

void CatchUp::FetchAgain(uint32_t segment) {
  // Refused if it is being fetched already: then what is wanted comes.
  const uint32_t round = parts_.pipeline->anchor_round(segment);
  if (parts_.exchange->Fetch(segment, round).ok()) heard_[segment] = false;
}

absl::StatusOr<bool> CatchUp::TakeNext(absl::Duration timeout) {
  LONGWAVE_RETURN_IF_ERROR(CheckStop());
  LONGWAVE_RETURN_IF_ERROR(Attend());
  LONGWAVE_ASSIGN_OR_RETURN(const std::optional<FetchEvent> event,
                            parts_.exchange->NextFetched(timeout));
  if (!event.has_value()) return false;
  LONGWAVE_RETURN_IF_ERROR(Take(*event));
  return !std::holds_alternative<UpToDate>(*event);
}

absl::Status CatchUp::Take(const FetchEvent& event) {
  if (const auto* fetched = std::get_if<Fetched>(&event)) return Take(*fetched);
  if (const auto* up_to_date = std::get_if<UpToDate>(&event)) {
    // The end of an earlier fetch, not of the one that a repair waits for.
    if (anew_.contains(up_to_date->segment)) return absl::OkStatus();
    if (up_to_date->segment < heard_.size()) heard_[up_to_date->segment] = true;
    return absl::OkStatus();
  }
  const auto& refused = std::get<FetchRefused>(event);
  return absl::FailedPreconditionError(absl::StrCat("got no way from round ", refused.round,
                                                    " of segment ", refused.segment,
                                                    " to the present: ", refused.reason));
}

absl::Status CatchUp::Take(const Fetched& fetched) {
  SyncPipeline& pipeline = *parts_.pipeline;
  const bool anew = anew_.contains(fetched.segment);
  // What was fetched for an earlier purpose, and came late.
  const bool known =
      fetched.round < pipeline.anchor_round(fetched.segment) ||
      (fetched.is_snapshot && fetched.round == pipeline.anchor_round(fetched.segment));
  if (known && !anew) return absl::OkStatus();
  taken_.bytes += fetched.payload.size();
  if (fetched.is_snapshot) {
    ++taken_.snapshots;
    LONGWAVE_ASSIGN_OR_RETURN(
        const std::vector<std::vector<float>> arrays,
        DecodeSnapshotPayload(fetched.payload.bytes(), pipeline.segment_arrays(),
                              pipeline.segment_elements(fetched.segment)));
    LONGWAVE_RETURN_IF_ERROR(pipeline.LoadSegment(fetched.segment, fetched.round, arrays));
  } else {
    if (anew && fetched.round != 0) return absl::OkStatus();  // of an earlier fetch
    ++taken_.updates;
    if (anew) LONGWAVE_RETURN_IF_ERROR(LoadInitial(fetched.segment));
    LONGWAVE_RETURN_IF_ERROR(pipeline.CatchUp(fetched.segment, fetched.round,
                                              parts_.learning_rate(fetched.round, fetched.segment),
                                              fetched.payload));
  }
  anew_.erase(fetched.segment);
  return absl::OkStatus();
}

absl::Status CatchUp::LoadInitial(uint32_t segment) {
  if (initial_.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(initial_, parts_.initial_weights());
  }
  // Nesterov's velocity begins with zeros.
  std::vector<std::vector<float>> arrays(parts_.pipeline->segment_arrays());
  for (const auto& [begin, end] : SegmentElements(*parts_.layout, segment)) {
    arrays[0].insert(arrays[0].end(), initial_.begin() + static_cast<ptrdiff_t>(begin),
                     initial_.begin() + static_cast<ptrdiff_t>(end));
  }
  for (size_t i = 1; i < arrays.size(); ++i) arrays[i].resize(arrays[0].size());
  return parts_.pipeline->LoadSegment(segment, 0, arrays);
}

absl::Status CatchUp::PostAndSettle(const std::vector<SegmentPush>& pushes, const Undo& late,
                                    const Undo& unknown) {
  for (const SegmentPush& push : pushes) LONGWAVE_RETURN_IF_ERROR(parts_.exchange->Post(push));
  for (size_t open = pushes.size(); open > 0;) {
    LONGWAVE_RETURN_IF_ERROR(CheckStop());
    LONGWAVE_RETURN_IF_ERROR(Attend());
    LONGWAVE_ASSIGN_OR_RETURN(const std::optional<Settled> settled,
                              parts_.exchange->Next(kPatience));
    if (!settled.has_value()) continue;
    const auto push = std::ranges::find(pushes, settled->segment, &SegmentPush::segment);
    if (push == pushes.end()) continue;
    --open;
    parts_.on_fate(settled->fate);
    if (settled->fate == Fate::kLate) LONGWAVE_RETURN_IF_ERROR(late(*push));
    if (settled->fate == Fate::kUnknown) LONGWAVE_RETURN_IF_ERROR(unknown(*push));
    const bool is_next = parts_.pipeline->anchor_round(push->segment) == settled->round;
    if (settled->gone || !is_next) continue;  // or it was fetched already
    LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->CatchUp(
        push->segment, settled->round, parts_.learning_rate(settled->round, push->segment),
        settled->merged));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CatchUp::Resume(const Checkpoint& checkpoint) {
  LONGWAVE_RETURN_IF_ERROR(CheckPossible());
  LONGWAVE_RETURN_IF_ERROR(Hear());
  std::vector<uint32_t> unsettled;
  for (const UnsettledPush& push : checkpoint.pushes) unsettled.push_back(push.segment);
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->LoadMomentum(checkpoint.momentum, unsettled,
                                                         checkpoint.accounted, checkpoint.round));
  parts_.host->SetReadyRound(LowestRound());
  uint32_t late_count = 0;
  uint32_t unknown_count = 0;
  const Undo late = [&](const SegmentPush& push) {
    ++late_count;
    return parts_.pipeline->RestoreFrom(push.segment, push.round, push.payload);
  };
  const Undo unknown = [&](const SegmentPush& push) {
    ++unknown_count;
    return parts_.pipeline->DropResidual(push.segment);
  };
  std::vector<SegmentPush> pushes;
  for (const UnsettledPush& push : checkpoint.pushes) {
    SegmentPush again{.epoch = parts_.host->epoch(),
                      .round = checkpoint.round,
                      .segment = push.segment,
                      .payload = push.payload,
                      .norm = push.norm,
                      .weight = push.weight,
                      .sent_before = true,
                      .accounted = checkpoint.accounted[push.segment]};
    // A shard that stands before its round has never seen it.
    if (parts_.pipeline->anchor_round(push.segment) < checkpoint.round) {
      parts_.on_fate(Fate::kLate);
      LONGWAVE_RETURN_IF_ERROR(late(again));
    } else {
      pushes.push_back(std::move(again));
    }
  }
  LONGWAVE_RETURN_IF_ERROR(PostAndSettle(pushes, late, unknown));
  const size_t accepted = checkpoint.pushes.size() - late_count - unknown_count;
  Log(LogLevel::kInfo, absl::StrCat("resumed after round ", checkpoint.round, ": of ",
                                    checkpoint.pushes.size(), " pushes ", accepted,
                                    " had been accepted, ", late_count, " go with a later round"));
  if (unknown_count > 0) {
    Log(LogLevel::kWarning, absl::StrCat("no shard knows what became of ", unknown_count,
                                         " pushes: the residual of their segments is dropped"));
  }
  return Follow();
}

absl::Status CatchUp::Fill(uint32_t round) {
  SyncPipeline& pipeline = *parts_.pipeline;
  LONGWAVE_RETURN_IF_ERROR(parts_.clear_gradient());
  // Without inner steps the signal is nothing: what goes out is the residual's.
  LONGWAVE_RETURN_IF_ERROR(pipeline.AdoptAnchor());
  uint32_t filled = 0, late_count = 0;
  const Undo undo = [&](const SegmentPush& push) {
    ++late_count;
    return pipeline.Restore(push.segment);
  };
  const Undo nothing = [](const SegmentPush&) { return absl::OkStatus(); };
  for (uint32_t fragment = 0; fragment < pipeline.fragment_count(); ++fragment) {
    std::vector<uint32_t> behind;
    for (uint32_t s = fragment; s < SegmentCount(); s += pipeline.fragment_count()) {
      if (pipeline.anchor_round(s) == round) behind.push_back(s);
    }
    if (behind.empty()) continue;
    LONGWAVE_RETURN_IF_ERROR(
        pipeline.BeginFragment(round, fragment, parts_.learning_rate(round, behind.front())));
    std::vector<SegmentPush> pushes;
    for (const uint32_t s : behind) {
      LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push push, pipeline.Encode(s));
      pushes.push_back({.epoch = parts_.host->epoch(),
                        .round = round,
                        .segment = s,
                        .payload = std::move(push.payload),
                        .norm = push.norm,
                        .weight = 1,
                        .accounted = push.accounted});
    }
    filled += static_cast<uint32_t>(pushes.size());
    // On a device the next segment was begun, which may not be among those behind: given up here,
    // since only a residual that nothing is half taken from can be kept.
    LONGWAVE_RETURN_IF_ERROR(pipeline.AdoptAnchor());
    LONGWAVE_RETURN_IF_ERROR(parts_.before_fill(round, fragment, pushes));
    LONGWAVE_RETURN_IF_ERROR(PostAndSettle(pushes, undo, nothing));
    LONGWAVE_RETURN_IF_ERROR(pipeline.AdoptAnchor());
  }
  Log(LogLevel::kInfo,
      absl::StrCat("round ", round, ": ", filled,
                   " segments that nobody closed were pushed without inner steps",
                   late_count == 0 ? ""
                                   : absl::StrCat("; ", late_count,
                                                  " of these pushes were late, and go with a later "
                                                  "round")));
  return absl::OkStatus();
}

absl::Status CatchUp::RepairIfTold(uint32_t next) {
  const std::optional<Repair> repair = parts_.host->repair();
  if (!repair.has_value()) return absl::OkStatus();
  std::vector<uint32_t> segments;
  for (const uint32_t s : repair->segments) {
    if (s < SegmentCount() && repair->round >= repaired_before_[s]) segments.push_back(s);
  }
  if (segments.empty()) return absl::OkStatus();
  if (!parts_.possible) {
    if (!std::exchange(refused_repair_, true)) {
      Log(LogLevel::kWarning,
          absl::StrCat("after round ", repair->round,
                       " this replica differs from the others: ", CheckPossible().message()));
    }
    return absl::OkStatus();
  }
  Log(LogLevel::kWarning,
      absl::StrCat("after round ", repair->round, " this replica differs from the others in ",
                   segments.size(), " of ", SegmentCount(), " segments: they are fetched anew"));
  ++repairs_;
  taken_ = {};
  heard_.assign(SegmentCount(), true);
  for (const uint32_t s : segments) {
    LONGWAVE_RETURN_IF_ERROR(parts_.exchange->Fetch(s, 0, next));
    anew_.insert(s);
    heard_[s] = false;
  }
  while (std::ranges::find(heard_, false) != heard_.end()) {
    LONGWAVE_RETURN_IF_ERROR(TakeNext(kPatience).status());
  }
  initial_ = {};
  for (const uint32_t s : segments) repaired_before_[s] = next;
  Log(LogLevel::kInfo, absl::StrCat("repaired with ", taken_.updates, " merged updates and ",
                                    taken_.snapshots, " snapshots: ", taken_.bytes, " bytes"));
  return parts_.pipeline->AdoptAnchor(segments);
}

absl::Status CatchUp::Attend() {
  if (const auto endpoints = parts_.host->TakeNewEndpoints()) {
    LONGWAVE_RETURN_IF_ERROR(parts_.exchange->SetEndpoints(*endpoints));
  }
  while (const std::optional<SnapshotAsk> ask = parts_.exchange->NextAsk()) {
    AddAsk(*ask, asks_);
  }
  for (auto ask = asks_.begin(); ask != asks_.end();) {
    const auto [segment, round, or_later] = *ask;
    const bool exists = segment < SegmentCount();
    const uint32_t here = exists ? parts_.pipeline->anchor_round(segment) : 0;
    // Too late: the shard asks somebody else.
    if (!exists || (here > round && !or_later)) {
      ask = asks_.erase(ask);
      continue;
    }
    // One that is ahead of this replica waits for it; and each for its turn on the link.
    if (here < round || anew_.contains(segment) || !parts_.exchange->HasSnapshotRoom(segment)) {
      ++ask;
      continue;
    }
    asks_.erase(ask);
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::vector<float>> arrays,
                              parts_.pipeline->ExportSegment(segment));
    const std::vector<std::span<const float>> views(arrays.begin(), arrays.end());
    ++snapshots_sent_;
    return parts_.exchange->PostSnapshot(segment, here, EncodeSnapshotPayload(views));
  }
  return absl::OkStatus();
}

}  // namespace longwave

// Catching up without training, and snapshots for shards.
#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"
#include "worker/core/worker_core.h"

namespace longwave {
namespace {

// Shards announce closing rounds; a repeated fetch makes up for lost announcements.
constexpr absl::Duration kNewsEvery = absl::Seconds(1);
// The interval while some segments have closed a round and others are about to.
constexpr absl::Duration kLaggardsEvery = absl::Milliseconds(200);

}  // namespace

absl::Status WorkerCore::CheckPossible() const {
  if (options_.can_catch_up) return absl::OkStatus();
  return FailedPrecondition(
      "got no way to catch up: with sync.update inner or local a replica is more than the merged "
      "updates; wanted a worker that is there from the first round on and is never away for longer "
      "than shards keep updates");
}

std::pair<uint32_t, uint32_t> WorkerCore::AnchorRounds() const {
  std::pair<uint32_t, uint32_t> rounds = {kRoundNever, 0};
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    const uint32_t here = options_.pipeline->anchor_round(s);
    rounds = {std::min(rounds.first, here), std::max(rounds.second, here)};
  }
  return rounds;
}

bool WorkerCore::IsBehind(uint32_t next) const {
  if (!options_.can_catch_up || next >= rounds()) return false;
  // With fragments the first ones of the next round may close before the last of this one.
  const uint32_t ahead = plan_.fragment_count() > 1 ? 1 : 0;
  return newest_open_round_ > next + ahead || directive_.first_round > next ||
         AnchorRounds() != std::pair(next, next);
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::CatchUp(bool anew) {
  LONGWAVE_RETURN_IF_ERROR(CheckPossible());
  ++counts_.catch_ups;
  stage_ = Stage::kHearing;
  ready_round_ = kRoundNever;
  taken_ = {};
  for (uint32_t s = 0; s < SegmentCount(); ++s) Fetch(s, anew);
  return Wish::kGoOn;
}

bool WorkerCore::HeardAll() const {
  const auto is_current = [](const Segment& segment) {
    return segment.state == SegmentStage::kCurrent;
  };
  if (stage_ != Stage::kRepairing) return std::ranges::all_of(segments_, is_current);
  return std::ranges::all_of(repairing_, [&](uint32_t s) { return is_current(segments_[s]); });
}

void WorkerCore::Fetch(uint32_t segment, bool anew) {
  SegmentStage& state = segments_[segment].state;
  LONGWAVE_CHECK(state != SegmentStage::kPosted && (anew || state != SegmentStage::kAnew));
  const uint32_t until = stage_ == Stage::kRepairing ? round_ : kRoundNever;
  if (state == SegmentStage::kFetching && !anew) return;  // a fetch is under way
  state = anew ? SegmentStage::kAnew : SegmentStage::kFetching;
  DropEarly(segment);
  effects_.push_back(
      FetchWish{.segment = segment,
                .from_round = anew ? AnewFrom() : options_.pipeline->anchor_round(segment),
                .until_round = until});
}

absl::Status WorkerCore::On(const FetchEvent& event) {
  early_.push_back(event);
  return TakeEarly();
}

// An update of round r, and a replica of the rounds before r, are of rounds whose inner steps the
// coordinator has told, but perhaps not to this worker yet. Later events wait behind them, so that
// those of a segment stay in order.
absl::Status WorkerCore::TakeEarly() {
  while (!early_.empty()) {
    const FetchEvent& next = early_.front();
    const bool is_update = next.kind == FetchEvent::Kind::kUpdate;
    const bool has_round = is_update || next.kind == FetchEvent::Kind::kSnapshot;
    const uint64_t rounds = has_round ? uint64_t{next.round} + (is_update ? 1 : 0) : 0;
    if (rounds > plan_.rounds().decided_rounds()) return absl::OkStatus();
    const FetchEvent event = std::move(early_.front());
    early_.pop_front();
    LONGWAVE_RETURN_IF_ERROR(Take(event));
  }
  return absl::OkStatus();
}

void WorkerCore::DropEarly(uint32_t segment) {
  std::erase_if(early_, [&](const FetchEvent& event) { return event.segment == segment; });
}

absl::Status WorkerCore::Take(const FetchEvent& event) {
  switch (event.kind) {
    case FetchEvent::Kind::kUpdate:
    case FetchEvent::Kind::kSnapshot:
      has_news_ = true;
      return OnFetched(event);
    case FetchEvent::Kind::kUpToDate: {
      // For a segment that is fetched anew the event ends an earlier fetch.
      SegmentStage& state = segments_[event.segment].state;
      if (state == SegmentStage::kFetching) state = SegmentStage::kCurrent;
      return absl::OkStatus();
    }
    case FetchEvent::Kind::kRefused:
      break;
  }
  return FailedPrecondition("got no way from round ", event.round, " of segment ", event.segment,
                            " to the present: ", event.reason);
}

absl::Status WorkerCore::OnFetched(const FetchEvent& fetched) {
  SyncPipeline& pipeline = *options_.pipeline;
  const bool is_snapshot = fetched.kind == FetchEvent::Kind::kSnapshot;
  const uint32_t segment = fetched.segment;
  SegmentStage& state = segments_[segment].state;
  const bool anew = state == SegmentStage::kAnew;
  const uint32_t here = pipeline.anchor_round(segment);
  // An earlier fetch may bring a known round late.
  const bool known = fetched.round < here || (is_snapshot && fetched.round == here);
  if (known && !anew) return absl::OkStatus();
  taken_.bytes += fetched.payload.size();
  if (is_snapshot) {
    ++taken_.snapshots;
    std::vector<std::vector<float>> arrays;
    if (pipeline.owns(segment)) {
      LONGWAVE_ASSIGN_OR_RETURN(
          arrays, DecodeSnapshotPayload(fetched.payload.bytes(), pipeline.segment_arrays(),
                                        pipeline.segment_elements(segment)));
    }
    LONGWAVE_RETURN_IF_ERROR(pipeline.LoadSegment(segment, fetched.round, arrays));
  } else {
    if (anew && fetched.round != AnewFrom()) return absl::OkStatus();  // of an earlier fetch
    ++taken_.updates;
    if (anew) {
      std::vector<std::vector<float>> arrays;
      if (pipeline.owns(segment)) {
        LONGWAVE_ASSIGN_OR_RETURN(arrays, Initial(segment));
      }
      LONGWAVE_RETURN_IF_ERROR(pipeline.LoadSegment(segment, 0, arrays));
    }
    LONGWAVE_RETURN_IF_ERROR(pipeline.CatchUp(
        segment, fetched.round, LearningRate(fetched.round, segment), fetched.payload));
  }
  if (anew) state = SegmentStage::kFetching;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<float>>> WorkerCore::Initial(uint32_t segment) {
  if (initial_.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(initial_, options_.initial_weights());
  }
  // Nesterov's velocity begins with zeros.
  return StartState(*options_.layout, segment, initial_, options_.pipeline->segment_arrays());
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Heard(absl::Time now) {
  last_news_ = now;
  last_asked_ = absl::InfinitePast();
  // After the last round there are no inner steps to wait for.
  if (checkpoint_.has_value() && checkpoint_->round < rounds() && !IsDecided(checkpoint_->round))
    return Wish::kWait;
  if (checkpoint_.has_value()) return Resume();
  stage_ = Stage::kFollowing;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Resume() {
  SyncPipeline& pipeline = *options_.pipeline;
  const Checkpoint& checkpoint = *checkpoint_;
  std::vector<uint32_t> unsettled;
  for (const UnsettledPush& push : checkpoint.pushes) unsettled.push_back(push.segment);
  LONGWAVE_RETURN_IF_ERROR(pipeline.LoadMomentum(checkpoint.momentum, unsettled,
                                                 checkpoint.accounted, checkpoint.round));
  ready_round_ = AnchorRounds().first;
  stage_ = Stage::kResuming;
  missing_ = late_ = unknown_ = 0;
  for (const UnsettledPush& push : checkpoint.pushes) {
    Await({.epoch = directive_.epoch,
           .round = checkpoint.round,
           .segment = push.segment,
           .payload = push.payload,
           .norm = push.norm,
           .weight = push.weight,
           .sent_before = true,
           .accounted = checkpoint.accounted[push.segment]});
    if (pipeline.anchor_round(push.segment) >= checkpoint.round) {
      effects_.push_back(segments_[push.segment].push);
    } else {
      // A shard that stands before the push's round has never had the push.
      settled_.push_back({.round = checkpoint.round,
                          .segment = push.segment,
                          .fate = Fate::kLate,
                          .compacted = true});
    }
  }
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EndOutOfTurn(absl::Time now) {
  if (stage_ == Stage::kResuming) {
    const size_t pushes = checkpoint_->pushes.size();
    if (pushes == 0) {
      Notify(absl::StrCat("resumed in round ", checkpoint_->round, ", from step ",
                          checkpoint_->step, ": nothing was in flight"));
    } else {
      Notify(absl::StrCat("resumed after round ", checkpoint_->round, ": of ", pushes, " pushes ",
                          pushes - late_ - unknown_, " had been accepted, ", late_,
                          " go with a later round"));
    }
    if (unknown_ > 0) {
      Warn(absl::StrCat("no shard knows what became of ", unknown_,
                        " pushes: the residual of their segments is dropped"));
    }
    checkpoint_.reset();
  } else {
    LONGWAVE_RETURN_IF_ERROR(options_.pipeline->AdoptAnchor());
    if (late_ > 0) {
      Notify(absl::StrCat("round ", round_, ": ", late_,
                          " pushes of filled rounds were late; they go with a later round"));
    }
    ++fragment_;
    return FillFragment(now);
  }
  stage_ = Stage::kFollowing;
  last_news_ = now;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Follow(absl::Time now) {
  const auto [lowest, highest_anchor] = AnchorRounds();
  const uint32_t highest = std::max(newest_open_round_, highest_anchor);
  const uint32_t first = directive_.first_round;
  const bool level = lowest == highest;
  if (std::exchange(has_news_, false)) last_news_ = now;
  ready_round_ = lowest;
  if (level && (first <= lowest || lowest >= rounds())) {
    LONGWAVE_RETURN_IF_ERROR(options_.pipeline->AdoptAnchor());
    Notify(absl::StrCat("caught up: at round ", lowest, ", after ", taken_.updates,
                        " merged updates and ", taken_.snapshots, " snapshots: ", taken_.bytes,
                        " bytes; goes on from step ", plan_.FirstStep(lowest)));
    GoTo(lowest);
    return Wish::kGoOn;
  }
  AskForNews(now, level, highest);
  // Fetches are under way, however long they take.
  if (level || !HeardAll() || first > lowest || !IsDecided(lowest)) return Wish::kWait;
  if (now - last_news_ < options_.fill_patience) {
    wakes_at_ = std::min(wakes_at_, last_news_ + options_.fill_patience);
    return Wish::kWait;
  }
  if (options_.clear_gradient != nullptr) LONGWAVE_RETURN_IF_ERROR(options_.clear_gradient());
  round_ = lowest;
  fragment_ = 0;
  filled_ = 0;
  return FillFragment(now);
}

void WorkerCore::AskForNews(absl::Time now, bool level, uint32_t highest) {
  const absl::Duration every = level ? kNewsEvery : kLaggardsEvery;
  wakes_at_ = last_asked_ + every;
  if (now < wakes_at_) return;
  last_asked_ = now;
  wakes_at_ = now + every;
  const auto segments = options_.layout->segments();
  for (uint32_t s = 0; s < SegmentCount(); ++s) {
    const bool is_first_of_shard = s == 0 || segments[s].shard != segments[s - 1].shard;
    if (level ? is_first_of_shard : options_.pipeline->anchor_round(s) < highest) Fetch(s);
  }
}

// Fills the first fragment from fragment_ on that has segments behind: an ordinary contribution
// with a zero signal.
absl::StatusOr<WorkerCore::Wish> WorkerCore::FillFragment(absl::Time now) {
  const uint32_t fragments = plan_.fragment_count();
  for (; fragment_ < fragments; ++fragment_) {
    std::vector<uint32_t> behind;
    for (uint32_t s = fragment_; s < SegmentCount(); s += fragments) {
      if (options_.pipeline->anchor_round(s) == round_) behind.push_back(s);
    }
    if (behind.empty()) continue;
    filled_ += static_cast<uint32_t>(behind.size());
    LONGWAVE_RETURN_IF_ERROR(options_.pipeline->AdoptAnchor());
    fills_ = true;
    LONGWAVE_RETURN_IF_ERROR(BeginEncoding(std::move(behind)));
    return Wish::kGoOn;
  }
  Notify(absl::StrCat("round ", round_, ": ", filled_,
                      " segments that nobody closed were pushed without inner steps"));
  fills_ = false;
  stage_ = Stage::kFollowing;
  last_news_ = now;
  return Wish::kGoOn;
}

absl::StatusOr<bool> WorkerCore::BeginRepair() {
  const std::optional<Repair>& repair = directive_.repair;
  std::vector<uint32_t> segments;
  if (repair.has_value()) {
    for (const uint32_t s : repair->segments) {
      if (s < SegmentCount() && repair->round >= segments_[s].repaired_before)
        segments.push_back(s);
    }
  }
  if (segments.empty()) return false;
  if (!options_.can_catch_up) {
    if (!std::exchange(refused_repair_, true)) {
      Warn(absl::StrCat("after round ", repair->round,
                        " this replica differs from the others: ", CheckPossible().message()));
    }
    return false;
  }
  Warn(absl::StrCat("after round ", repair->round, " this replica differs from the others in ",
                    segments.size(), " of ", SegmentCount(), " segments: they are fetched anew"));
  ++counts_.repairs;
  stage_ = Stage::kRepairing;
  taken_ = {};
  for (const uint32_t s : segments) {
    Fetch(s, /*anew=*/true);
    // A repair also covers sealing rounds reported before it.
    segments_[s].repaired_before = std::max(round_, sealed_.value_or(0) + 1);
  }
  repairing_ = std::move(segments);
  return true;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EndRepair() {
  initial_ = std::vector<float>();  // `= {}` would keep the memory
  Notify(absl::StrCat("repaired with ", taken_.updates, " merged updates and ", taken_.snapshots,
                      " snapshots: ", taken_.bytes, " bytes"));
  LONGWAVE_RETURN_IF_ERROR(options_.pipeline->AdoptAnchor(std::exchange(repairing_, {})));
  stage_ = Stage::kBetweenRounds;
  return Wish::kGoOn;
}

// After round 0 the first weights are made or read again.
absl::StatusOr<std::vector<std::vector<float>>> WorkerCore::StartOf(uint32_t segment) {
  if (options_.pipeline->anchor_round(segment) == 0 && !IsFetchedAnew(segment))
    return options_.pipeline->ExportSegment(segment);
  gave_start_ = true;
  return Initial(segment);
}

absl::StatusOr<std::optional<SnapshotAnswer>> WorkerCore::AnswerRequest(
    absl::FunctionRef<bool(uint32_t segment)> has_room) {
  for (auto request = requests_.begin(); request != requests_.end();) {
    const auto [segment, round, or_later, of_start] = *request;
    const bool exists = segment < SegmentCount() && options_.pipeline->owns(segment);
    const uint32_t here = exists && !of_start ? options_.pipeline->anchor_round(segment) : 0;
    // The replica is too late for the request: the shard requests the snapshot from another member.
    if (!exists || (here > round && !or_later) || (of_start && directive_.other_start)) {
      request = requests_.erase(request);
      continue;
    }
    // A request ahead of this replica waits, and each request waits for its turn on the link.
    if (here < round || (!of_start && IsFetchedAnew(segment)) || !has_room(segment)) {
      ++request;
      continue;
    }
    request = requests_.erase(request);
    absl::StatusOr<std::vector<std::vector<float>>> exported =
        of_start ? StartOf(segment) : options_.pipeline->ExportSegment(segment);
    if (of_start && !exported.ok()) {
      Warn(absl::StrCat("a shard asks for the weights that the run began with, which this worker ",
                        "cannot give: ", exported.status().message()));
      continue;
    }
    LONGWAVE_RETURN_IF_ERROR(exported.status());
    const std::vector<std::vector<float>>& arrays = *exported;
    const std::vector<std::span<const float>> views(arrays.begin(), arrays.end());
    ++counts_.snapshots_sent;
    return SnapshotAnswer{segment, here, EncodeSnapshotPayload(views)};
  }
  return std::nullopt;
}

}  // namespace longwave

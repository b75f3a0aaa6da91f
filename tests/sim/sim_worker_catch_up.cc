// How it comes to the present, as CatchUp of worker/trainer has it.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/wire/snapshot_payload.h"
#include "tests/sim/sim_worker.h"

namespace longwave::sim {
namespace {

// Of the trainer's CatchUp, which looks a little more often.
constexpr absl::Duration kFollowEvery = absl::Milliseconds(200);
constexpr absl::Duration kNewsEvery = absl::Seconds(1);
constexpr absl::Duration kFillPatience = absl::Seconds(2);

}  // namespace

void SimWorker::BeginWithShards() {
  LedgerOptions options;
  options.run = run_;
  options.worker = worker_;
  for (const Segment& segment : env_.layout->segments()) {
    options.connections.push_back(segment.shard);
    options.snapshot_bytes.push_back(4 * kSegmentElements);
  }
  options.connection_count = static_cast<uint32_t>(shards_.size());
  ledger_ = std::make_unique<WorkerLedger>(options);
  const bool returns = ReadCheckpoint();
  if (!returns && first_round() == 0) {
    round_ = 0;
    return NextRound();
  }
  if (!returns) env_.probes->Hit(Probe::kWorkerJoinedLate);
  Join();
}

// True: there was one to go on from.
bool SimWorker::ReadCheckpoint() {
  if (folder_ == nullptr) return false;
  auto found = folder_->Read(run_, name(), worker_, ShapeOf(*env_.layout));
  if (!found.ok()) {
    Die(found.status(), "reads its checkpoint");
    return false;
  }
  if (!found->has_value() || (*found)->stale) return false;
  Checkpoint& checkpoint = (*found)->checkpoint;
  std::vector<uint32_t> unsettled;
  for (const UnsettledPush& push : checkpoint.pushes) unsettled.push_back(push.segment);
  if (const absl::Status loaded = pipeline_->LoadMomentum(checkpoint.momentum, unsettled,
                                                          checkpoint.accounted, checkpoint.round);
      !loaded.ok())
    Die(loaded, "takes its residual back");
  env_.probes->Hit(Probe::kWorkerReturned);
  account_ = kept_account_;
  if (env_.settings->canary == Canary::kForgottenPush) return true;
  for (UnsettledPush& push : checkpoint.pushes) {
    posted_again_.push_back({.epoch = membership_.epoch,
                             .round = checkpoint.round,
                             .segment = push.segment,
                             .payload = std::move(push.payload),
                             .norm = push.norm,
                             .weight = push.weight,
                             .sent_before = true,
                             .accounted = checkpoint.accounted[push.segment]});
  }
  return true;
}

uint32_t SimWorker::LowestRound() const {
  uint32_t lowest = kRoundNever;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    lowest = std::min(lowest, pipeline_->anchor_round(s));
  return lowest;
}

uint32_t SimWorker::HighestAnchor() const {
  uint32_t highest = 0;
  for (uint32_t s = 0; s < env_.layout->segments().size(); ++s)
    highest = std::max(highest, pipeline_->anchor_round(s));
  return highest;
}

uint32_t SimWorker::HighestRound() const {
  return std::max(ledger_->newest_open_round(), HighestAnchor());
}

bool SimWorker::IsBehind(uint32_t next) const {
  if (next >= env_.settings->rounds) return false;
  // With fragments the first of the next round may close before the last of this.
  const uint32_t ahead = pipeline_->fragment_count() > 1 ? 1 : 0;
  return ledger_->newest_open_round() > next + ahead || first_round() > next ||
         LowestRound() != next || HighestAnchor() != next;
}

void SimWorker::SetReadyRound(uint32_t round) {
  if (ready_round_ == round) return;
  ready_round_ = round;
  if (first_round() == kRoundNever) BeatNow();
}

// Every segment to its own present.
void SimWorker::Join() {
  env_.trace->Tell([&] { return absl::StrCat(name(), " catches up"); });
  stage_ = Stage::kHearing;
  SetReadyRound(kRoundNever);
  heard_.assign(env_.layout->segments().size(), false);
  for (uint32_t s = 0; s < heard_.size(); ++s) {
    // One that is being fetched still tells as well.
    const absl::Status wanted = ledger_->Fetch(s, pipeline_->anchor_round(s), kRoundNever, now());
    if (!wanted.ok() && !absl::IsFailedPrecondition(wanted)) return Die(wanted, "fetches");
  }
}

bool SimWorker::catches_up() const {
  return stage_ == Stage::kHearing || stage_ == Stage::kFollowing || stage_ == Stage::kRepairing;
}

void SimWorker::FetchAgain(uint32_t segment) {
  const uint32_t round = pipeline_->anchor_round(segment);
  if (ledger_->Fetch(segment, round, kRoundNever, now()).ok()) heard_[segment] = false;
}

bool SimWorker::HeardAll() const { return std::ranges::find(heard_, false) == heard_.end(); }

void SimWorker::TakeFetched(const FetchEvent& event) {
  if (const auto* refused = std::get_if<FetchRefused>(&event))
    return Die(absl::FailedPreconditionError(refused->reason), "cannot catch up");
  if (const auto* fetched = std::get_if<Fetched>(&event)) {
    if (const absl::Status applied = ApplyFetched(*fetched); !applied.ok())
      return Die(applied, "takes what it fetched");
    last_news_ = now();
  } else {
    const uint32_t segment = std::get<UpToDate>(event).segment;
    // The end of an earlier fetch, not of the one that a repair waits for.
    if (segment < heard_.size() && !anew_.contains(segment)) heard_[segment] = true;
  }
  if (stage_ == Stage::kRepairing && HeardAll()) return Repaired();
  if (stage_ == Stage::kHearing && HeardAll()) return Heard();
  if (stage_ == Stage::kFollowing) Follow();
}

absl::Status SimWorker::ApplyFetched(const Fetched& fetched) {
  const uint32_t s = fetched.segment;
  const bool anew = anew_.contains(s);
  const uint32_t anchor_round = pipeline_->anchor_round(s);
  const bool known =
      fetched.round < anchor_round || (fetched.is_snapshot && fetched.round == anchor_round);
  if (known && !anew) return absl::OkStatus();
  if (fetched.is_snapshot) {
    auto arrays = DecodeSnapshotPayload(fetched.payload.bytes(), pipeline_->segment_arrays(),
                                        pipeline_->segment_elements(s));
    if (!arrays.ok()) return arrays.status();
    if (absl::Status loaded = pipeline_->LoadSegment(s, fetched.round, *arrays); !loaded.ok())
      return loaded;
    damaged_.erase(s);
  } else {
    if (anew && fetched.round != 0) return absl::OkStatus();
    if (anew) {
      const std::vector<std::vector<float>> start(1, std::vector<float>(kSegmentElements, kStart));
      if (absl::Status loaded = pipeline_->LoadSegment(s, 0, start); !loaded.ok()) return loaded;
      damaged_.erase(s);
    }
    env_.probes->Hit(Probe::kFetchByLog);
    Buffer& before = merged_before_[s];
    // The update before once more, instead of this one.
    const bool skips = env_.settings->canary == Canary::kSkippedUpdate && !before.empty();
    const Buffer payload = skips ? before : fetched.payload;
    before = fetched.payload;
    if (absl::Status taken = pipeline_->CatchUp(s, fetched.round, 1, payload); !taken.ok())
      return taken;
  }
  anew_.erase(s);
  CheckReplica();
  return absl::OkStatus();
}

void SimWorker::Heard() {
  if (!posted_again_.empty()) return PostAgain();
  BeginToFollow();
}

void SimWorker::BeginToFollow() {
  stage_ = Stage::kFollowing;
  last_news_ = now();
  last_asked_ = absl::InfinitePast();
  CheckResidual();
  FollowForEver(++follows_);
}

void SimWorker::FollowForEver(uint64_t which) {
  if (stage_ != Stage::kFollowing || which != follows_) return;
  Follow();
  After(kFollowEvery, [this, which] {
    FollowForEver(which);
    Pump();
  });
}

void SimWorker::Follow() {
  const uint32_t lowest = LowestRound();
  const uint32_t highest = HighestRound();
  const uint32_t first = first_round();
  const bool level = lowest == highest;
  SetReadyRound(lowest);
  if (level && (first <= lowest || lowest >= env_.settings->rounds)) {
    if (const absl::Status adopted = pipeline_->AdoptAnchor(); !adopted.ok())
      return Die(adopted, "takes its anchor");
    round_ = lowest;
    return NextRound();
  }
  if (now() - last_asked_ >= (level ? kNewsEvery : kFollowEvery)) {
    last_asked_ = now();
    const auto segments = env_.layout->segments();
    for (uint32_t s = 0; s < segments.size(); ++s) {
      const bool asks = level ? s == 0 || segments[s].shard != segments[s - 1].shard
                              : pipeline_->anchor_round(s) < highest;
      if (asks) FetchAgain(s);
    }
  }
  if (level || !HeardAll() || first > lowest || now() - last_news_ < kFillPatience) return;
  Fill(lowest);
}

// Closes what nobody else closes, without inner steps.
void SimWorker::Fill(uint32_t round) {
  env_.probes->Hit(Probe::kRoundFilled);
  env_.trace->Tell([&] { return absl::StrCat(name(), " fills round ", round); });
  if (folder_ != nullptr) {
    if (const absl::Status retired = folder_->Retire(); !retired.ok())
      return Die(retired, "retires its checkpoint");
  }
  round_ = round;
  fragment_ = 0;
  FillFragment();
}

// The first fragment from fragment_ on that has something to be filled.
void SimWorker::FillFragment() {
  const uint32_t round = round_;
  absl::Status begun = pipeline_->AdoptAnchor();
  if (begun.ok()) begun = pipeline_->BeginFragment(round, fragment_, 1);
  if (!begun.ok()) return Die(begun, "begins to fill a round");
  std::vector<SegmentPush> pushes;
  const std::vector<float> nothing(kSegmentElements);
  const uint32_t fragments = pipeline_->fragment_count();
  for (uint32_t s = fragment_; s < env_.layout->segments().size(); s += fragments) {
    if (pipeline_->anchor_round(s) != round) continue;
    auto push = pipeline_->Encode(s);
    if (!push.ok()) return Die(push.status(), "encodes");
    env_.checker->Encoded(worker_, &account_, round, s, nothing, push->payload);
    pushes.push_back({.epoch = membership_.epoch,
                      .round = round,
                      .segment = s,
                      .payload = std::move(push->payload),
                      .norm = push->norm,
                      .weight = 1,
                      .accounted = push->accounted});
  }
  stage_ = Stage::kFilling;
  if (pushes.empty()) return EndPosting();
  Post(std::move(pushes));
}

}  // namespace longwave::sim

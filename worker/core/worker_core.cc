#include "worker/core/worker_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longwave {

WorkerCore::WorkerCore(WorkerCoreOptions options)
    : options_(std::move(options)),
      plan_(options_.plan),
      segments_(options_.layout->segments().size()),
      tokens_before_(plan_.fragment_count()),
      pace_(options_.has_journal ? options_.checkpoint_every.value_or(0) : 0) {}

const char* WorkerCore::Name(Stage stage) {
  constexpr const char* kNames[] = {"hearing",   "resuming", "following", "filling",
                                    "computing", "encoding", "syncing",   "between rounds",
                                    "repairing", "sealing"};
  return kNames[static_cast<size_t>(stage)];
}

absl::Status WorkerCore::Begin(bool is_new, std::optional<Checkpoint> checkpoint) {
  if (is_new && directive_.first_round == 0 && !directive_.other_start) {
    GoTo(0);
    if (IsDecided(0)) stage_ = Stage::kComputing;
    ready_round_ = 0;
    return absl::OkStatus();
  }
  checkpoint_ = std::move(checkpoint);
  return CatchUp(directive_.other_start).status();
}

void WorkerCore::Hear(Directive directive) {
  directive_ = std::move(directive);
  if (directive_.intervals.decided_rounds <= plan_.rounds().decided_rounds()) return;
  plan_failure_.Update(plan_.Extend(directive_.intervals));
}

double WorkerCore::LearningRate(uint32_t round, uint32_t segment) const {
  const SyncPoint at = plan_.At(round, segment % plan_.fragment_count());
  return options_.learning_rate(at.signal_step - 1);
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Advance(absl::Time now) {
  LONGWAVE_ASSIGN_OR_RETURN(const Wish wish, AdvanceStage(now));
#ifndef NDEBUG
  LONGWAVE_RETURN_IF_ERROR(CheckInvariants());
#endif
  if (!stops_ || wish == Wish::kGoOn) return wish;
  LONGWAVE_RETURN_IF_ERROR(KeepLast());
  return Wish::kEnd;
}

// A replica with all rounds needs no checkpoint: its residual is never sent.
absl::Status WorkerCore::KeepLast() {
  if (stage_ == Stage::kSealing || !std::exchange(has_unkept_, false)) return absl::OkStatus();
  if (options_.checkpoint_every.value_or(0) == 0) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(Keep(InFlight(), /*is_last=*/true));
  Notify(absl::StrCat("told to end: keeps a checkpoint of round ", round_, ", step ", step_,
                      ", with ", awaited_, " pushes in flight"));
  return absl::OkStatus();
}

std::vector<SegmentPush> WorkerCore::InFlight() const {
  std::vector<SegmentPush> pushes;
  for (const Segment& segment : segments_) {
    if (segment.state == SegmentStage::kPosted) pushes.push_back(segment.push);
  }
  return pushes;
}

absl::Status WorkerCore::Keep(std::span<const SegmentPush> pushes, bool is_last) {
  SyncPipeline& pipeline = *options_.pipeline;
  Checkpoint checkpoint{.layout_hash = options_.layout->hash(),
                        .round = round_,
                        .fragment = fragment_,
                        .step = step_,
                        .tokens = counts_.tokens,
                        .accounted = pipeline.Accounted()};
  std::vector<uint32_t> unsettled;
  for (const SegmentPush& push : pushes) {
    unsettled.push_back(push.segment);
    checkpoint.accounted[push.segment] = push.accounted;
    checkpoint.pushes.push_back({.segment = push.segment,
                                 .norm = push.norm,
                                 .weight = push.weight,
                                 .payload = push.payload});
  }
  LONGWAVE_ASSIGN_OR_RETURN(checkpoint.momentum,
                            pipeline.ExportMomentum(unsettled, std::exchange(spare_, {})));
  std::ranges::sort(checkpoint.pushes, {}, &UnsettledPush::segment);
  effects_.push_back(KeepCheckpoint{std::move(checkpoint), is_last});
  return absl::OkStatus();
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::AdvanceStage(absl::Time now) {
  wakes_at_ = absl::InfiniteFuture();
  LONGWAVE_RETURN_IF_ERROR(plan_failure_);
  if (takes_fetched()) LONGWAVE_RETURN_IF_ERROR(TakeEarly());
  switch (stage_) {
    case Stage::kHearing:
      return HeardAll() ? Heard(now) : Wish::kWait;
    case Stage::kResuming:
    case Stage::kFilling:
    case Stage::kSyncing:
      return Sync(now);
    case Stage::kFollowing:
      return Follow(now);
    case Stage::kComputing:
      return Compute(now);
    case Stage::kEncoding:
      return EncodeNext();
    case Stage::kBetweenRounds:
      return GoOn();
    case Stage::kRepairing:
      return HeardAll() ? EndRepair() : Wish::kWait;
    case Stage::kSealing:
      break;
  }
  return Seal();
}

void WorkerCore::GoTo(uint32_t round) {
  round_ = round;
  step_ = plan_.FirstStep(round);
  std::ranges::fill(tokens_before_, counts_.tokens);
  in_flight_ = false;
  stage_ = Stage::kBetweenRounds;
}

void WorkerCore::StepDone(uint64_t tokens, std::optional<double> loss) {
  const RoundPlan& rounds = plan_.rounds();
  if (rounds.FirstStep(rounds.RoundOf(step_)) == step_) loss_sum_ = 0, losses_ = 0;
  loss_sum_ += loss.value_or(0);
  losses_ += loss.has_value();
  counts_.tokens += tokens;
  ++step_;
  has_unkept_ = true;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Compute(absl::Time now) {
  if (fragment_ == plan_.fragment_count()) return EndRound();
  const SyncPoint at = point();
  if (step_ < (in_flight_ ? at.apply_step : at.signal_step)) {
    if (stops_ || !pace_.IsDue(round_, now)) return Wish::kTrain;
    pace_.Begin(round_);
    LONGWAVE_RETURN_IF_ERROR(Keep(InFlight(), /*is_last=*/false));
    return Wish::kGoOn;
  }
  if (in_flight_) {
    stage_ = Stage::kSyncing;
    return Wish::kGoOn;
  }
  // The overlap may continue into the next round. The report covers this round's own steps.
  round_end_ = {
      .round = round_, .step = step_, .train_loss = train_loss(), .tokens = counts_.tokens};
  std::vector<uint32_t> segments;
  for (const uint32_t s : options_.order) {
    if (s % plan_.fragment_count() == fragment_) segments.push_back(s);
  }
  LONGWAVE_RETURN_IF_ERROR(BeginEncoding(std::move(segments)));
  return Wish::kGoOn;
}

bool WorkerCore::WritesCheckpoint() const {
  const uint32_t every = options_.checkpoint_every.value_or(0);
  return every > 0 && round_ % every == 0;
}

absl::Status WorkerCore::BeginEncoding(std::vector<uint32_t> segments) {
  LONGWAVE_RETURN_IF_ERROR(options_.pipeline->BeginFragment(
      round_, fragment_, LearningRate(round_, fragment_), segments));
  holds_ = !options_.has_journal && (fills_ || WritesCheckpoint());
  has_unkept_ = true;
  // From here on a restart from the last checkpoint would send its residual twice.
  if (!holds_ && !options_.has_journal && options_.checkpoint_every.has_value())
    effects_.push_back(RetireCheckpoint{});
  to_encode_.assign(segments.begin(), segments.end());
  missing_ = late_ = unknown_ = 0;
  stage_ = Stage::kEncoding;
  return absl::OkStatus();
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EncodeNext() {
  if (to_encode_.empty()) return EndEncoding();
  const uint32_t segment = to_encode_.front();
  to_encode_.pop_front();
  LONGWAVE_ASSIGN_OR_RETURN(SyncPipeline::Push encoded, options_.pipeline->Encode(segment));
  SegmentPush push{.epoch = directive_.epoch,
                   .round = round_,
                   .segment = segment,
                   .payload = std::move(encoded.payload),
                   .norm = encoded.norm,
                   .weight = fills_ ? 1 : counts_.tokens - tokens_before_[fragment_],
                   .accounted = encoded.accounted};
  Await(push);
  if (holds_) {
    held_.push_back(std::move(push));
  } else {
    effects_.push_back(std::move(push));
  }
  return Wish::kGoOn;
}

void WorkerCore::Await(SegmentPush push) {
  Segment& segment = segments_[push.segment];
  LONGWAVE_CHECK(segment.state != SegmentStage::kPosted);
  segment.state = SegmentStage::kPosted;
  DropEarly(push.segment);
  segment.push = std::move(push);
  ++awaited_;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EndEncoding() {
  if (holds_ && WritesCheckpoint()) {
    LONGWAVE_RETURN_IF_ERROR(Keep(held_, /*is_last=*/false));
    has_unkept_ = false;
  } else if (holds_ && options_.checkpoint_every.has_value()) {
    effects_.push_back(RetireCheckpoint{});
    has_unkept_ = true;
  }
  for (SegmentPush& push : std::exchange(held_, {})) effects_.push_back(std::move(push));
  if (fills_) {
    stage_ = Stage::kFilling;
    return Wish::kGoOn;
  }
  tokens_before_[fragment_] = counts_.tokens;
  in_flight_ = true;
  stage_ = Stage::kComputing;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Sync(absl::Time now) {
  std::vector<SyncPipeline::Merged> arrived;
  while (!settled_.empty()) {
    const Settled settled = std::move(settled_.front());
    settled_.pop_front();
    LONGWAVE_RETURN_IF_ERROR(OnSettled(settled, arrived));
  }
  // A device decodes all of them by one launch.
  LONGWAVE_RETURN_IF_ERROR(options_.pipeline->Apply(arrived));
  if (awaited_ > 0) return Wish::kWait;
  return stage_ == Stage::kSyncing ? EndSync() : EndOutOfTurn(now);
}

absl::Status WorkerCore::OnSettled(const Settled& settled,
                                   std::vector<SyncPipeline::Merged>& arrived) {
  SyncPipeline& pipeline = *options_.pipeline;
  const uint32_t segment = settled.segment;
  LONGWAVE_CHECK(segments_[segment].state == SegmentStage::kPosted);
  segments_[segment].state = SegmentStage::kCurrent;
  const SegmentPush push = std::exchange(segments_[segment].push, {});
  --awaited_;
  if (options_.has_journal) {
    const bool drops = settled.fate == Fate::kUnknown && stage_ == Stage::kResuming;
    effects_.push_back(SettledNote{.kind = drops                         ? JournalKind::kDropped
                                           : settled.fate == Fate::kLate ? JournalKind::kReturned
                                                                         : JournalKind::kAccepted,
                                   .segment = segment,
                                   .round = push.round});
  }
  if (settled.fate == Fate::kAccepted) ++counts_.accepted;
  if (settled.fate == Fate::kLate) ++late_, ++counts_.late;
  if (settled.fate == Fate::kUnknown) ++unknown_, ++counts_.unknown;
  if (stage_ == Stage::kResuming) {
    if (settled.fate == Fate::kLate)
      LONGWAVE_RETURN_IF_ERROR(pipeline.RestoreFrom(segment, push.round, push.payload));
    // The residual may hold progress that is already in a merge.
    if (settled.fate == Fate::kUnknown) LONGWAVE_RETURN_IF_ERROR(pipeline.DropResidual(segment));
  } else if (settled.fate == Fate::kLate) {
    LONGWAVE_RETURN_IF_ERROR(pipeline.Restore(segment));
  }
  if (settled.compacted) {
    ++missing_;
    return absl::OkStatus();
  }
  if (stage_ == Stage::kSyncing) {
    arrived.push_back({segment, settled.merged, settled.is_valid});
    return absl::OkStatus();
  }
  // A fetch may have brought the update already.
  if (pipeline.anchor_round(segment) != settled.round) return absl::OkStatus();
  return pipeline.CatchUp(segment, settled.round, LearningRate(settled.round, segment),
                          settled.merged);
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EndSync() {
  in_flight_ = false;
  if (late_ > 0) {
    Notify(absl::StrCat("round ", round_, ": ", late_,
                        " pushes were late; they go with a later round"));
  }
  if (unknown_ > 0 || missing_ > 0) {
    Warn(absl::StrCat("round ", round_, ": ", missing_,
                      " merged updates that no shard has any more, and ", unknown_,
                      " pushes of unknown outcome, which count as accepted"));
  }
  if (missing_ > 0) return CatchUp();
  LONGWAVE_RETURN_IF_ERROR(options_.pipeline->EndFragment());
  effects_.push_back(FragmentApplied{});
  ++fragment_;
  stage_ = Stage::kComputing;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::EndRound() {
  LONGWAVE_ASSIGN_OR_RETURN(round_end_.segment_hashes, options_.pipeline->Hashes());
  effects_.push_back(std::exchange(round_end_, {}));
  ++round_;
  if (!std::exchange(gave_start_, false)) initial_ = std::vector<float>();
  stage_ = Stage::kBetweenRounds;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::GoOn() {
  if (round_ >= rounds()) {
    stage_ = Stage::kSealing;
    return Wish::kGoOn;
  }
  LONGWAVE_ASSIGN_OR_RETURN(const bool repairs, BeginRepair());
  if (repairs) return Wish::kGoOn;
  if (IsBehind(round_)) return CatchUp();
  ready_round_ = round_;
  if (!IsDecided(round_)) return Wish::kWait;
  stage_ = Stage::kComputing;
  fragment_ = 0;
  return Wish::kGoOn;
}

absl::StatusOr<WorkerCore::Wish> WorkerCore::Seal() {
  LONGWAVE_ASSIGN_OR_RETURN(const bool repairs, BeginRepair());
  if (repairs) return Wish::kGoOn;
  if (directive_.sealing_round != 0) {
    const uint32_t wanted = std::max(rounds(), directive_.sealing_round);
    RoundReport report{.round = wanted, .step = step_, .tokens = counts_.tokens};
    LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes, options_.pipeline->Hashes());
    effects_.push_back(std::move(report));
    sealed_ = wanted;
    final_.reset();
    directive_.sealing_round = 0;  // until a newer answer
    return Wish::kGoOn;
  }
  // The coordinator may assign the writing of the weights after the final report.
  const bool is_to_write = directive_.validates && final_.has_value() && !final_->writes_weights &&
                           directive_.final_answered;
  if (!directive_.sealed || (final_.has_value() && !is_to_write)) return Wish::kWait;
  final_ = TellFinal{.writes_weights = directive_.validates};
  effects_.push_back(*final_);
  return Wish::kGoOn;
}

}  // namespace longwave

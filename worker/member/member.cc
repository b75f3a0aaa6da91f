#include "worker/member/member.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/sync/send_order.h"
#include "worker/sync/stopwatch.h"

namespace longwave {
namespace {

using Stage = WorkerCore::Stage;
using Phase = WorkerMetrics::Phase;

// How long one wait lasts before the control plane is looked at again.
constexpr absl::Duration kPatience = absl::Milliseconds(20);

ByteCounts Sum(ByteCounts a, const ByteCounts& b) {
  a.pushed += b.pushed;
  a.pulled += b.pulled;
  a.payload_pushed += b.payload_pushed;
  a.payload_pulled += b.payload_pulled;
  return a;
}

WorkerCoreOptions CoreOptions(const MemberParts& parts) {
  return {.layout = parts.layout,
          .pipeline = parts.pipeline,
          .plan = parts.plan,
          .order = SendOrder(*parts.layout, parts.worker),
          .can_catch_up = parts.can_catch_up,
          .checkpoint_every =
              parts.folder == nullptr ? std::nullopt : std::make_optional(parts.checkpoint_rounds),
          .learning_rate = parts.learning_rate,
          .initial_weights = parts.initial_weights,
          .clear_gradient = parts.clear_gradient,
          .fill_patience = parts.fill_patience};
}

}  // namespace

TrainingMember::TrainingMember(MemberParts parts)
    : parts_(std::move(parts)),
      metrics_(*parts_.metrics),
      keeper_({.folder = parts_.folder,
               .layout = parts_.layout,
               .run = parts_.run,
               .name = parts_.name,
               .worker = parts_.worker}),
      core_(CoreOptions(parts_)) {}

absl::StatusOr<bool> TrainingMember::Begin() {
  Hear();
  std::optional<WorkerFolder::Found> found = keeper_.Last();
  const bool is_new = !found.has_value();
  std::optional<Checkpoint> checkpoint;
  if (found.has_value()) {
    LoadState(found->checkpoint);
    LONGWAVE_RETURN_IF_ERROR(parts_.loop->LoadOptimizer(found->checkpoint));
    if (found->stale) {
      Log(LogLevel::kWarning,
          absl::StrCat("the last checkpoint is of round ", found->checkpoint.round,
                       ", and more was pushed since: of it only the optimizer is of use"));
    } else {
      checkpoint = std::move(found->checkpoint);
    }
  }
  LONGWAVE_RETURN_IF_ERROR(core_.Begin(is_new, std::move(checkpoint)));
  return GoOn();
}

void TrainingMember::LoadState(const Checkpoint& checkpoint) {
  state_.tokens = checkpoint.tokens;
  state_.seconds_computing = checkpoint.seconds_computing;
  state_.seconds_syncing = checkpoint.seconds_syncing;
  state_.bytes = bytes_before_ = checkpoint.bytes;
  core_.CountTokensBefore(checkpoint.tokens);
  metrics_.ContinueFrom(state_);
}

absl::StatusOr<bool> TrainingMember::StepDone(uint64_t tokens, double loss) {
  LONGWAVE_RETURN_IF_ERROR(CheckLoss(loss));
  state_.seconds_computing += absl::ToDoubleSeconds(MonotonicNow() - computing_since_);
  state_.round = static_cast<uint32_t>(core_.step() / parts_.plan.inner_steps());
  core_.StepDone(tokens, loss);
  state_.step = core_.step();
  state_.tokens = core_.counts().tokens;
  state_.train_loss = core_.train_loss();
  TellState();
  metrics_.StepDone(MonotonicNow() - computing_since_);
  return GoOn();
}

absl::Status TrainingMember::CheckLoss(double loss) {
  if (std::isfinite(loss)) return absl::OkStatus();
  // What the coordinator counts, which is there when this worker has gone.
  state_.train_loss = loss;
  TellState();
  return absl::DataLossError(
      absl::StrCat("the loss is ", loss, " at step ", core_.step(),
                   " (wanted a finite number); a lower train.learning_rate or a longer "
                   "train.warmup_steps may help"));
}

absl::StatusOr<bool> TrainingMember::GoOn() {
  for (;;) {
    if (parts_.control->stop_requested()) return Cancelled();
    LONGWAVE_RETURN_IF_ERROR(Attend());
    const Stage stage = core_.stage();
    const bool catches_up = CatchesUp();
    const double computed = state_.seconds_computing;
    const absl::Time began = MonotonicNow();
    LONGWAVE_ASSIGN_OR_RETURN(const WorkerCore::Wish wish, Advance());
    bool is_over = false;
    if (wish == WorkerCore::Wish::kWait) {
      LONGWAVE_ASSIGN_OR_RETURN(is_over, Wait());
    }
    // An inner optimizer's step with the merged gradient is no part of the sync.
    const double took =
        absl::ToDoubleSeconds(MonotonicNow() - began) - (state_.seconds_computing - computed);
    if (catches_up) {
      metrics_.seconds(Phase::kCatchUp)->Add(took);
    } else if (stage == Stage::kEncoding || stage == Stage::kSyncing) {
      blocked_ += took;
      state_.seconds_syncing += took;
    }
    if (stage == Stage::kSyncing && core_.stage() == Stage::kComputing)
      metrics_.SyncDone(seconds_, absl::Seconds(std::exchange(blocked_, 0)));
    if (is_over) return false;
    if (wish != WorkerCore::Wish::kTrain) continue;
    state_.step = core_.step();
    SetPhase(WorkerPhase::kTraining);
    computing_since_ = MonotonicNow();
    return true;
  }
}

bool TrainingMember::CatchesUp() const {
  return core_.takes_fetched() || core_.stage() == Stage::kResuming || core_.fills();
}

void TrainingMember::Hear() {
  core_.Hear({.epoch = parts_.control->epoch(),
              .first_round = parts_.control->first_round(),
              .other_start = parts_.control->other_start(),
              .validates = parts_.control->validates(),
              .repair = parts_.control->repair(),
              .final_answered = final_answered_});
  core_.HearOpenRound(parts_.exchange->NewestOpenRound());
}

absl::Status TrainingMember::Attend() {
  if (const auto endpoints = parts_.control->TakeNewEndpoints()) {
    LONGWAVE_RETURN_IF_ERROR(parts_.exchange->SetEndpoints(*endpoints));
  }
  while (const std::optional<SnapshotAsk> ask = parts_.exchange->NextAsk()) core_.On(*ask);
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<SnapshotAnswer> answer, core_.AnswerAsk([&](uint32_t s) {
    return parts_.exchange->HasSnapshotRoom(s);
  }));
  if (!answer.has_value()) return absl::OkStatus();
  return parts_.exchange->PostSnapshot(answer->segment, answer->round, std::move(answer->payload));
}

absl::StatusOr<WorkerCore::Wish> TrainingMember::Advance() {
  Hear();
  const Stage before = core_.stage();
  const absl::Time began = MonotonicNow();
  LONGWAVE_ASSIGN_OR_RETURN(const WorkerCore::Wish wish, core_.Advance(began));
  const double took = absl::ToDoubleSeconds(MonotonicNow() - began);
  if (before == Stage::kEncoding && !core_.fills()) seconds_.encoding += took;
  if (before == Stage::kSyncing) seconds_.decoding += took;
  if (core_.stage() == Stage::kEncoding && before != Stage::kEncoding && !core_.fills()) {
    metrics_.SyncBegins();
    SetPhase(WorkerPhase::kSyncing);
  }
  if (core_.stage() == Stage::kSyncing && before != Stage::kSyncing)
    SetPhase(WorkerPhase::kSyncing);
  LONGWAVE_RETURN_IF_ERROR(CarryOut());
  if (wish != WorkerCore::Wish::kGoOn) metrics_.ShowCore(core_.counts());
  parts_.control->SetReadyRound(core_.ready_round());
  return wish;
}

absl::StatusOr<bool> TrainingMember::Wait() {
  if (core_.stage() == Stage::kDone) {
    LONGWAVE_ASSIGN_OR_RETURN(
        const bool is_over,
        parts_.control->Finish(final_, static_cast<uint32_t>(parts_.plan.round_count() - 1)));
    final_answered_ = !is_over;
    return is_over;
  }
  const absl::Duration patience =
      std::clamp(core_.wakes_at() - MonotonicNow(), absl::ZeroDuration(), kPatience);
  if (core_.takes_settled()) {
    Stopwatch stopwatch(&seconds_.waiting);
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<Settled> settled, parts_.exchange->Next(patience));
    if (!settled.has_value()) return false;
    if (core_.stage() == Stage::kSyncing) metrics_.OnSettled(*settled);
    core_.On(*std::move(settled));
    return false;
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::optional<FetchEvent> event,
                            parts_.exchange->NextFetched(patience));
  if (event.has_value()) LONGWAVE_RETURN_IF_ERROR(core_.On(*event));
  return false;
}

absl::Status TrainingMember::CarryOut() {
  for (CoreEffect& effect : core_.TakeEffects()) {
    LONGWAVE_RETURN_IF_ERROR(std::visit([this](auto& each) { return Do(each); }, effect));
  }
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(RetireCheckpoint&) { return keeper_.Retire(); }

absl::Status TrainingMember::Do(KeepCheckpoint& keep) {
  const PhaseTimer timer(metrics_.seconds(Phase::kCheckpoint));
  const absl::Status kept =
      keeper_.Keep(keep.round, keep.fragment, state_, *parts_.pipeline, *parts_.loop, keep.pushes);
  metrics_.ShowCheckpoints(keeper_.written(), keeper_.failed());
  return kept;
}

absl::Status TrainingMember::Do(SegmentPush& push) {
  if (!push.sent_before && !core_.fills())
    metrics_.OnPush(push, parts_.pipeline->report(push.segment));
  Stopwatch stopwatch(&seconds_.sending);
  return parts_.exchange->Post(std::move(push));
}

absl::Status TrainingMember::Do(FetchWish& wish) {
  return parts_.exchange->Fetch(wish.segment, wish.from_round, wish.until_round);
}

absl::Status TrainingMember::Do(FragmentApplied&) {
  state_.bytes = Sum(bytes_before_, parts_.exchange->counts());
  return parts_.loop->FragmentApplied();
}

absl::Status TrainingMember::Do(RoundReport& report) {
  // A validation loss that is not finite is told before this worker ends over it.
  const absl::Status ended = parts_.loop->EndRound(&report);
  if (!ended.ok() && !report.validation_loss.has_value()) return ended;
  // A report of the last round's state alone is of no other round.
  if (!report.again && !report.caught_up)
    metrics_.RoundDone(report.round, parts_.exchange->NewestOpenRound());
  metrics_.ShowRenewals(parts_.exchange->renewals());
  report.bytes = state_.bytes;
  report.seconds_computing = state_.seconds_computing;
  report.seconds_syncing = state_.seconds_syncing;
  parts_.control->Report(std::move(report));
  return ended;
}

absl::Status TrainingMember::Do(TellFinal& final) {
  LogSeconds();
  final_answered_ = false;
  state_.step = core_.step();
  LONGWAVE_ASSIGN_OR_RETURN(final_, parts_.loop->Conclude(final.writes_weights));
  SetPhase(WorkerPhase::kDone);
  return absl::OkStatus();
}

absl::Status TrainingMember::Do(CoreNotice& notice) {
  Log(notice.is_warning ? LogLevel::kWarning : LogLevel::kInfo, notice.text);
  return absl::OkStatus();
}

void TrainingMember::LogSeconds() const {
  Log(LogLevel::kInfo,
      absl::StrFormat("computed for %.1f s, synced for %.1f s: encoding %.1f, waiting %.1f, "
                      "decoding %.1f",
                      state_.seconds_computing, state_.seconds_syncing, seconds_.encoding,
                      seconds_.waiting, seconds_.decoding));
}

void TrainingMember::SetPhase(WorkerPhase phase) {
  state_.phase = phase;
  TellState();
}

void TrainingMember::TellState() {
  parts_.control->SetState(state_);
  metrics_.Show(state_);
}

absl::Status TrainingMember::Cancelled() const {
  return absl::CancelledError(absl::StrCat("asked to stop at step ", core_.step()));
}

}  // namespace longwave

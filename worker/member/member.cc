#include "worker/member/member.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/member/crash_point.h"
#include "worker/member/sync_options.h"
#include "worker/sync/send_order.h"

namespace longwave {
namespace {

using Stage = WorkerCore::Stage;
using Phase = WorkerMetrics::Phase;

// Length of one wait, between two checks of the control plane.
constexpr absl::Duration kPatience = absl::Milliseconds(20);
// Likewise while no frame can end it, only the coordinator's word.
constexpr absl::Duration kDecisionPatience = absl::Milliseconds(2);

// Updates that are taken before the core applies them.
constexpr uint32_t kSettledAtOnce = 16;

}  // namespace

TrainingMember::TrainingMember(MemberParts parts)
    : parts_(std::move(parts)),
      schedule_(parts_.config->train, parts_.config->run.steps),
      loop_(parts_.loop == nullptr ? no_loop_ : *parts_.loop),
      metrics_(parts_.metrics, parts_.layout, *parts_.config, parts_.control,
               parts_.node == nullptr ? 1 : parts_.node->rank().ranks),
      keeper_(parts_),
      core_(CoreOptions()),
      progress_(parts_.config->run.steps) {
  if (parts_.node != nullptr) state_.ranks = parts_.node->rank().ranks;
}

WorkerCoreOptions TrainingMember::CoreOptions() const {
  const RunConfig& config = *parts_.config;
  WorkerCoreOptions options{
      .layout = parts_.layout,
      .pipeline = parts_.pipeline,
      .plan = SyncPlanOf(config, parts_.pipeline->fragment_count()),
      .order = SendOrder(*parts_.layout, parts_.worker),
      .can_catch_up = CanCatchUp(config),
      .learning_rate = [this](uint64_t step) { return schedule_.LearningRate(step); },
      .initial_weights = parts_.initial_weights,
      .clear_gradient = nullptr};
  if (keeper_.keeps()) options.checkpoint_every = config.cluster.checkpoint_rounds;
  options.has_journal = keeper_.has_journal();
  if (config.sync.signal == SignalKind::kGradient) {
    options.clear_gradient = [this] {
      // A rank of a node may have memory for its own elements alone.
      for (const ElementRange& range : FragmentElements(*parts_.layout, 0, 1, owned())) {
        LONGWAVE_RETURN_IF_ERROR(parts_.ops->scale(
            parts_.exec,
            {.count = range.end - range.begin, .x = parts_.gradient + range.begin, .scale = 0}));
      }
      return absl::OkStatus();
    };
  }
  return options;
}

absl::StatusOr<bool> TrainingMember::Begin() { return ReportToNode(BeginAlone()); }

absl::StatusOr<bool> TrainingMember::StepDone(uint64_t tokens, std::optional<double> loss) {
  return ReportToNode(StepDoneAlone(tokens, loss));
}

absl::StatusOr<bool> TrainingMember::ReportToNode(absl::StatusOr<bool> result) {
  if (parts_.node == nullptr) return result;
  if (!result.ok() && !absl::IsCancelled(result.status())) parts_.node->Fail(result.status());
  if (result.ok() && *result) parts_.node->StepBegins();
  return result;
}

SegmentRange TrainingMember::owned() const {
  return parts_.node == nullptr ? AllSegments(*parts_.layout) : parts_.node->owned();
}

absl::StatusOr<bool> TrainingMember::BeginAlone() {
  const uint32_t fragments = parts_.pipeline->fragment_count();
  if (parts_.config->sync.fragments > fragments) {
    Log(LogLevel::kInfo, "sync.fragments: got ", parts_.config->sync.fragments, ", goes on with ",
        fragments, ": the model has no more segments");
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<FoundCheckpoint> found, keeper_.Last());
  Hear();
  const bool is_new = !found.has_value();
  std::optional<Checkpoint> checkpoint;
  if (found.has_value()) {
    LoadState(found->checkpoint);
    LONGWAVE_RETURN_IF_ERROR(loop_.Load(found->checkpoint.blobs));
    found->checkpoint.blobs.clear();
    if (found->stale) {
      Warn(absl::StrCat("the last checkpoint is of round ", found->checkpoint.round,
                        ", and this worker has pushed since then: only the optimizer of that "
                        "checkpoint is of use"));
    } else {
      checkpoint = std::move(found->checkpoint);
    }
  }
  if (keeper_.has_journal()) core_.HoldCheckpoints();
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

absl::StatusOr<bool> TrainingMember::StepDoneAlone(uint64_t tokens, std::optional<double> loss) {
  if (parts_.node != nullptr) {
    parts_.node->StepEnds();
    LONGWAVE_ASSIGN_OR_RETURN(const Node::Step step,
                              parts_.node->StepDone(tokens, loss, metrics_.figures()));
    tokens = step.tokens;
    loss = step.loss;
    metrics_.ShowFigures(step.figures);
  }
  LONGWAVE_RETURN_IF_ERROR(CheckLoss(loss));
  state_.seconds_computing += absl::ToDoubleSeconds(MonotonicNow() - computing_since_);
  state_.round = plan().rounds().RoundOf(core_.step());
  core_.StepDone(tokens, loss);
  state_.step = core_.step();
  state_.tokens = core_.counts().tokens;
  state_.train_loss = core_.train_loss();
  ReportState();
  metrics_.StepDone(MonotonicNow() - computing_since_);
  has_moved_ = false;
  const uint64_t next = core_.step();
  absl::StatusOr<bool> trains = GoOn();
  skipped_steps_ = core_.step() - std::min(next, core_.step());
  metrics_.StepsSkipped(skipped_steps_);
  return trains;
}

absl::Status TrainingMember::CheckLoss(std::optional<double> loss) {
  if (!loss || std::isfinite(*loss)) return absl::OkStatus();
  // The coordinator counts such a loss, and remains after this worker has ended.
  state_.train_loss = loss;
  ReportState();
  return DataLoss("the loss is ", *loss, " at step ", core_.step(), " (wanted a finite number); ",
                  parts_.config->model.kind == "external"
                      ? "a lower learning rate or a longer warm-up of the loop may help"
                      : "a lower train.learning_rate or a longer train.warmup_steps may help");
}

absl::StatusOr<bool> TrainingMember::GoOn() {
  for (;;) {
    // The end of the run also requests a stop, and may arrive between two waits for it.
    if (core_.stage() == Stage::kSealing && parts_.control->has_ended()) return false;
    if (parts_.control->stop_requested()) return Stop();
    LONGWAVE_RETURN_IF_ERROR(Attend());
    const Stage stage = core_.stage();
    const bool catches_up = CatchesUp();
    const double computed = state_.seconds_computing;
    const double named = metrics_.SyncSeconds();
    const double validated = metrics_.seconds(Phase::kValidate)->value();
    const absl::Time began = MonotonicNow();
    const absl::StatusOr<WorkerCore::Wish> advanced = Advance();
    if (absl::IsCancelled(advanced.status()) && parts_.control->stop_requested()) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const WorkerCore::Wish wish, advanced);
    bool is_over = false;
    if (wish == WorkerCore::Wish::kWait) {
      LONGWAVE_ASSIGN_OR_RETURN(is_over, Wait());
    }
    // An inner optimizer's step with the merged gradient does not belong to the sync.
    const double took =
        absl::ToDoubleSeconds(MonotonicNow() - began) - (state_.seconds_computing - computed);
    if (catches_up) {
      has_moved_ = true;
      metrics_.seconds(Phase::kCatchUp)->Add(took);
    } else if (stage != Stage::kSealing) {
      const double synced = took - (metrics_.seconds(Phase::kValidate)->value() - validated);
      if (stage == Stage::kEncoding || stage == Stage::kSyncing) blocked_ += synced;
      state_.seconds_syncing += synced;
      const double unnamed = synced - (metrics_.SyncSeconds() - named);
      metrics_.seconds(Phase::kOther)->Add(std::max(unnamed, 0.0));
    }
    if (stage == Stage::kSyncing && core_.stage() == Stage::kComputing)
      metrics_.SyncDone(absl::Seconds(std::exchange(blocked_, 0)));
    if (is_over) return false;
    if (wish != WorkerCore::Wish::kTrain) continue;
    state_.step = core_.step();
    SetPhase(WorkerPhase::kTraining);
    computing_since_ = MonotonicNow();
    progress_.StepBegins(state_.step, state_.tokens, computing_since_);
    return true;
  }
}

bool TrainingMember::next_step_syncs() const {
  const SyncPoint at = plan().At(core_.round(), core_.fragment());
  const uint64_t done = core_.step() + 1;
  return done == at.signal_step || done == at.apply_step;
}

absl::Status TrainingMember::Stop() {
  core_.Stop();
  WorkerCore::Wish wish = WorkerCore::Wish::kGoOn;
  while (wish != WorkerCore::Wish::kEnd && !parts_.control->has_ended()) {
    const absl::StatusOr<WorkerCore::Wish> advanced = Advance();
    // A validation was cut short, which does not prevent a checkpoint.
    if (absl::IsCancelled(advanced.status())) continue;
    LONGWAVE_ASSIGN_OR_RETURN(wish, advanced);
  }
  return Cancelled();
}

bool TrainingMember::CatchesUp() const {
  return core_.takes_fetched() || core_.stage() == Stage::kResuming || core_.fills();
}

void TrainingMember::Hear() {
  core_.Hear(parts_.control->directive());
  core_.HearOpenRound(parts_.exchange->NewestOpenRound());
}

absl::Status TrainingMember::AttendDisk() {
  LONGWAVE_ASSIGN_OR_RETURN(std::optional<CheckpointKeeper::Ended> ended, keeper_.Attend());
  if (ended.has_value() && ended->is_again) {
    core_.CheckpointAgain(std::move(ended->momentum));
  } else if (ended.has_value()) {
    core_.CheckpointEnded(ended->ok, Now(), std::move(ended->momentum));
  }
  if (keeper_.has_journal()) metrics_.ShowCheckpoints(keeper_.written(), keeper_.failed());
  return absl::OkStatus();
}

absl::Status TrainingMember::Attend() {
  LONGWAVE_RETURN_IF_ERROR(AttendDisk());
  if (const auto endpoints = parts_.control->TakeNewEndpoints()) {
    LONGWAVE_RETURN_IF_ERROR(parts_.exchange->SetEndpoints(*endpoints));
  }
  while (const std::optional<SnapshotRequest> request = parts_.exchange->NextRequest())
    core_.On(*request);
  LONGWAVE_ASSIGN_OR_RETURN(
      std::optional<SnapshotAnswer> answer,
      core_.AnswerRequest([&](uint32_t s) { return parts_.exchange->HasSnapshotRoom(s); }));
  if (!answer.has_value()) return absl::OkStatus();
  return parts_.exchange->PostSnapshot(answer->segment, answer->round, std::move(answer->payload));
}

// The cores of a node's ranks have the same time.
absl::Time TrainingMember::Now() const {
  return parts_.node == nullptr ? MonotonicNow() : parts_.node->now();
}

absl::StatusOr<WorkerCore::Wish> TrainingMember::Advance() {
  Hear();
  const Stage before = core_.stage();
  const absl::Time began = MonotonicNow();
  LONGWAVE_ASSIGN_OR_RETURN(const WorkerCore::Wish wish, core_.Advance(Now()));
  advanced_ = MonotonicNow() - began;
  const double took = absl::ToDoubleSeconds(advanced_);
  if (before == Stage::kEncoding && !core_.fills()) metrics_.seconds(Phase::kEncode)->Add(took);
  // The report of a round has the hashes of its segments.
  const bool reports = before == Stage::kComputing && core_.stage() == Stage::kBetweenRounds;
  if (before == Stage::kSyncing || reports) metrics_.seconds(Phase::kDecode)->Add(took);
  const bool encodes = core_.stage() == Stage::kEncoding;
  if (encodes && before != Stage::kEncoding) PassCrashPoint("encoding");
  if (!encodes && before == Stage::kEncoding) PassCrashPoint("encoded");
  if (encodes && before != Stage::kEncoding && !core_.fills()) {
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
  loop_.Waiting();
  if (core_.stage() == Stage::kSealing) return parts_.control->AwaitEnd(kPatience);
  const absl::Duration patience =
      std::clamp(core_.wakes_at() - MonotonicNow(), absl::ZeroDuration(), kPatience);
  if (core_.takes_settled()) {
    LONGWAVE_RETURN_IF_ERROR(AttendDisk());
    const PhaseTimer timer(
        metrics_.seconds(keeper_.has_waiting() ? Phase::kJournal : Phase::kWait));
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<Settled> settled, parts_.exchange->Next(patience));
    // The core takes others that have arrived as well, since a device decodes many by one launch.
    for (uint32_t taken = 1; settled.has_value(); ++taken) {
      if (core_.stage() == Stage::kSyncing) metrics_.OnSettled(*settled);
      core_.On(*std::move(settled));
      if (taken == kSettledAtOnce || !parts_.exchange->HasSettled()) break;
      LONGWAVE_ASSIGN_OR_RETURN(settled, parts_.exchange->Next(absl::ZeroDuration()));
    }
    return false;
  }
  if (!core_.takes_fetched()) {
    // The coordinator has not told the next round's inner steps yet. Results of an earlier fetch
    // stay for the next one. The ranks of a node meet for rank 0's directive.
    absl::SleepFor(std::min(patience, kDecisionPatience));
    if (parts_.node != nullptr) LONGWAVE_RETURN_IF_ERROR(parts_.node->Agree(absl::OkStatus()));
    return false;
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::optional<FetchEvent> event,
                            parts_.exchange->NextFetched(patience));
  if (event.has_value()) LONGWAVE_RETURN_IF_ERROR(core_.On(*event));
  return false;
}

void TrainingMember::Warn(const std::string& text) {
  Log(LogLevel::kWarning, text);
  parts_.control->Warn(text);
}

void TrainingMember::SetPhase(WorkerPhase phase) {
  state_.phase = phase;
  ReportState();
}

void TrainingMember::ReportState() {
  parts_.control->SetState(state_);
  metrics_.Show(state_);
}

absl::Status TrainingMember::Cancelled() const {
  return longwave::Cancelled("asked to stop at step ", core_.step());
}

}  // namespace longwave

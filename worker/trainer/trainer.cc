#include "worker/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/sync/send_order.h"
#include "worker/sync/stopwatch.h"
#include "worker/trainer/model_metadata.h"
#include "worker/trainer/safetensors.h"

namespace longwave {
namespace {

// The layout puts matrices first and vectors after them.
uint64_t MatrixElements(const Manifest& manifest) {
  uint64_t count = 0;
  for (const TensorSpec& tensor : manifest.tensors) {
    if (tensor.shape.size() >= 2) count += static_cast<uint64_t>(ElementCount(tensor));
  }
  return count;
}

AdamWOptions OptimizerOptions(const TrainSection& train) {
  return {.beta1 = train.beta1,
          .beta2 = train.beta2,
          .epsilon = train.epsilon,
          .weight_decay = train.weight_decay};
}

ByteCounts Sum(ByteCounts a, const ByteCounts& b) {
  a.pushed += b.pushed;
  a.pulled += b.pulled;
  a.payload_pushed += b.payload_pushed;
  a.payload_pulled += b.payload_pulled;
  return a;
}

bool IsPseudoGradient(const RunConfig& config) {
  return config.sync.signal == SignalKind::kPseudoGradient;
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      config_(*parts_.config),
      schedule_(config_.train, config_.run.steps),
      plan_(config_.sync.inner_steps, parts_.pipeline->fragment_count(), config_.sync.overlap,
            config_.run.steps),
      rounds_(plan_.round_count()),
      metrics_(parts_.metrics, parts_.layout, config_.run.seed, parts_.host),
      sync_(parts_.pipeline, parts_.exchange, SendOrder(*parts_.layout, parts_.worker), &metrics_),
      catch_up_(PartsOfCatchUp()),
      keeper_({.folder = parts_.folder,
               .layout = parts_.layout,
               .run = parts_.run,
               .name = parts_.name,
               .worker = parts_.worker,
               .every = config_.cluster.checkpoint_rounds}) {}

CatchUpParts Trainer::PartsOfCatchUp() {
  return {.layout = parts_.layout,
          .pipeline = parts_.pipeline,
          .exchange = parts_.exchange,
          .host = parts_.host,
          .rounds = rounds_,
          .possible = CanCatchUp(config_),
          .learning_rate =
              [this](uint32_t round, uint32_t segment) {
                const SyncPoint point = plan_.At(round, segment % plan_.fragment_count());
                return schedule_.LearningRate(point.signal_step - 1);
              },
          .initial_weights = parts_.initial_weights,
          .clear_gradient =
              [this] {
                if (IsPseudoGradient(config_)) return absl::OkStatus();
                const ScaleArgs zero = {.count = parts_.replica->parameter_count(),
                                        .x = parts_.replica->gradient(),
                                        .scale = 0};
                return parts_.ops->scale(parts_.exec, zero);
              },
          .before_fill =
              [this](uint32_t round, uint32_t fragment, std::span<const SegmentPush> pushes) {
                return KeepCheckpoint(round, fragment, pushes);
              },
          .on_fate = [this](Fate fate) { metrics_.CountFate(fate); }};
}

absl::StatusOr<FinalReport> Trainer::Run() {
  LONGWAVE_ASSIGN_OR_RETURN(
      optimizer_,
      AdamW::Create(OptimizerOptions(config_.train), parts_.ops, parts_.exec,
                    parts_.replica->parameter_count(), MatrixElements(parts_.replica->manifest())));
  if (config_.sync.fragments > plan_.fragment_count()) {
    Log(LogLevel::kInfo,
        absl::StrCat("sync.fragments: got ", config_.sync.fragments, ", goes on with ",
                     plan_.fragment_count(), ": the model has no more segments"));
  }
  LONGWAVE_ASSIGN_OR_RETURN(uint32_t round, Begin());
  while (round < rounds_) {
    LONGWAVE_ASSIGN_OR_RETURN(const bool whole, TrainRound(round));
    if (whole) LONGWAVE_RETURN_IF_ERROR(RepairIfTold(round + 1));
    if (whole && !catch_up_.IsBehind(round + 1)) {
      ++round;
      continue;
    }
    LONGWAVE_ASSIGN_OR_RETURN(round, CatchUpWith(std::nullopt));
    GoTo(round);
  }
  LogSeconds();
  return Conclude();
}

absl::StatusOr<uint32_t> Trainer::Begin() {
  std::optional<WorkerFolder::Found> found = keeper_.Last();
  // There from the beginning.
  if (!found.has_value() && parts_.host->first_round() == 0) return 0;
  if (found.has_value()) LONGWAVE_RETURN_IF_ERROR(LoadOptimizer(found->checkpoint));
  if (found.has_value() && found->stale) {
    Log(LogLevel::kWarning,
        absl::StrCat("the last checkpoint is of round ", found->checkpoint.round,
                     ", and more was pushed since: of it only the optimizer is of use"));
    found.reset();
  }
  LONGWAVE_ASSIGN_OR_RETURN(const uint32_t round, CatchUpWith(found));
  GoTo(round);
  return round;
}

absl::StatusOr<uint32_t> Trainer::CatchUpWith(const std::optional<WorkerFolder::Found>& found) {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kCatchUp));
  metrics_.CaughtUp();
  return found.has_value() ? catch_up_.Resume(found->checkpoint) : catch_up_.Join();
}

absl::Status Trainer::RepairIfTold(uint32_t next) {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kCatchUp));
  return catch_up_.RepairIfTold(next);
}

absl::Status Trainer::KeepCheckpoint(uint32_t round, uint32_t fragment,
                                     std::span<const SegmentPush> pushes) {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kCheckpoint));
  const absl::Status kept =
      keeper_.Keep(round, fragment, state_, *parts_.pipeline, *optimizer_, pushes);
  metrics_.ShowCheckpoints(keeper_.written(), keeper_.failed());
  return kept;
}

absl::Status Trainer::LoadOptimizer(Checkpoint& checkpoint) {
  state_.tokens = checkpoint.tokens;
  state_.seconds_computing = checkpoint.seconds_computing;
  state_.seconds_syncing = checkpoint.seconds_syncing;
  state_.bytes = bytes_before_ = checkpoint.bytes;
  metrics_.ContinueFrom(state_);
  return optimizer_->Load({.m = std::move(checkpoint.m),
                           .v = std::move(checkpoint.v),
                           .beta1_power = checkpoint.beta1_power,
                           .beta2_power = checkpoint.beta2_power});
}

void Trainer::GoTo(uint32_t round) {
  state_.round = round;
  state_.step = std::min(uint64_t{round} * config_.sync.inner_steps, config_.run.steps);
  began_step_ = state_.step;
  round_loss_sum_ = 0;
}

absl::StatusOr<bool> Trainer::TrainRound(uint32_t round) {
  parts_.host->SetReadyRound(round);
  for (uint32_t fragment = 0; fragment < plan_.fragment_count(); ++fragment) {
    const SyncPoint point = plan_.At(round, fragment);
    LONGWAVE_RETURN_IF_ERROR(SyncFragment(point));
    LogFates(point);
    if (!sync_.missing().empty()) return false;
  }
  LONGWAVE_RETURN_IF_ERROR(EndRound(round));
  return true;
}

void Trainer::LogFates(const SyncPoint& point) const {
  if (sync_.late() > 0) {
    Log(LogLevel::kInfo, absl::StrCat("round ", point.round, ": ", sync_.late(),
                                      " pushes were late; they go with a later round"));
  }
  if (sync_.unknown_fates() > 0 || !sync_.missing().empty()) {
    Log(LogLevel::kWarning,
        absl::StrCat("round ", point.round, ": ", sync_.missing().size(),
                     " updates are kept nowhere any more, and what became of ",
                     sync_.unknown_fates(), " pushes is not known: they count as accepted"));
  }
}

absl::Status Trainer::SyncFragment(const SyncPoint& point) {
  LONGWAVE_RETURN_IF_ERROR(TrainTo(point.signal_step));
  // Where the overlap goes on into the next round, what is told of this one is of its own steps.
  round_end_ = {.round = point.round,
                .step = state_.step,
                .train_loss = state_.train_loss,
                .tokens = state_.tokens};
  double blocked = 0;
  metrics_.SyncBegins();
  {
    SetPhase(WorkerPhase::kSyncing);
    Stopwatch stopwatch(&state_.seconds_syncing);
    Stopwatch blocked_stopwatch(&blocked);
    const uint64_t steps = std::min(point.steps, point.signal_step - began_step_);
    const uint64_t tokens = steps * config_.train.batch * config_.model.context;
    LONGWAVE_ASSIGN_OR_RETURN(const bool holds, keeper_.HoldsPushes(point.round));
    FragmentSync::BeforePosting keep;
    if (holds) {
      keep = [&](std::span<const SegmentPush> pushes) {
        return KeepCheckpoint(point.round, point.fragment, pushes);
      };
    }
    LONGWAVE_RETURN_IF_ERROR(sync_.Send(point.round, point.fragment, learning_rate_,
                                        parts_.host->epoch(), tokens, keep));
  }
  LONGWAVE_RETURN_IF_ERROR(TrainTo(point.apply_step));
  {
    SetPhase(WorkerPhase::kSyncing);
    Stopwatch stopwatch(&blocked);
    LONGWAVE_RETURN_IF_ERROR(ApplyFragment());
  }
  metrics_.SyncDone(sync_.seconds(), absl::Seconds(blocked));
  return ApplyInner();
}

absl::Status Trainer::TrainTo(uint64_t step) {
  if (state_.step >= step) return absl::OkStatus();
  const uint64_t inner_steps = config_.sync.inner_steps;
  const bool inner_at_sync = config_.sync.update == UpdateRule::kInner;
  SetPhase(WorkerPhase::kTraining);
  while (state_.step < step) {
    if (parts_.host->stop_requested()) return Cancelled();
    LONGWAVE_RETURN_IF_ERROR(catch_up_.Attend());
    Stopwatch stopwatch(&state_.seconds_computing);
    const absl::Time began = MonotonicNow();
    const uint64_t into = state_.step % inner_steps;
    if (into == 0) round_loss_sum_ = 0;
    state_.round = static_cast<uint32_t>(state_.step / inner_steps);
    learning_rate_ = schedule_.LearningRate(state_.step);
    LONGWAVE_RETURN_IF_ERROR(ForwardBackward());
    if (!inner_at_sync) LONGWAVE_RETURN_IF_ERROR(ClipGradient());
    if (IsPseudoGradient(config_)) LONGWAVE_RETURN_IF_ERROR(InnerStep(learning_rate_));
    state_.train_loss = round_loss_sum_ / static_cast<double>(into + 1);
    TellState();
    metrics_.ShowLearningRate(learning_rate_);
    metrics_.StepDone(MonotonicNow() - began);
  }
  return absl::OkStatus();
}

absl::Status Trainer::ApplyFragment() {
  Stopwatch stopwatch(&state_.seconds_syncing);
  absl::Status attended;
  const absl::Status applied = sync_.Apply([&] {
    attended.Update(catch_up_.Attend());
    return !attended.ok() || parts_.host->stop_requested();
  });
  state_.bytes = Sum(bytes_before_, parts_.exchange->counts());
  LONGWAVE_RETURN_IF_ERROR(attended);
  return applied;
}

absl::Status Trainer::ApplyInner() {
  if (config_.sync.update != UpdateRule::kInner) return absl::OkStatus();
  // The merged gradient stands where the own one stood: every replica takes the same step.
  Stopwatch stopwatch(&state_.seconds_computing);
  LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  return InnerStep(learning_rate_);
}

absl::Status Trainer::EndRound(uint32_t round) {
  RoundReport report = std::exchange(round_end_, {});
  {
    const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kDecode));
    LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes, parts_.pipeline->Hashes());
  }
  // A validation loss that is not finite is told before this worker ends over it.
  const absl::Status validated = Validate(round);
  if (!validated.ok() && validated_round_ != round) return validated;
  metrics_.RoundDone(round, parts_.exchange->NewestOpenRound());
  metrics_.ShowDevice(*parts_.ops);
  metrics_.ShowRepairs(catch_up_.repairs());
  metrics_.ShowSnapshotsSent(catch_up_.snapshots_sent());
  metrics_.ShowRenewals(parts_.exchange->renewals());
  if (validated_round_ == round) report.validation_loss = validation_loss_;
  report.bytes = state_.bytes;
  report.seconds_computing = state_.seconds_computing;
  report.seconds_syncing = state_.seconds_syncing;
  parts_.host->Report(std::move(report));
  reported_ = uint64_t{round} + 1;
  return validated;
}

absl::Status Trainer::ReportEndIfCaughtUp() {
  if (reported_ == rounds_) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(RoundReport report, EndReport());
  report.caught_up = true;
  parts_.host->Report(std::move(report));
  reported_ = rounds_;
  return absl::OkStatus();
}

absl::StatusOr<RoundReport> Trainer::EndReport() {
  RoundReport report{.round = static_cast<uint32_t>(rounds_ - 1),
                     .step = state_.step,
                     .tokens = state_.tokens,
                     .bytes = state_.bytes,
                     .seconds_computing = state_.seconds_computing,
                     .seconds_syncing = state_.seconds_syncing};
  LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes, parts_.pipeline->Hashes());
  return report;
}

absl::Status Trainer::ForwardBackward() {
  Batch batch;
  {
    const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kData));
    batch = parts_.corpus->TrainBatch(config_.run.seed, parts_.worker, state_.step,
                                      config_.train.batch, config_.model.context);
  }
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kForwardBackward));
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, parts_.replica->ForwardBackward(batch));
  if (!std::isfinite(loss)) {
    // What the coordinator counts, which is there when this worker has gone.
    state_.train_loss = loss;
    TellState();
    return absl::DataLossError(
        absl::StrCat("the loss is ", loss, " at step ", state_.step,
                     " (wanted a finite number); a lower train.learning_rate or a longer "
                     "train.warmup_steps may help"));
  }
  round_loss_sum_ += loss;
  ++state_.step;
  state_.tokens += batch.tokens.size();
  return absl::OkStatus();
}

absl::Status Trainer::ClipGradient() {
  // Without a bound nobody wants to know the norm.
  if (config_.train.clip_norm == 0) return absl::OkStatus();
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  LONGWAVE_ASSIGN_OR_RETURN(
      const double norm, ClipToNorm(*parts_.ops, parts_.exec, config_.train.clip_norm,
                                    parts_.replica->gradient(), parts_.replica->parameter_count()));
  metrics_.ShowGradientNorm(norm);
  return absl::OkStatus();
}

absl::Status Trainer::InnerStep(double learning_rate) {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  return optimizer_->Step(parts_.replica->gradient(), learning_rate, parts_.replica->theta());
}

absl::StatusOr<const float*> Trainer::HostAnchor(std::vector<float>* copy) {
  const float* const anchor = parts_.pipeline->anchor();
  if (!parts_.ops->on_device) return anchor;
  copy->resize(parts_.replica->parameter_count());
  LONGWAVE_RETURN_IF_ERROR(
      parts_.ops->copy(parts_.exec, copy->data(), anchor, copy->size() * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(parts_.ops->wait(parts_.exec));
  return copy->data();
}

absl::Status Trainer::Validate(uint32_t round) {
  const uint64_t interval = ValidationInterval(config_.run.validate_every, rounds_);
  const bool due = (round + 1) % interval == 0 || round + 1 == rounds_;
  if (!due || !parts_.host->validates()) return absl::OkStatus();
  SetPhase(WorkerPhase::kValidating);
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kValidate));
  // What is validated is the anchor: where training has gone on from it, it takes θ's place.
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->SwapAnchor());
  const absl::StatusOr<double> validated = ValidationLoss();
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->SwapAnchor());
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, validated);
  validation_loss_ = loss;
  metrics_.ShowValidationLoss(loss);
  validated_round_ = round;
  if (std::isfinite(loss)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the validation loss is ", loss, " after round ", round,
                                          " (wanted a finite number)"));
}

absl::StatusOr<double> Trainer::ValidationLoss() {
  const uint32_t count = config_.run.validation_batches;
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (parts_.host->stop_requested()) return Cancelled();
    const Batch batch =
        parts_.corpus->ValidationBatch(i, count, config_.train.batch, config_.model.context);
    LONGWAVE_ASSIGN_OR_RETURN(const double loss, parts_.replica->Loss(batch));
    sum += loss;
  }
  return sum / count;
}

absl::StatusOr<FinalReport> Trainer::Conclude() {
  LONGWAVE_RETURN_IF_ERROR(ReportEndIfCaughtUp());
  for (;;) {
    LONGWAVE_RETURN_IF_ERROR(RepairLast());
    LONGWAVE_ASSIGN_OR_RETURN(FinalReport report, Finish());
    LONGWAVE_ASSIGN_OR_RETURN(const bool is_over,
                              parts_.host->Finish(report, static_cast<uint32_t>(rounds_ - 1)));
    if (is_over) return report;
  }
}

absl::Status Trainer::RepairLast() {
  const std::optional<Repair> repair = parts_.host->repair();
  if (!repair.has_value() || uint64_t{repair->round} + 1 != rounds_) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(RepairIfTold(static_cast<uint32_t>(rounds_)));
  LONGWAVE_ASSIGN_OR_RETURN(RoundReport report, EndReport());
  report.again = true;
  parts_.host->Report(std::move(report));
  validated_round_.reset();  // that was of another state
  return absl::OkStatus();
}

absl::StatusOr<FinalReport> Trainer::Finish() {
  FinalReport report;
  if (parts_.host->validates()) {
    // The duty may have come to this worker after its last round.
    const auto last_round = static_cast<uint32_t>(rounds_ - 1);
    if (validated_round_ != last_round) {
      const absl::Status validated = Validate(last_round);
      // The round's report has gone: the final one tells of a loss that is not finite.
      if (!validated.ok() && validated_round_ == last_round)
        parts_.host->Finish({.validation_loss = validation_loss_}, last_round).IgnoreError();
      LONGWAVE_RETURN_IF_ERROR(validated);
    }
    report.validation_loss = validation_loss_;
    report.model_file = (std::filesystem::path(parts_.run_dir) / "model.safetensors").string();
    std::vector<float> copy;
    LONGWAVE_ASSIGN_OR_RETURN(const float* theta, HostAnchor(&copy));
    LONGWAVE_RETURN_IF_ERROR(WriteSafetensors(report.model_file, parts_.replica->manifest(),
                                              *parts_.layout, theta,
                                              ModelMetadata(config_, config_.run.steps)));
    Log(LogLevel::kInfo, absl::StrCat("wrote ", report.model_file));
  }
  SetPhase(WorkerPhase::kDone);
  return report;
}

void Trainer::LogSeconds() const {
  const SyncSeconds& seconds = sync_.seconds();
  Log(LogLevel::kInfo,
      absl::StrFormat("computed for %.1f s, synced for %.1f s: encoding %.1f, waiting %.1f, "
                      "decoding %.1f",
                      state_.seconds_computing, state_.seconds_syncing, seconds.encoding,
                      seconds.waiting, seconds.decoding));
}

void Trainer::SetPhase(WorkerPhase phase) {
  state_.phase = phase;
  TellState();
}

void Trainer::TellState() {
  parts_.host->SetState(state_);
  metrics_.Show(state_);
}

absl::Status Trainer::Cancelled() const {
  return absl::CancelledError(absl::StrCat("asked to stop at step ", state_.step));
}

}  // namespace longwave

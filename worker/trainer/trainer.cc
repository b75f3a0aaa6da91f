#include "worker/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/sync/stopwatch.h"
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
      sync_(parts_.pipeline, parts_.exchange,
            static_cast<uint32_t>(parts_.layout->segments().size())) {}

absl::StatusOr<FinalReport> Trainer::Run() {
  LONGWAVE_ASSIGN_OR_RETURN(
      optimizer_,
      AdamW::Create(OptimizerOptions(config_.train), parts_.ops, parts_.exec,
                    parts_.replica->parameter_count(), MatrixElements(parts_.replica->manifest())));
  for (uint32_t round = 0; round < rounds_; ++round) {
    for (uint32_t fragment = 0; fragment < plan_.fragment_count(); ++fragment) {
      LONGWAVE_RETURN_IF_ERROR(SyncFragment(plan_.At(round, fragment)));
    }
    LONGWAVE_RETURN_IF_ERROR(EndRound(round));
  }
  return Finish();
}

absl::Status Trainer::SyncFragment(const SyncPoint& point) {
  LONGWAVE_RETURN_IF_ERROR(TrainTo(point.signal_step));
  // Where the overlap goes on into the next round, what is told of this one is of its own steps.
  round_end_ = {.round = point.round,
                .step = state_.step,
                .train_loss = state_.train_loss,
                .tokens = state_.tokens};
  {
    SetPhase(WorkerPhase::kSyncing);
    Stopwatch stopwatch(&state_.seconds_syncing);
    const uint64_t tokens = point.steps * config_.train.batch * config_.model.context;
    LONGWAVE_RETURN_IF_ERROR(
        sync_.Send(point.round, point.fragment, learning_rate_, parts_.host->epoch(), tokens));
  }
  LONGWAVE_RETURN_IF_ERROR(TrainTo(point.apply_step));
  return ApplyFragment();
}

absl::Status Trainer::TrainTo(uint64_t step) {
  if (state_.step >= step) return absl::OkStatus();
  const uint64_t inner_steps = config_.sync.inner_steps;
  const bool inner_at_sync = config_.sync.update == UpdateRule::kInner;
  SetPhase(WorkerPhase::kTraining);
  while (state_.step < step) {
    if (parts_.host->stop_requested()) return Cancelled();
    Stopwatch stopwatch(&state_.seconds_computing);
    const uint64_t into = state_.step % inner_steps;
    if (into == 0) round_loss_sum_ = 0;
    state_.round = static_cast<uint32_t>(state_.step / inner_steps);
    learning_rate_ = schedule_.LearningRate(state_.step);
    LONGWAVE_RETURN_IF_ERROR(ForwardBackward());
    if (!inner_at_sync) LONGWAVE_RETURN_IF_ERROR(ClipGradient());
    if (IsPseudoGradient(config_)) LONGWAVE_RETURN_IF_ERROR(InnerStep(learning_rate_));
    state_.train_loss = round_loss_sum_ / static_cast<double>(into + 1);
    parts_.host->SetState(state_);
  }
  return absl::OkStatus();
}

absl::Status Trainer::ApplyFragment() {
  {
    SetPhase(WorkerPhase::kSyncing);
    Stopwatch stopwatch(&state_.seconds_syncing);
    const absl::Status applied = sync_.Apply([this] { return parts_.host->stop_requested(); });
    state_.bytes = parts_.exchange->counts();
    LONGWAVE_RETURN_IF_ERROR(applied);
  }
  if (config_.sync.update != UpdateRule::kInner) return absl::OkStatus();
  // The merged gradient stands where the own one stood: every replica takes the same step.
  Stopwatch stopwatch(&state_.seconds_computing);
  LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  return InnerStep(learning_rate_);
}

absl::Status Trainer::EndRound(uint32_t round) {
  RoundReport report = std::exchange(round_end_, {});
  LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes, parts_.pipeline->Hashes());
  LONGWAVE_RETURN_IF_ERROR(Validate(round));
  if (validated_round_ == round) report.validation_loss = validation_loss_;
  report.bytes = state_.bytes;
  report.seconds_computing = state_.seconds_computing;
  report.seconds_syncing = state_.seconds_syncing;
  parts_.host->Report(std::move(report));
  return absl::OkStatus();
}

absl::Status Trainer::ForwardBackward() {
  const Batch batch = parts_.corpus->TrainBatch(config_.run.seed, parts_.worker, state_.step,
                                                config_.train.batch, config_.model.context);
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, parts_.replica->ForwardBackward(batch));
  if (!std::isfinite(loss)) {
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
  return ClipToNorm(*parts_.ops, parts_.exec, config_.train.clip_norm, parts_.replica->gradient(),
                    parts_.replica->parameter_count())
      .status();
}

absl::Status Trainer::InnerStep(double learning_rate) {
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
  // What is validated is the anchor: where training has gone on from it, it takes θ's place.
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->SwapAnchor());
  const absl::StatusOr<double> validated = ValidationLoss();
  LONGWAVE_RETURN_IF_ERROR(parts_.pipeline->SwapAnchor());
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, validated);
  if (!std::isfinite(loss)) {
    return absl::DataLossError(absl::StrCat("the validation loss is ", loss, " after round ", round,
                                            " (wanted a finite number)"));
  }
  validation_loss_ = loss;
  validated_round_ = round;
  return absl::OkStatus();
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

absl::StatusOr<FinalReport> Trainer::Finish() {
  FinalReport report;
  if (parts_.host->validates()) {
    // The duty may have come to this worker after its last round.
    if (validated_round_ != rounds_ - 1) LONGWAVE_RETURN_IF_ERROR(Validate(rounds_ - 1));
    report.validation_loss = validation_loss_;
    report.model_file = (std::filesystem::path(parts_.run_dir) / "model.safetensors").string();
    std::vector<float> copy;
    LONGWAVE_ASSIGN_OR_RETURN(const float* theta, HostAnchor(&copy));
    LONGWAVE_RETURN_IF_ERROR(
        WriteSafetensors(report.model_file, parts_.replica->manifest(), *parts_.layout, theta,
                         {{"format", "pt"},
                          {"longwave.preset", config_.run.preset},
                          {"longwave.model", config_.model.kind},
                          {"longwave.heads", absl::StrCat(config_.model.heads)},
                          {"longwave.steps", absl::StrCat(config_.run.steps)}}));
    Log(LogLevel::kInfo, absl::StrCat("wrote ", report.model_file));
  }
  const SyncSeconds& seconds = sync_.seconds();
  Log(LogLevel::kInfo,
      absl::StrFormat("computed for %.1f s, synced for %.1f s: encoding %.1f, waiting %.1f, "
                      "decoding %.1f",
                      state_.seconds_computing, state_.seconds_syncing, seconds.encoding,
                      seconds.waiting, seconds.decoding));
  SetPhase(WorkerPhase::kDone);
  return report;
}

void Trainer::SetPhase(WorkerPhase phase) {
  state_.phase = phase;
  parts_.host->SetState(state_);
}

absl::Status Trainer::Cancelled() const {
  return absl::CancelledError(absl::StrCat("asked to stop at step ", state_.step));
}

}  // namespace longwave

#include "worker/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/trainer/safetensors.h"

namespace longwave {
namespace {

// Adds the time it lives to *seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds), begin_(MonotonicNow()) {}
  ~Stopwatch() { *seconds_ += absl::ToDoubleSeconds(MonotonicNow() - begin_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* const seconds_;
  const absl::Time begin_;
};

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
      rounds_(RoundCount(config_)) {}

absl::StatusOr<FinalReport> Trainer::Run() {
  LONGWAVE_ASSIGN_OR_RETURN(
      optimizer_,
      AdamW::Create(OptimizerOptions(config_.train), parts_.ops, parts_.exec,
                    parts_.replica->parameter_count(), MatrixElements(parts_.replica->manifest())));
  for (uint64_t round = 0; round < rounds_; ++round) {
    LONGWAVE_RETURN_IF_ERROR(RunRound(static_cast<uint32_t>(round)));
  }
  return Finish();
}

absl::Status Trainer::RunRound(uint32_t round) {
  const bool inner_at_sync = config_.sync.update == UpdateRule::kInner;
  const uint64_t begin = uint64_t{round} * config_.sync.inner_steps;
  const uint64_t end = std::min(begin + config_.sync.inner_steps, config_.run.steps);
  state_.round = round;
  round_loss_sum_ = 0;
  SetPhase(WorkerPhase::kTraining);
  double learning_rate = 0;
  for (uint64_t step = begin; step < end; ++step) {
    if (parts_.host->stop_requested()) return Cancelled();
    Stopwatch stopwatch(&state_.seconds_computing);
    learning_rate = schedule_.LearningRate(step);
    LONGWAVE_RETURN_IF_ERROR(ForwardBackward());
    if (!inner_at_sync) LONGWAVE_RETURN_IF_ERROR(ClipGradient());
    if (IsPseudoGradient(config_)) LONGWAVE_RETURN_IF_ERROR(InnerStep(learning_rate));
    state_.train_loss = round_loss_sum_ / static_cast<double>(step + 1 - begin);
    parts_.host->SetState(state_);
  }
  LONGWAVE_RETURN_IF_ERROR(Sync(round, end - begin, learning_rate));
  if (inner_at_sync) {
    // The merged gradient stands where the own one stood: every replica takes the same step.
    Stopwatch stopwatch(&state_.seconds_computing);
    LONGWAVE_RETURN_IF_ERROR(ClipGradient());
    LONGWAVE_RETURN_IF_ERROR(InnerStep(learning_rate));
  }
  RoundReport report{.round = round, .step = state_.step, .train_loss = state_.train_loss};
  LONGWAVE_ASSIGN_OR_RETURN(report.segment_hashes, parts_.pipeline->Hashes());
  LONGWAVE_RETURN_IF_ERROR(Validate(round));
  if (validated_round_ == round) report.validation_loss = validation_loss_;
  report.tokens = state_.tokens;
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

absl::StatusOr<const float*> Trainer::HostTheta(std::vector<float>* copy) {
  const float* const theta = parts_.replica->theta();
  if (!parts_.ops->on_device) return theta;
  copy->resize(parts_.replica->parameter_count());
  LONGWAVE_RETURN_IF_ERROR(
      parts_.ops->copy(parts_.exec, copy->data(), theta, copy->size() * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(parts_.ops->wait(parts_.exec));
  return copy->data();
}

absl::Status Trainer::Sync(uint32_t round, uint64_t steps, double learning_rate) {
  SetPhase(WorkerPhase::kSyncing);
  Stopwatch stopwatch(&state_.seconds_syncing);
  const uint64_t tokens = steps * config_.train.batch * config_.model.context;
  const absl::Status status =
      parts_.exchange->Sync(parts_.host->epoch(), round, learning_rate, tokens,
                            [this] { return parts_.host->stop_requested(); });
  state_.bytes = parts_.exchange->counts();
  return status;
}

absl::Status Trainer::Validate(uint32_t round) {
  const uint64_t interval = ValidationInterval(config_.run.validate_every, rounds_);
  const bool due = (round + 1) % interval == 0 || round + 1 == rounds_;
  if (!due || !parts_.host->validates()) return absl::OkStatus();
  SetPhase(WorkerPhase::kValidating);
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, ValidationLoss());
  if (!std::isfinite(loss)) {
    return absl::DataLossError(absl::StrCat("the validation loss is ", loss, " after round ", round,
                                            " (wanted a finite number)"));
  }
  validation_loss_ = loss;
  validated_round_ = round;
  return absl::OkStatus();
}

// After a sync the replica is the anchor (with `apply: local`, this worker's own), so it is what is
// validated and, at the end, written.
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
    LONGWAVE_ASSIGN_OR_RETURN(const float* theta, HostTheta(&copy));
    LONGWAVE_RETURN_IF_ERROR(
        WriteSafetensors(report.model_file, parts_.replica->manifest(), *parts_.layout, theta,
                         {{"format", "pt"},
                          {"longwave.preset", config_.run.preset},
                          {"longwave.model", config_.model.kind},
                          {"longwave.heads", absl::StrCat(config_.model.heads)},
                          {"longwave.steps", absl::StrCat(config_.run.steps)}}));
    Log(LogLevel::kInfo, absl::StrCat("wrote ", report.model_file));
  }
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

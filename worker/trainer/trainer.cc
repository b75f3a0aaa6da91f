#include "worker/trainer/trainer.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/sync/stopwatch.h"
#include "worker/trainer/adamw_blobs.h"
#include "worker/trainer/write_model.h"

namespace longwave {
namespace {

// A final report that tells why this worker ends is waited for so long.
constexpr absl::Duration kFinalPatience = absl::Seconds(3);

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

MemberParts WithLoop(MemberParts parts, TrainingLoop* loop) {
  parts.loop = loop;
  return parts;
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      config_(*parts_.member.config),
      ops_(*parts_.member.ops),
      exec_(parts_.member.exec),
      member_(WithLoop(parts_.member, this)),
      metrics_(member_.metrics()) {}

absl::StatusOr<FinalReport> Trainer::Run() {
  LONGWAVE_ASSIGN_OR_RETURN(optimizer_, AdamW::Create(OptimizerOptions(config_.train), &ops_, exec_,
                                                      parts_.replica->parameter_count(),
                                                      MatrixElements(parts_.replica->manifest())));
  const uint32_t fragments = parts_.member.pipeline->fragment_count();
  if (config_.sync.fragments > fragments) {
    Log(LogLevel::kInfo,
        absl::StrCat("sync.fragments: got ", config_.sync.fragments, ", goes on with ", fragments,
                     ": the model has no more segments"));
  }
  LONGWAVE_ASSIGN_OR_RETURN(bool trains, member_.Begin());
  while (trains) {
    LONGWAVE_ASSIGN_OR_RETURN(trains, Step());
  }
  return member_.final_report();
}

absl::StatusOr<bool> Trainer::Step() {
  learning_rate_ = member_.learning_rate();
  Batch batch;
  {
    const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kData));
    batch = parts_.corpus->TrainBatch(config_.run.seed, parts_.member.worker, member_.step(),
                                      config_.train.batch, config_.model.context);
  }
  double loss = 0;
  {
    const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kForwardBackward));
    LONGWAVE_ASSIGN_OR_RETURN(loss, parts_.replica->ForwardBackward(batch));
  }
  LONGWAVE_RETURN_IF_ERROR(member_.CheckLoss(loss));
  if (config_.sync.update != UpdateRule::kInner) LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  if (IsPseudoGradient(config_)) LONGWAVE_RETURN_IF_ERROR(InnerStep(learning_rate_));
  metrics_.ShowLearningRate(learning_rate_);
  return member_.StepDone(batch.tokens.size(), loss);
}

absl::Status Trainer::FragmentApplied() {
  if (config_.sync.update != UpdateRule::kInner) return absl::OkStatus();
  // The merged gradient stands where the own one stood: every replica takes the same step.
  Stopwatch stopwatch(member_.seconds_computing());
  LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  return InnerStep(learning_rate_);
}

absl::Status Trainer::EndRound(RoundReport* report) {
  metrics_.ShowDevice(ops_);
  if (report->round >= member_.rounds()) {
    if (report->segment_hashes != validated_hashes_) validated_round_.reset();  // it was repaired
    return absl::OkStatus();
  }
  const absl::Status validated = Validate(report->round);
  if (validated_round_ == report->round) {
    report->validation_loss = validation_loss_;
    validated_hashes_ = report->segment_hashes;
  }
  return validated;
}

absl::Status Trainer::ClipGradient() {
  // Without a bound nobody wants to know the norm.
  if (config_.train.clip_norm == 0) return absl::OkStatus();
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  LONGWAVE_ASSIGN_OR_RETURN(
      const double norm, ClipToNorm(*&ops_, exec_, config_.train.clip_norm,
                                    parts_.replica->gradient(), parts_.replica->parameter_count()));
  metrics_.ShowGradientNorm(norm);
  return absl::OkStatus();
}

absl::Status Trainer::InnerStep(double learning_rate) {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  return optimizer_->Step(parts_.replica->gradient(), learning_rate, parts_.replica->theta());
}

absl::StatusOr<const float*> Trainer::HostAnchor(std::vector<float>* copy) {
  const float* const anchor = parts_.member.pipeline->anchor();
  if (!ops_.on_device) return anchor;
  copy->resize(parts_.replica->parameter_count());
  LONGWAVE_RETURN_IF_ERROR(ops_.copy(exec_, copy->data(), anchor, copy->size() * sizeof(float)));
  LONGWAVE_RETURN_IF_ERROR(ops_.wait(exec_));
  return copy->data();
}

absl::Status Trainer::Validate(uint32_t round) {
  const uint64_t interval = ValidationInterval(config_.run.validate_every, member_.rounds());
  const bool due = (round + 1) % interval == 0 || round + 1 == member_.rounds();
  if (!due || !parts_.member.control->directive().validates) return absl::OkStatus();
  member_.SetPhase(WorkerPhase::kValidating);
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kValidate));
  // What is validated is the anchor: where training has gone on from it, it takes θ's place.
  LONGWAVE_RETURN_IF_ERROR(parts_.member.pipeline->SwapAnchor());
  const absl::StatusOr<double> validated = ValidationLoss();
  LONGWAVE_RETURN_IF_ERROR(parts_.member.pipeline->SwapAnchor());
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
    if (parts_.member.control->stop_requested()) return member_.Cancelled();
    const Batch batch =
        parts_.corpus->ValidationBatch(i, count, config_.train.batch, config_.model.context);
    LONGWAVE_ASSIGN_OR_RETURN(const double loss, parts_.replica->Loss(batch));
    sum += loss;
  }
  return sum / count;
}

absl::StatusOr<FinalReport> Trainer::Conclude(bool writes_weights) {
  FinalReport report;
  if (!writes_weights) return report;
  // The duty may have come to this worker after its last round.
  const auto last_round = static_cast<uint32_t>(member_.rounds() - 1);
  if (validated_round_ != last_round) {
    const absl::Status validated = Validate(last_round);
    // The round's report has gone: the final one tells of a loss that is not finite.
    if (!validated.ok() && validated_round_ == last_round) {
      parts_.member.control->Finish({.validation_loss = validation_loss_});
      parts_.member.control->AwaitEnd(kFinalPatience).IgnoreError();
    }
    LONGWAVE_RETURN_IF_ERROR(validated);
  }
  report.validation_loss = validation_loss_;
  report.model_file = (std::filesystem::path(parts_.run_dir) / "model.safetensors").string();
  std::vector<float> copy;
  LONGWAVE_ASSIGN_OR_RETURN(const float* theta, HostAnchor(&copy));
  LONGWAVE_RETURN_IF_ERROR(WriteModel(report.model_file, config_, parts_.replica->manifest(),
                                      *parts_.member.layout, theta, config_.run.steps));
  Log(LogLevel::kInfo, absl::StrCat("wrote ", report.model_file));
  return report;
}

absl::Status Trainer::Save(std::vector<NamedBlob>* blobs) { return SaveAdamW(*optimizer_, blobs); }

absl::Status Trainer::Load(std::span<const NamedBlob> blobs) {
  return LoadAdamW(blobs, &*optimizer_);
}

}  // namespace longwave

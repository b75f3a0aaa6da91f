#include "worker/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/wire/buffer.h"
#include "worker/models/adamw.h"
#include "worker/trainer/optimizer_blobs.h"
#include "worker/weights/write_model.h"

namespace longwave {
namespace {

// Limit of the wait for a final report that says why this worker ends.
constexpr absl::Duration kFinalPatience = absl::Seconds(3);
// Between two attempts to write the weights of a finished run.
constexpr absl::Duration kWriteAgain = absl::Seconds(5);
// Between two looks meanwhile at whether the run has ended.
constexpr absl::Duration kLook = absl::Milliseconds(50);

// The last blob of a checkpoint; checkpoints of older versions have none.
constexpr char kDataHashBlob[] = "data-hash";

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
  absl::StatusOr<FinalReport> report = TrainToTheEnd();
  const ControlPlane& control = *parts_.member.control;
  // If the run goes on, a stopped worker leaves the weights to the others. A worker without state
  // cannot come back, and the coordinator may be gone.
  const bool run_goes_on =
      parts_.keeps_state && absl::IsCancelled(report.status()) && !control.has_ended();
  if (report.ok() || run_goes_on || !control.directive().validates) return report;
  const RoundPlan& rounds = member_.plan().rounds();
  const uint64_t steps = rounds.FirstStep(rounds.RoundOf(member_.step()));
  std::vector<float> copy;
  const absl::StatusOr<const float*> theta = HostAnchor(&copy);
  const absl::Status written = theta.ok() ? WriteWeights(*theta, steps).status() : theta.status();
  if (!written.ok()) Log(LogLevel::kError, "the weights are not written: ", written.message());
  return report;
}

absl::StatusOr<FinalReport> Trainer::TrainToTheEnd() {
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
    LONGWAVE_ASSIGN_OR_RETURN(batch, parts_.data->TrainBatch(config_.run.seed, parts_.member.worker,
                                                             member_.step(), config_.train.batch));
  }
  double loss = 0;
  {
    const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kForwardBackward));
    LONGWAVE_ASSIGN_OR_RETURN(loss, parts_.replica->ForwardBackward(batch));
  }
  LONGWAVE_RETURN_IF_ERROR(member_.CheckLoss(loss));
  if (config_.sync.update != UpdateRule::kInner) LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  if (config_.sync.signal == SignalKind::kPseudoGradient) LONGWAVE_RETURN_IF_ERROR(InnerStep());
  metrics_.ShowLearningRate(learning_rate_);
  return member_.StepDone(batch.targets.size(), loss);
}

absl::Status Trainer::FragmentApplied() {
  if (config_.sync.update != UpdateRule::kInner) return absl::OkStatus();
  // The merged gradient has replaced the worker's own, so every replica takes the same step.
  LONGWAVE_RETURN_IF_ERROR(ClipGradient());
  return InnerStep();
}

absl::Status Trainer::EndRound(RoundReport* report) {
  metrics_.ShowDevice(ops_);
  if (report->round >= member_.rounds()) {
    // The replica was repaired.
    if (report->segment_hashes != validated_hashes_) validated_round_.reset();
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
  if (config_.train.clip_norm == 0) return absl::OkStatus();  // nothing uses the norm
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  LONGWAVE_ASSIGN_OR_RETURN(
      const double norm, ClipToNorm(ops_, exec_, config_.train.clip_norm,
                                    parts_.replica->gradient(), parts_.replica->parameter_count()));
  metrics_.ShowGradientNorm(norm);
  return absl::OkStatus();
}

absl::Status Trainer::InnerStep() {
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kOptimizer));
  return parts_.optimizer->Step(parts_.replica->gradient(), learning_rate_,
                                parts_.replica->theta());
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
  if (!ValidationIsDue(config_.run.validate_every, member_.plan().rounds(), round) ||
      !parts_.member.control->directive().validates)
    return absl::OkStatus();
  member_.SetPhase(WorkerPhase::kValidating);
  const PhaseTimer timer(metrics_.seconds(WorkerMetrics::Phase::kValidate));
  // The anchor takes θ's place for the validation, where training has gone on from it.
  SyncPipeline& pipeline = *parts_.member.pipeline;
  LONGWAVE_RETURN_IF_ERROR(pipeline.SwapAnchor());
  const absl::StatusOr<double> validated = ValidationLoss();
  LONGWAVE_RETURN_IF_ERROR(pipeline.SwapAnchor());
  LONGWAVE_ASSIGN_OR_RETURN(const double loss, validated);
  validation_loss_ = loss;
  metrics_.ShowValidationLoss(loss);
  validated_round_ = round;
  if (std::isfinite(loss)) return absl::OkStatus();
  return DataLoss("the validation loss is ", loss, " after round ", round,
                  " (wanted a finite number)");
}

absl::StatusOr<double> Trainer::ValidationLoss() {
  const uint32_t count = config_.run.validation_batches;
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (parts_.member.control->stop_requested()) return member_.Cancelled();
    LONGWAVE_ASSIGN_OR_RETURN(const Batch batch,
                              parts_.data->ValidationBatch(i, count, config_.train.batch));
    LONGWAVE_ASSIGN_OR_RETURN(const double loss, parts_.replica->Loss(batch));
    sum += loss;
  }
  return sum / count;
}

absl::StatusOr<FinalReport> Trainer::Conclude(bool writes_weights) {
  FinalReport report;
  if (!writes_weights) return report;
  // The coordinator may have given this worker the duty to validate after its last round.
  const auto last_round = static_cast<uint32_t>(member_.rounds() - 1);
  if (validated_round_ != last_round) {
    const absl::Status validated = Validate(last_round);
    // The round's report was sent, so the final one tells of a loss that is not finite.
    if (!validated.ok() && validated_round_ == last_round) {
      parts_.member.control->Finish({.validation_loss = validation_loss_});
      parts_.member.control->AwaitEnd(kFinalPatience).IgnoreError();
    }
    LONGWAVE_RETURN_IF_ERROR(validated);
  }
  report.validation_loss = validation_loss_;
  std::vector<float> copy;
  LONGWAVE_ASSIGN_OR_RETURN(const float* theta, HostAnchor(&copy));
  // A disk that is full now may have room later, and the run has nothing left to lose by waiting.
  for (bool is_said = false;; is_said = true) {
    const absl::StatusOr<std::string> file = WriteWeights(theta, config_.run.steps);
    if (file.ok()) {
      report.model_file = *file;
      return report;
    }
    if (!is_said) {
      Log(LogLevel::kError, "the weights are not written: ", file.status().message(),
          "; the worker tries again every 5 s until they are");
    }
    const ControlPlane& control = *parts_.member.control;
    for (const absl::Time again = MonotonicNow() + kWriteAgain; MonotonicNow() < again;) {
      if (control.has_ended()) return report;  // somebody else has written them, or stopped the run
      if (control.stop_requested()) return member_.Cancelled();
      absl::SleepFor(kLook);
    }
  }
}

absl::StatusOr<std::string> Trainer::WriteWeights(const float* theta, uint64_t steps) {
  std::string file = (std::filesystem::path(parts_.run_dir) / "model.safetensors").string();
  LONGWAVE_RETURN_IF_ERROR(
      WriteModel(file, config_, parts_.replica->manifest(), *parts_.member.layout, theta, steps));
  Log(LogLevel::kInfo, "wrote ", file, ", the model after step ", steps);
  return file;
}

absl::Status Trainer::Save(std::vector<NamedBlob>* blobs) {
  LONGWAVE_RETURN_IF_ERROR(SaveOptimizer(*parts_.optimizer, ops_, exec_, blobs));
  const auto hash = std::as_bytes(std::span(&parts_.data->report().hash, 1));
  blobs->push_back({.name = kDataHashBlob, .bytes = Buffer({hash.begin(), hash.end()})});
  return absl::OkStatus();
}

absl::Status Trainer::Load(std::span<const NamedBlob> blobs) {
  if (!blobs.empty() && blobs.back().name == kDataHashBlob) {
    const auto hash = std::as_bytes(std::span(&parts_.data->report().hash, 1));
    if (!std::ranges::equal(blobs.back().bytes.bytes(), hash)) {
      Log(LogLevel::kWarning,
          "the data are not those that this worker trained on before; it goes on with the new "
          "ones");
    }
    blobs = blobs.first(blobs.size() - 1);
  }
  return LoadOptimizer(blobs, ops_, exec_, parts_.optimizer);
}

}  // namespace longwave

#ifndef LONGWAVE_WORKER_TRAINER_TRAINER_H_
#define LONGWAVE_WORKER_TRAINER_TRAINER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/wire/control.h"
#include "kernels/ops.h"
#include "worker/data/corpus.h"
#include "worker/member/member.h"
#include "worker/member/worker_metrics.h"
#include "worker/models/adamw.h"
#include "worker/models/replica.h"

namespace longwave {

// What a trainer works with; all of it outlives the trainer.
struct TrainerParts {
  const Corpus* corpus = nullptr;
  Replica* replica = nullptr;
  std::string run_dir;  // where the validating worker writes model.safetensors
  MemberParts member;   // its loop is the trainer
};

// The built-in training loop: batches of the corpus, the replica's gradients, AdamW, validation,
// and the weights at the end. When it syncs is the member's. Data and schedule follow the step,
// which is that of the round everywhere.
class Trainer final : private TrainingLoop {
 public:
  explicit Trainer(TrainerParts parts);

  // All rounds that are left, the weights if they are this worker's to write, and whatever the
  // control plane has to do after them until the run is over. Cancelled: it asked to stop.
  // DataLoss: the loss or the signal is not a finite number. Others as the parts return them.
  absl::StatusOr<FinalReport> Run();

 private:
  absl::Status FragmentApplied() override;
  absl::Status EndRound(RoundReport* report) override;
  absl::StatusOr<FinalReport> Conclude(bool writes_weights) override;
  absl::Status Save(std::vector<NamedBlob>* blobs) override;
  absl::Status Load(std::span<const NamedBlob> blobs) override;

  // True: another one is to follow.
  absl::StatusOr<bool> Step();
  absl::Status Validate(uint32_t round);
  absl::StatusOr<double> ValidationLoss();
  absl::Status ClipGradient();
  absl::Status InnerStep(double learning_rate);
  // The anchor where the host can read it: itself, or `copy` filled from the device.
  absl::StatusOr<const float*> HostAnchor(std::vector<float>* copy);

  const TrainerParts parts_;
  const RunConfig& config_;
  const KernelOps& ops_;
  const Exec exec_;
  TrainingMember member_;
  WorkerMetrics& metrics_;
  std::optional<AdamW> optimizer_;         // from Run on
  double learning_rate_ = 0;               // of the last step
  std::optional<double> validation_loss_;  // of the last validation
  std::optional<uint32_t> validated_round_;
  std::vector<uint64_t> validated_hashes_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_TRAINER_H_

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
#include "common/control/control.h"
#include "kernels/ops.h"
#include "worker/data/corpus.h"
#include "worker/member/member.h"
#include "worker/member/worker_metrics.h"
#include "worker/models/inner_optimizer.h"
#include "worker/models/replica.h"

namespace longwave {

// A trainer's parts, all of which outlive the trainer.
struct TrainerParts {
  const Corpus* data = nullptr;
  Replica* replica = nullptr;
  InnerOptimizer* optimizer = nullptr;
  std::string run_dir;       // where the validating worker writes model.safetensors
  bool keeps_state = false;  // it comes back with what it had
  MemberParts member;        // the trainer is its loop
};

// The built-in training loop: batches of the data, the replica's gradients, inner steps,
// validation, and the weights at the end. The member decides when to sync. Data and learning rate
// depend on the step, which belongs to the same round on all workers.
class Trainer final : private TrainingLoop {
 public:
  explicit Trainer(TrainerParts parts);

  // Trains all remaining rounds, writes the weights if this worker has to, and serves the control
  // plane until the run is over. If the run ends otherwise, the weights of that moment are written.
  // Cancelled: a stop was requested. DataLoss: a loss or signal is not finite. Other errors as the
  // parts return them.
  absl::StatusOr<FinalReport> Run();

 private:
  absl::Status FragmentApplied() override;
  absl::Status EndRound(RoundReport* report) override;
  absl::StatusOr<FinalReport> Conclude(bool writes_weights) override;
  absl::StatusOr<FinalReport> TrainToTheEnd();
  // Writes the anchor after so many inner steps. Returns the file.
  absl::StatusOr<std::string> WriteWeights(const float* theta, uint64_t steps);
  absl::Status Save(std::vector<NamedBlob>* blobs) override;
  absl::Status Load(std::span<const NamedBlob> blobs) override;

  // True: another step follows.
  absl::StatusOr<bool> Step();
  absl::Status Validate(uint32_t round);
  absl::StatusOr<double> ValidationLoss();
  absl::Status ClipGradient();
  absl::Status InnerStep();
  // The anchor in host memory: itself, or `copy` filled from the device.
  absl::StatusOr<const float*> HostAnchor(std::vector<float>* copy);

  const TrainerParts parts_;
  const RunConfig& config_;
  const KernelOps& ops_;
  const Exec exec_;
  TrainingMember member_;
  WorkerMetrics& metrics_;
  double learning_rate_ = 0;               // of the last step
  std::optional<double> validation_loss_;  // of the last validation
  std::optional<uint32_t> validated_round_;
  std::vector<uint64_t> validated_hashes_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_TRAINER_H_

#ifndef LONGWAVE_WORKER_TRAINER_TRAINER_H_
#define LONGWAVE_WORKER_TRAINER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/wire/control.h"
#include "kernels/ops.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/data/corpus.h"
#include "worker/member/control_plane.h"
#include "worker/member/member.h"
#include "worker/member/worker_metrics.h"
#include "worker/models/adamw.h"
#include "worker/models/replica.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/schedule.h"

namespace longwave {

// What a trainer works with; all of it outlives the trainer.
struct TrainerParts {
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  const Corpus* corpus = nullptr;
  Replica* replica = nullptr;
  const KernelOps* ops = nullptr;  // of the replica's device
  Exec exec;
  SyncPipeline* pipeline = nullptr;
  Exchange* exchange = nullptr;
  ControlPlane* host = nullptr;
  uint64_t run = 0;
  std::string name;     // the worker's
  uint32_t worker = 0;  // its index
  std::string run_dir;  // where the validating worker writes model.safetensors
  // Where checkpoints are kept; null: nowhere. None for runs in which nobody can catch up.
  WorkerFolder* folder = nullptr;
  // What the replica began with, flat, in host memory; asked for only to repair it.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  Metrics* metrics = nullptr;  // of the process, of part kWorker; null: nobody looks at them
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
  MemberParts PartsOfMember();

  const TrainerParts parts_;
  const RunConfig& config_;
  const Schedule schedule_;
  WorkerMetrics metrics_;
  TrainingMember member_;
  std::optional<AdamW> optimizer_;         // from Run on
  double learning_rate_ = 0;               // of the last step
  std::optional<double> validation_loss_;  // of the last validation
  std::optional<uint32_t> validated_round_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_TRAINER_H_

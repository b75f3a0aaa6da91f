#ifndef LONGWAVE_WORKER_TRAINER_TRAINER_H_
#define LONGWAVE_WORKER_TRAINER_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/wire/control.h"
#include "kernels/ops.h"
#include "worker/data/corpus.h"
#include "worker/models/adamw.h"
#include "worker/models/replica.h"
#include "worker/sync/exchange.h"
#include "worker/sync/fragment_sync.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/schedule.h"

namespace longwave {

// What the trainer needs of the control plane; Session is the real one.
class TrainerHost {
 public:
  virtual ~TrainerHost() = default;
  virtual uint32_t epoch() const = 0;  // of the membership, now
  virtual bool validates() const = 0;  // this worker computes the validation loss, now
  virtual bool stop_requested() const = 0;
  virtual void SetState(const WorkerState& state) = 0;
  virtual void Report(RoundReport report) = 0;

  // The first round that this worker may push to, by the newest membership; kRoundNever while it is
  // no member or is to catch up first (see SetReadyRound).
  virtual uint32_t first_round() const = 0;
  // The first round that this worker could push to now; kRoundNever while it can't. A member that
  // catches up gets its first round once it is ready.
  virtual void SetReadyRound(uint32_t round) = 0;
  // By shard index, if some shard has moved since the last call.
  virtual std::optional<std::vector<std::string>> TakeNewEndpoints() = 0;
  // What the coordinator last said is to be fetched anew, if anything.
  virtual std::optional<Repair> repair() const = 0;
};

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
  TrainerHost* host = nullptr;
  uint32_t worker = 0;  // its index
  std::string run_dir;  // where the validating worker writes model.safetensors
};

// A run as one worker lives it: inner steps (pseudo-gradient) or one gradient; a fragment's signal;
// the inner steps that go on while it is in flight; its update; with `update: inner` the
// optimizer's step with the merged gradient. A round is over, τ steps into the next one, when its
// last fragment is applied: then come the hashes of what all replicas share and, where it is this
// worker's turn, its validation.
// What it computes depends on configuration, worker index and what the shards merge, not on time.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  // All rounds, then the weights. Cancelled: the host asked to stop. DataLoss: the loss or the
  // signal is not a finite number. Others as the parts return them.
  absl::StatusOr<FinalReport> Run();

 private:
  absl::Status SyncFragment(const SyncPoint& point);
  // Inner steps until `step` are done.
  absl::Status TrainTo(uint64_t step);
  // One batch into gradient(); adds to the round's loss.
  absl::Status ForwardBackward();
  absl::Status ApplyFragment();
  absl::Status EndRound(uint32_t round);
  absl::Status Validate(uint32_t round);
  absl::StatusOr<double> ValidationLoss();
  absl::StatusOr<FinalReport> Finish();
  void SetPhase(WorkerPhase phase);
  absl::Status Cancelled() const;

  absl::Status ClipGradient();
  absl::Status InnerStep(double learning_rate);
  // The anchor where the host can read it: itself, or `copy` filled from the device.
  absl::StatusOr<const float*> HostAnchor(std::vector<float>* copy);

  const TrainerParts parts_;
  const RunConfig& config_;
  const Schedule schedule_;
  const SyncPlan plan_;
  const uint64_t rounds_;
  FragmentSync sync_;
  std::optional<AdamW> optimizer_;  // from Run on
  WorkerState state_;
  double learning_rate_ = 0;               // of the last step
  double round_loss_sum_ = 0;              // over the steps of the round that is trained
  RoundReport round_end_;                  // of the last round of which all steps are done
  std::optional<double> validation_loss_;  // of the last validation
  std::optional<uint32_t> validated_round_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_TRAINER_H_

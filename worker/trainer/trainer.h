#ifndef LONGWAVE_WORKER_TRAINER_TRAINER_H_
#define LONGWAVE_WORKER_TRAINER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
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
#include "worker/models/adamw.h"
#include "worker/models/replica.h"
#include "worker/sync/exchange.h"
#include "worker/sync/fragment_sync.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/catch_up.h"
#include "worker/trainer/checkpoint_keeper.h"
#include "worker/trainer/schedule.h"
#include "worker/trainer/trainer_host.h"
#include "worker/trainer/worker_metrics.h"

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
  TrainerHost* host = nullptr;
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

// A run as one worker lives it: inner steps (pseudo-gradient) or one gradient; a fragment's signal;
// the inner steps that go on while it is in flight; its update; with `update: inner` the
// optimizer's step with the merged gradient. A round is over, τ steps into the next one, when its
// last fragment is applied: then come the hashes of what all replicas share and, where it is this
// worker's turn, its validation.
//
// It begins with round 0, or catches up first (see CatchUp): who joins late, and who comes back
// with a checkpoint. A worker that finds the run ahead of it, because it was away, leaves the
// rounds in between out; of the last one it reports the hashes all the same. Data and schedule
// follow the step, which is that of the round everywhere; what it had learnt and could not push is
// in the residual.
//
// What it computes depends on configuration, worker index, what the shards merge and which rounds
// it takes part in, not on time.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  // All rounds that are left, the weights if they are this worker's to write, and whatever the host
  // has to do after them until the run is over. Cancelled: the host asked to stop. DataLoss: the
  // loss or the signal is not a finite number. Others as the parts return them.
  absl::StatusOr<FinalReport> Run();

 private:
  // The round to begin with.
  absl::StatusOr<uint32_t> Begin();
  absl::Status LoadOptimizer(Checkpoint& checkpoint);
  // At the first step of the round, as if those before had been taken.
  void GoTo(uint32_t round);
  // False: the updates of some of its segments are to be had nowhere any more.
  absl::StatusOr<bool> TrainRound(uint32_t round);
  absl::Status SyncFragment(const SyncPoint& point);
  // Inner steps until `step` are done.
  absl::Status TrainTo(uint64_t step);
  // One batch into gradient(); adds to the round's loss.
  absl::Status ForwardBackward();
  absl::Status ApplyFragment();
  // The inner optimizer's step with the merged gradient, where it takes that.
  absl::Status ApplyInner();
  absl::Status EndRound(uint32_t round);
  absl::Status Validate(uint32_t round);
  absl::StatusOr<double> ValidationLoss();
  absl::StatusOr<FinalReport> Conclude();
  // If told: makes what differed after the last round again and reports its hashes again.
  absl::Status RepairLast();
  absl::StatusOr<FinalReport> Finish();
  void SetPhase(WorkerPhase phase);
  void TellState();
  absl::Status KeepCheckpoint(uint32_t round, uint32_t fragment,
                              std::span<const SegmentPush> pushes);
  // Where this process has not trained the last round: the hashes of the replica with which it has
  // caught up. They are compared like the others', and the weights may be written from it.
  absl::Status ReportEndIfCaughtUp();
  // Of the last round, with what the replica is now.
  absl::StatusOr<RoundReport> EndReport();
  // The round to go on with, once the replica is at the present.
  absl::StatusOr<uint32_t> CatchUpWith(const std::optional<WorkerFolder::Found>& found);
  absl::Status RepairIfTold(uint32_t next);
  absl::Status Cancelled() const;

  // What catching up wants of the trainer.
  CatchUpParts PartsOfCatchUp();
  void LogSeconds() const;
  void LogFates(const SyncPoint& point) const;

  absl::Status ClipGradient();
  absl::Status InnerStep(double learning_rate);
  // The anchor where the host can read it: itself, or `copy` filled from the device.
  absl::StatusOr<const float*> HostAnchor(std::vector<float>* copy);

  const TrainerParts parts_;
  const RunConfig& config_;
  const Schedule schedule_;
  const SyncPlan plan_;
  const uint64_t rounds_;
  WorkerMetrics metrics_;
  FragmentSync sync_;
  CatchUp catch_up_;
  CheckpointKeeper keeper_;
  std::optional<AdamW> optimizer_;  // from Run on
  WorkerState state_;
  uint64_t began_step_ = 0;                // from which on steps were taken one after the other
  ByteCounts bytes_before_;                // of this worker's processes before this one
  double learning_rate_ = 0;               // of the last step
  double round_loss_sum_ = 0;              // over the steps of the round that is trained
  RoundReport round_end_;                  // of the last round of which all steps are done
  uint64_t reported_ = 0;                  // the round after the last one that was reported
  std::optional<double> validation_loss_;  // of the last validation
  std::optional<uint32_t> validated_round_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_TRAINER_H_

#ifndef LONGWAVE_WORKER_MEMBER_MEMBER_H_
#define LONGWAVE_WORKER_MEMBER_MEMBER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "common/wire/control.h"
#include "kernels/ops.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/core/worker_core.h"
#include "worker/member/checkpoint_keeper.h"
#include "worker/member/control_plane.h"
#include "worker/member/schedule.h"
#include "worker/member/training_loop.h"
#include "worker/member/worker_metrics.h"
#include "worker/sync/exchange.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// What a member works with; all of it outlives the member. MemberPlace gives it.
struct MemberParts {
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  const KernelOps* ops = nullptr;  // of the parameters' device
  Exec exec;
  float* gradient = nullptr;  // where the signal is one: [Layout::parameter_count()]
  SyncPipeline* pipeline = nullptr;
  Exchange* exchange = nullptr;
  ControlPlane* control = nullptr;
  TrainingLoop* loop = nullptr;    // null: of the loop nothing is wanted but its steps
  WorkerFolder* folder = nullptr;  // where checkpoints are kept; null: nowhere
  uint64_t run = 0;
  std::string name;     // the worker's
  uint32_t worker = 0;  // its index
  // See WorkerCoreOptions.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  Metrics* metrics = nullptr;  // of the process, of part kWorker; null: nobody looks at them
};

// A worker of a run, driven by the caller's loop: the core with its exchange, control plane,
// folder and metrics.
//
//   bool trains = Begin();
//   while (trains) { an inner step, numbered step(); trains = StepDone(tokens, loss); }
//
// An inner step leaves its θ where the signal is the pseudo-gradient, and its gradient where the
// signal is that.
// In between θ may move and step() may skip rounds: a replica that is behind catches up. What it
// computes depends on configuration, worker index, what the shards merge and which rounds it takes
// part in, not on time. Not thread-safe.
class TrainingMember {
 public:
  explicit TrainingMember(MemberParts parts);

  // True: an inner step is to be taken. False: the run is over, and final_report() was told.
  // Cancelled: the control plane asked to stop; with a folder what only this worker has is in a
  // checkpoint then, unless its run has ended. DataLoss: a loss or signal that is not a finite
  // number. Others as the parts return them.
  absl::StatusOr<bool> Begin();
  absl::StatusOr<bool> StepDone(uint64_t tokens, double loss);

  // The next StepDone reads θ or changes it: a signal is taken, or an update applied. Others leave
  // it alone, unless the run ends.
  bool next_step_syncs() const;
  // Instead of an inner step, of a caller that goes: Cancelled, as where the control plane asks for
  // it.
  absl::Status Stop();

  // DataLoss, and told to the control plane: the loss is not a finite number.
  absl::Status CheckLoss(double loss);

  uint64_t step() const { return core_.step(); }
  // Of what came after the last step: θ is not what that step left; and the run's steps that this
  // worker does not take, since it was behind.
  bool has_moved() const { return has_moved_; }
  uint64_t skipped_steps() const { return skipped_steps_; }
  const WorkerState& stats() const { return state_; }
  const FinalReport& final_report() const { return final_; }
  double learning_rate() const { return schedule_.LearningRate(step()); }  // of the next step
  uint64_t rounds() const { return plan_.round_count(); }
  const MemberParts& parts() const { return parts_; }
  WorkerMetrics& metrics() { return metrics_; }
  void SetPhase(WorkerPhase phase);
  // Its time counts as computing.
  double* seconds_computing() { return &state_.seconds_computing; }
  absl::Status Cancelled() const;

 private:
  absl::StatusOr<bool> GoOn();
  absl::StatusOr<WorkerCore::Wish> Advance();
  void Hear();
  absl::Status Attend();
  // For something that comes in. True: the run is over.
  absl::StatusOr<bool> Wait();
  absl::Status CarryOut();
  absl::Status Do(RetireCheckpoint& retire);
  absl::Status Do(KeepCheckpoint& keep);
  absl::Status Do(SegmentPush& push);
  absl::Status Do(FetchWish& wish);
  absl::Status Do(FragmentApplied& applied);
  absl::Status Do(RoundReport& report);
  absl::Status Do(TellFinal& final);
  absl::Status Do(CoreNotice& notice);
  void LoadState(const Checkpoint& checkpoint);
  bool CatchesUp() const;
  void TellState();
  void LogSeconds() const;

  WorkerCoreOptions CoreOptions() const;

  const MemberParts parts_;
  const SyncPlan plan_;
  const Schedule schedule_;
  TrainingLoop no_loop_;
  TrainingLoop& loop_;
  WorkerMetrics metrics_;
  CheckpointKeeper keeper_;
  WorkerCore core_;
  WorkerState state_;
  ByteCounts bytes_before_;  // of this worker's processes before this one
  FinalReport final_;
  bool has_moved_ = false;
  uint64_t skipped_steps_ = 0;
  SyncSeconds seconds_;
  double blocked_ = 0;  // of this fragment's sync: the time that it kept the loop waiting
  absl::Time computing_since_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_MEMBER_H_

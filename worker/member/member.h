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
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/metrics/metrics.h"
#include "kernels/ops.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/core/worker_core.h"
#include "worker/member/checkpoint_keeper.h"
#include "worker/member/control_plane.h"
#include "worker/member/node.h"
#include "worker/member/progress.h"
#include "worker/member/schedule.h"
#include "worker/member/training_loop.h"
#include "worker/member/worker_metrics.h"
#include "worker/sync/exchange.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// A member's parts, made by MemberPlace; all of them outlive the member.
struct MemberParts {
  const RunConfig* config = nullptr;
  const Layout* layout = nullptr;
  const KernelOps* ops = nullptr;  // of the parameters' device
  Exec exec;
  float* gradient = nullptr;  // if the signal is a gradient: [Layout::parameter_count()]
  SyncPipeline* pipeline = nullptr;
  Exchange* exchange = nullptr;
  ControlPlane* control = nullptr;
  TrainingLoop* loop = nullptr;    // null: a loop that only takes steps
  WorkerFolder* folder = nullptr;  // of the checkpoints; null: none, or that of rank 0
  // A rank of a node: also the exchange and the control plane. null: one device.
  Node* node = nullptr;
  SharedFolder shared_folder;  // at ranks above 0: the folder of rank 0
  uint64_t run = 0;
  std::string name;     // of the worker
  uint32_t worker = 0;  // index of the worker
  // See WorkerCoreOptions.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  Metrics* metrics = nullptr;  // of the process, of part kWorker; null: none
};

// A worker of a run, driven by the caller's loop: the core with its exchange, control plane, folder
// and metrics.
//
//   bool trains = Begin();
//   while (trains) { an inner step, numbered step(); trains = StepDone(tokens, loss); }
//
// An inner step updates θ if the signal is the pseudo-gradient, and leaves its gradient if the
// signal is the gradient. In a node each rank makes the same calls with its own tokens and loss,
// and θ moves in the elements of its own segments alone. Between steps a replica that is behind
// catches up: θ may change, and step() may skip rounds. The results depend on configuration, worker
// index, the merged updates and the rounds that this worker takes part in, not on time. Not
// thread-safe.
class TrainingMember {
 public:
  explicit TrainingMember(MemberParts parts);

  // True: the caller takes an inner step. False: the run is over, and final_report() was sent.
  // Cancelled: a stop was requested. With a folder, the worker's own state is then in a checkpoint,
  // unless its run has ended. DataLoss: a loss or signal is not finite. Other errors as the parts
  // return them.
  absl::StatusOr<bool> Begin();
  // loss: none if the loop does not know it.
  absl::StatusOr<bool> StepDone(uint64_t tokens, std::optional<double> loss);

  // The next StepDone reads or changes θ: it takes a signal, or applies an update. Other calls of
  // StepDone do neither, unless the run ends.
  bool next_step_syncs() const;
  // Called instead of an inner step by a caller that leaves: Cancelled, as after a requested stop.
  absl::Status Stop();
  // The segments whose elements of θ and the gradient this process syncs: all, or those of its
  // rank.
  SegmentRange owned() const;

  // DataLoss if the loss is not finite; the control plane is told.
  absl::Status CheckLoss(std::optional<double> loss);

  uint64_t step() const { return core_.step(); }
  // Changes after the last step: whether θ has changed, and the number of the run's steps that this
  // worker skips because it was behind.
  bool has_moved() const { return has_moved_; }
  uint64_t skipped_steps() const { return skipped_steps_; }
  const WorkerState& stats() const { return state_; }
  const FinalReport& final_report() const { return final_; }
  double learning_rate() const { return schedule_.LearningRate(step()); }  // of the next step
  // kRoundNever: not known yet.
  uint64_t rounds() const { return plan().round_count(); }
  const SyncPlan& plan() const { return core_.plan(); }
  const MemberParts& parts() const { return parts_; }
  WorkerMetrics& metrics() { return metrics_; }
  void SetPhase(WorkerPhase phase);
  absl::Status Cancelled() const;

 private:
  absl::StatusOr<bool> BeginAlone();
  absl::StatusOr<bool> StepDoneAlone(uint64_t tokens, std::optional<double> loss);
  // Reports to the other ranks of the node if this one ends with an error.
  absl::StatusOr<bool> ReportToNode(absl::StatusOr<bool> result);
  absl::StatusOr<bool> GoOn();
  absl::StatusOr<WorkerCore::Wish> Advance();
  void Hear();
  absl::Status Attend();
  absl::Status AttendDisk();
  absl::Time Now() const;
  // Waits for incoming frames or directives. True: the run is over.
  absl::StatusOr<bool> Wait();
  absl::Status CarryOut();
  absl::Status Do(RetireCheckpoint& retire);
  absl::Status Do(KeepCheckpoint& keep);
  absl::Status Do(SegmentPush& push);
  absl::Status Do(SettledNote& note);
  absl::Status Do(FetchWish& wish);
  absl::Status Do(FragmentApplied& applied);
  absl::Status Do(RoundReport& report);
  absl::Status Do(TellFinal& final);
  absl::Status Do(CoreNotice& notice);
  void Warn(const std::string& text);  // in the log, and to the coordinator
  void LoadState(const Checkpoint& checkpoint);
  bool CatchesUp() const;
  void ReportState();

  WorkerCoreOptions CoreOptions() const;

  const MemberParts parts_;
  const Schedule schedule_;
  TrainingLoop no_loop_;
  TrainingLoop& loop_;
  WorkerMetrics metrics_;
  CheckpointKeeper keeper_;
  WorkerCore core_;
  WorkerState state_;
  Progress progress_;
  ByteCounts bytes_before_;  // of this worker's earlier processes
  FinalReport final_;
  bool has_moved_ = false;
  uint64_t skipped_steps_ = 0;
  double blocked_ = 0;  // seconds that this fragment's sync blocked the loop
  absl::Time computing_since_;
  absl::Duration advanced_;  // that the core took for its last Advance
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_MEMBER_H_

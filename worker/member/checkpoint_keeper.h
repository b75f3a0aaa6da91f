#ifndef LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_
#define LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/wire/control.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/core/worker_core.h"
#include "worker/member/training_loop.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// Who keeps which checkpoints; all of it outlives the keeper.
struct CheckpointOwner {
  WorkerFolder* folder = nullptr;  // null: nothing is kept
  const Layout* layout = nullptr;
  uint64_t run = 0;
  std::string name;
  uint32_t worker = 0;
};

// A worker's checkpoints, from its side: what is in them. When, the core decides.
class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(CheckpointOwner owner) : owner_(std::move(owner)) {}

  bool keeps() const { return owner_.folder != nullptr; }
  // Checkpoints that were written, and that the disk did not take.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_; }

  // The last checkpoint is stale from now on. An error: it could not be made so.
  absl::Status Retire() { return owner_.folder->Retire(); }

  // Before what it has of pushes is posted. A disk that takes no checkpoint is told in the log, and
  // the run goes on; an error: not even the last one could be made stale.
  absl::Status Keep(const KeepCheckpoint& keep, const WorkerState& state, SyncPipeline& pipeline,
                    TrainingLoop& loop);

  // The last one, if there is one of this run. One that is damaged is told in the log.
  // FailedPrecondition: another release's, see WorkerFolder::Read.
  absl::StatusOr<std::optional<WorkerFolder::Found>> Last();

 private:
  absl::Status Write(const KeepCheckpoint& keep, const WorkerState& state, SyncPipeline& pipeline,
                     TrainingLoop& loop);

  const CheckpointOwner owner_;
  bool failing_ = false;  // was said
  uint64_t written_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

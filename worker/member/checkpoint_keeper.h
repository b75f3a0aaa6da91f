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
#include "worker/member/node.h"
#include "worker/member/training_loop.h"
#include "worker/sync/pipeline.h"

namespace longwave {

// A folder of checkpoints that another process has opened.
struct SharedFolder {
  FileSystem* files = nullptr;  // null: none
  std::string path;
};

// The owner of checkpoints; its members outlive the keeper.
struct CheckpointOwner {
  WorkerFolder* folder = nullptr;  // of one device, or of rank 0 of a node; null: none
  SharedFolder shared;             // the folder of rank 0 at the other ranks
  Node* node = nullptr;            // null: one device
  const Layout* layout = nullptr;
  uint64_t run = 0;
  std::string name;
  uint32_t worker = 0;
};

// Reads and writes a worker's checkpoints. The core decides when. Where the worker is a rank of a
// node, each call but keeps, written and failed is one or more of the node's meetings: before the
// first of a checkpoint's pushes is posted, the parts of all ranks are on the disk.
class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(CheckpointOwner owner)
      : owner_(std::move(owner)),
        place_(owner_.folder == nullptr
                   ? owner_.shared
                   : SharedFolder{owner_.folder->files(), owner_.folder->path()}) {}

  bool keeps() const { return place_.files != nullptr; }
  // Numbers of written checkpoints and of failed writes.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_; }

  // Makes the last checkpoint stale. An error: it could not.
  absl::Status Retire();

  // Called before the pushes in it are posted. A failed write is logged, and the run goes on. An
  // error: not even the last checkpoint could be made stale.
  absl::Status Keep(const KeepCheckpoint& keep, const WorkerState& state, SyncPipeline& pipeline,
                    TrainingLoop& loop);

  // The last checkpoint, if it is of this run. A damaged one is logged. FailedPrecondition: another
  // release's, see WorkerFolder::Read.
  absl::StatusOr<std::optional<WorkerFolder::Found>> Last();

 private:
  absl::Status Write(const KeepCheckpoint& keep, const WorkerState& state, SyncPipeline& pipeline,
                     TrainingLoop& loop);

  absl::StatusOr<Checkpoint> Make(const KeepCheckpoint& keep, const WorkerState& state,
                                  SyncPipeline& pipeline, TrainingLoop& loop) const;
  absl::Status WritePart(absl::StatusOr<Checkpoint> checkpoint);
  absl::StatusOr<std::optional<WorkerFolder::Found>> Read();

  const CheckpointOwner owner_;
  const SharedFolder place_;
  bool failing_ = false;  // a failure was logged
  uint64_t written_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

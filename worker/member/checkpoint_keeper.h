#ifndef LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_
#define LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
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

struct MemberParts;

// Reads and writes a worker's checkpoints. The core decides when. Where the worker is a rank of a
// node, each call but keeps, written and failed is one or more of the node's meetings: before the
// first of a checkpoint's pushes is posted, the parts of all ranks are on the disk.
class CheckpointKeeper {
 public:
  // parts: of the owner of the checkpoints; they outlive the keeper.
  explicit CheckpointKeeper(const MemberParts& parts);

  bool keeps() const { return place_.files != nullptr; }
  // Numbers of written checkpoints and of failed writes.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_; }

  // Makes the last checkpoint stale. An error: it could not.
  absl::Status Retire();

  // Called before the pushes in it are posted. A failed write is logged, and the run goes on. An
  // error: not even the last checkpoint could be made stale.
  absl::Status Keep(KeepCheckpoint keep, const WorkerState& state, TrainingLoop& loop);

  // The last checkpoint, if it is of this run. A damaged one is logged. FailedPrecondition: another
  // release's, see ReadPartOfLast.
  absl::StatusOr<std::optional<FoundCheckpoint>> Last();

 private:
  // Adds what the core does not know.
  absl::Status Complete(const WorkerState& state, TrainingLoop& loop, Checkpoint* checkpoint) const;
  absl::Status Write(const absl::Status& completed, Checkpoint& checkpoint);
  absl::Status WritePart(absl::Status completed, Checkpoint& checkpoint);
  void Warn(const std::string& text) const;  // in the log, and to the coordinator

  const MemberParts& owner_;
  const SharedFolder place_;
  bool failing_ = false;  // a failure was logged
  uint64_t written_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

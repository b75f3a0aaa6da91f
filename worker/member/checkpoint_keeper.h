#ifndef LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_
#define LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "worker/checkpoint/worker_folder.h"
#include "worker/core/worker_core.h"
#include "worker/member/checkpoint_writer.h"
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

// Reads and writes a worker's checkpoints. The core decides when. With a journal (one device)
// pushes go through it, and checkpoints are written in the background. Where the worker is a rank
// of a node, each call but keeps, has_journal, written and failed is one or more of the node's
// meetings: before the first of a checkpoint's pushes is posted, the parts of all ranks are on the
// disk.
class CheckpointKeeper {
 public:
  // parts: of the owner of the checkpoints; they outlive the keeper.
  explicit CheckpointKeeper(const MemberParts& parts);

  bool keeps() const { return place_.files != nullptr; }
  bool has_journal() const { return has_journal_; }
  bool prepares() const { return preparing_.valid(); }  // memory, so that no copy was taken
  // Numbers of written checkpoints and of failed writes, the journal's included.
  uint64_t written() const { return written_; }
  uint64_t failed() const { return failed_ + (writer_ == nullptr ? 0 : writer_->failures()); }

  // With a journal: posts the push once its record is on the disk; adds what became of one.
  absl::Status Post(SegmentPush push, JournalRecord record);
  void Note(JournalRecord record);
  bool has_waiting() const { return writer_ != nullptr && writer_->has_waiting(); }
  // Called often. The background checkpoint that has ended, if one has: its memory, and whether it
  // is on the disk. An error ends the worker.
  struct Ended {
    bool ok = false;
    bool is_again = false;  // it was not begun: WorkerCore::CheckpointAgain
    std::vector<float> momentum;
  };
  absl::StatusOr<std::optional<Ended>> Attend();

  // Makes the last checkpoint stale. An error: it could not.
  absl::Status Retire();

  // Called before the pushes in it are posted. A failed write is logged, and the run goes on. With
  // a journal: copies what the loop keeps and returns, unless it is the last one. An error: not
  // even the last checkpoint could be made stale.
  absl::Status Keep(KeepCheckpoint keep, const WorkerState& state, TrainingLoop& loop);

  // The last checkpoint, if it is of this run. A damaged one is logged. FailedPrecondition: another
  // release's, see ReadPartOfLast.
  absl::StatusOr<std::optional<FoundCheckpoint>> Last();

 private:
  absl::Status KeepInBackground(Checkpoint checkpoint, const WorkerState& state,
                                TrainingLoop& loop);
  // The first touch of memory takes longer than a copy, so that a thread does it before.
  bool HasRoomFor(std::span<const NamedBlob> blobs) const;
  void PrepareMemory(uint64_t momentum, std::span<const NamedBlob> blobs);
  // Copies the bytes that are the loop's own.
  void CopyBlobs(std::vector<NamedBlob>& blobs);
  // Logs a line when checkpoints begin to fail, and one when they are written again.
  void Say(const absl::Status& written, uint32_t round, const char* consequence);
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
  const bool has_journal_;
  std::unique_ptr<CheckpointWriter> writer_;  // null: no journal, or the last checkpoint's turn
  std::optional<Ended> ended_;                // of a checkpoint that was not even begun
  // Memory of the copies of blobs, by their place.
  struct Copy {
    std::shared_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  std::vector<Copy> copies_;
  struct Memory {
    std::vector<float> momentum;
    std::vector<Copy> copies;
  };
  Memory memory_;  // of a copy that waits for more
  std::future<Memory> preparing_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CHECKPOINT_KEEPER_H_

#ifndef LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_
#define LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// Reads a whole file after checking its header. Errors: as DecodeCheckpoint, and the disk's.
// ResourceExhausted: the file is longer than its header says.
absl::StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& file,
                                          const CheckpointShape& shape);

struct FoundCheckpoint {
  Checkpoint checkpoint;
  bool stale = false;
};
// The last checkpoint of a worker's folder, of a node the part of rank 0. Nothing: there is none,
// or it is of another run, worker or layout. A damaged or unreadable file is logged if an older one
// can replace it, and DataLoss otherwise. FailedPrecondition: as for WorkerFolder::Open.
absl::StatusOr<std::optional<FoundCheckpoint>> ReadLastCheckpoint(
    FileSystem& files, const std::string& folder, uint64_t run, const std::string& name,
    uint32_t worker, const CheckpointShape& shape);

// A worker's files, with which a restarted process continues as the same worker:
//   identity      a random word, drawn once, by which the coordinator identifies the worker
//   processes     the number of processes that have opened the folder, by which the coordinator
//                 identifies the latest process in whatever order their messages arrive
//   checkpoint    the last one, as long as it contains every posted push
//   checkpoint.stale  one followed by further posted pushes that no journal has. Part of its
//                     residual was sent since, so only its optimizer state may be used
//   journal.WRITE  what was pushed since the copy of that checkpoint, or by that process
//                  (push_journal.h)
// Each file but the journals is created and replaced atomically. Not thread-safe, but for
// WriteBeside: a thread may call it while another one calls other methods.
class WorkerFolder {
 public:
  // Creates the folder if need be, and locks it until destroyed. Unavailable: another process holds
  // it. DataLoss: a malformed identity or count. FailedPrecondition: a checkpoint of another
  // release; the message says what to do. Other errors are the disk's. `files` outlives the folder.
  static absl::StatusOr<std::unique_ptr<WorkerFolder>> Open(FileSystem* files, std::string path);

  const std::string& path() const { return path_; }
  FileSystem* files() const { return files_; }
  uint64_t identity() const { return identity_; }
  // The process's number among the processes that have opened the folder, counted from 1, plus
  // 2^32 times the rounds that the residual in `checkpoint`, with the journal, accounts for (0
  // without a checkpoint, since such a process begins with a zero residual).
  uint64_t process() const { return process_; }

  // Numbers of what this process writes, larger than those of earlier processes: of its first
  // journal, and of the next checkpoint, whose copy begins another one.
  uint64_t journal() const { return process_ << 32; }
  uint64_t NextWrite() { return journal() | ++writes_; }

  // Durable on return, without the journals and the ranks' parts that belong to earlier ones. After
  // an error the earlier or this checkpoint may be on the disk: see Retire.
  absl::Status Write(const Checkpoint& checkpoint);

  // The same in two parts. WriteBeside writes the bytes under a temporary name, in chunks that are
  // synced one by one, so that others' syncs wait for one chunk at most. written: called after each
  // with its bytes; false: ends the write (Cancelled). Adopt makes of it the checkpoint, as Write
  // does.
  absl::Status WriteBeside(const Checkpoint& checkpoint,
                           absl::FunctionRef<bool(uint64_t bytes)> written) const;
  absl::Status Adopt(uint64_t write);

  // Called before posting a push that is in no checkpoint: makes the current checkpoint stale,
  // durably. Does nothing without one.
  absl::Status Retire();

 private:
  WorkerFolder(FileSystem* files, std::string path, std::unique_ptr<FileLock> lock,
               uint64_t identity, uint64_t process, bool current)
      : files_(files),
        path_(std::move(path)),
        lock_(std::move(lock)),
        identity_(identity),
        process_(process),
        current_(current) {}

  absl::Status WriteChunks(const Checkpoint& checkpoint,
                           absl::FunctionRef<bool(uint64_t bytes)> written) const;

  absl::Status RemoveOthers(uint64_t write);

  FileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
  const uint64_t identity_;
  const uint64_t process_;
  bool current_;  // the file `checkpoint` may exist
  uint64_t writes_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_

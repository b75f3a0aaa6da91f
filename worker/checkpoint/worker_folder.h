#ifndef LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_
#define LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/checkpoint.h"

namespace longwave {

// A whole file, which is read once its header holds. Errors as DecodeCheckpoint, and the disk's;
// ResourceExhausted: a file that is longer than its header says.
absl::StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& file,
                                          const CheckpointShape& shape);

// What a worker keeps on its disk, so that it can come back as itself:
//   identity      a random word, drawn once; the coordinator knows the worker by it
//   processes     how many processes have opened it: by this the coordinator knows the latest, in
//                 whatever order it hears them
//   checkpoint    the last one, while nothing was posted that is not in it
//   checkpoint.stale  one after which more was posted: part of its residual has gone out since, so
//                 that only its optimizer may be used
// Each appears and is replaced as a whole. Not thread-safe.
class WorkerFolder {
 public:
  // Makes the folder if need be, and holds it until destroyed. Unavailable: another process does.
  // DataLoss: an identity or count that is none. FailedPrecondition: a checkpoint of another
  // release, and what is to be done. Others: the disk's. `files` outlives the folder.
  static absl::StatusOr<std::unique_ptr<WorkerFolder>> Open(FileSystem* files, std::string path);

  const std::string& path() const { return path_; }
  uint64_t identity() const { return identity_; }
  // Which of the processes that have opened the folder this one is, counted from 1, plus 2^32 times
  // the rounds that the residual in `checkpoint` accounts for: 0 where there is none, since a
  // process without one begins with nothing.
  uint64_t process() const { return process_; }

  // Durable when it returns OK. After an error the last one, or this one, may be there: see Retire.
  absl::Status Write(const Checkpoint& checkpoint);

  // To be called before anything is posted that is in no checkpoint: makes the current one stale,
  // durably. Nothing where there is none.
  absl::Status Retire();

  struct Found {
    Checkpoint checkpoint;
    bool stale = false;
  };
  // Nothing: there is none, or it is of another run, worker or layout. A file that is damaged or
  // cannot be read is told in the log if an older one can do for it. DataLoss: nothing can.
  // FailedPrecondition: as for Open.
  absl::StatusOr<std::optional<Found>> Read(uint64_t run, const std::string& name, uint32_t worker,
                                            const CheckpointShape& shape);

 private:
  WorkerFolder(FileSystem* files, std::string path, std::unique_ptr<FileLock> lock,
               uint64_t identity, uint64_t process, bool current)
      : files_(files),
        path_(std::move(path)),
        lock_(std::move(lock)),
        identity_(identity),
        process_(process),
        current_(current) {}

  FileSystem* const files_;
  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
  const uint64_t identity_;
  const uint64_t process_;
  bool current_;  // there may be a file `checkpoint`
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECKPOINT_WORKER_FOLDER_H_

#ifndef LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_
#define LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/coordinator.h"
#include "server/store/file_system.h"

namespace longwave {

struct CoordinatorStoreOptions {
  uint32_t salt = 0;  // of files made from now on; see LogFileHeader
  // Changes are appended until there are as many bytes of them as the whole record has, and at
  // least so many.
  uint64_t appended_bytes_min = uint64_t{1} << 20;
};

struct CoordinatorWrite {
  bool is_whole = false;  // `changes` are those from nothing
  CoordinatorChanges changes;
};

// What the bytes of a coordinator's file amount to.
struct CoordinatorFile {
  CoordinatorRecord record;
  uint32_t salt = 0;
  uint64_t whole_bytes = 0;    // header and first record
  uint64_t end = 0;            // after the last whole record
  uint64_t next_sequence = 0;  // of the record that would stand there
  std::string cut;             // why the bytes behind `end` are none; empty: there are none
};
// FailedPrecondition (not a coordinator's, another version), DataLoss (offset and reason).
absl::StatusOr<CoordinatorFile> ReadCoordinatorFile(std::span<const std::byte> bytes);
// The file of a coordinator's folder, which stays as it is; a coordinator may have it meanwhile.
// NotFound: there is none.
absl::StatusOr<CoordinatorFile> ReadCoordinatorFolder(FileSystem& files, const std::string& folder);

// Where a coordinator's record lies on a disk: a log, folder/coordinator.lwlog (proto/LOG.md), in a
// folder that one process at a time has. Its first record is the whole as it was when the file was
// published; each one behind it has what changed since. A change costs one write and one sync, of
// the members and of what is new, not of the run so far. The file is published anew, whole, once
// its changes have outgrown it, and after a write that failed: so nothing is ever written behind
// what may be torn. Not for many threads at once.
class CoordinatorStore {
 public:
  // Makes the folder if need be, and makes durable what is there. `files` outlives the store.
  // Unavailable: another process has the folder. FailedPrecondition: a record of another version.
  // DataLoss: it is damaged; says where. Others: the disk's.
  static absl::StatusOr<std::unique_ptr<CoordinatorStore>> Open(
      FileSystem* files, const std::string& folder, const CoordinatorStoreOptions& options);

  // What the folder had when it was opened, once; nothing: there was no record.
  std::optional<CoordinatorRecord> TakeRecord() { return std::move(record_); }
  // A sentence about what was cut from the file's end because it was never synced; empty: nothing.
  const std::string& cut() const { return cut_; }

  // What is to be written now of what the core has decided; it is in hand then, and the core counts
  // it as saved. Nothing: all of it is durable.
  std::optional<CoordinatorWrite> Take(Coordinator& core, absl::Time now) const;

  // All or nothing, and durable when it returns. After an error the next Take gives the whole.
  // ResourceExhausted: the disk is full.
  absl::Status Write(const CoordinatorWrite& write);

 private:
  CoordinatorStore(FileSystem* files, std::string folder, const CoordinatorStoreOptions& options);
  absl::Status Recover();
  absl::Status Replace(std::span<const std::byte> body);
  absl::Status Append(std::span<const std::byte> body);

  FileSystem* const files_;
  const std::string folder_;
  const std::string path_;
  const CoordinatorStoreOptions options_;
  std::unique_ptr<FileLock> lock_;
  std::optional<CoordinatorRecord> record_;
  std::string cut_;
  std::unique_ptr<WritableFile> writer_;  // null: the next write is of the whole
  bool failed_ = false;                   // the last write
  uint32_t salt_ = 0;                     // of the file
  uint64_t next_sequence_ = 0;
  uint64_t whole_bytes_ = 0;
  uint64_t appended_bytes_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_

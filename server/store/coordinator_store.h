#ifndef LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_
#define LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/coordinator.h"
#include "server/store/file_system.h"

namespace longwave {

struct CoordinatorStoreOptions {
  uint32_t salt = 0;  // of new files; see LogFileHeader
  // Changes are appended until they have as many bytes as the whole record, and at least so many.
  uint64_t appended_bytes_min = uint64_t{1} << 20;
};

struct CoordinatorWrite {
  bool is_whole = false;  // `changes` start from an empty record
  CoordinatorChanges changes;
};

// The content of a coordinator's file.
struct CoordinatorFile {
  CoordinatorRecord record;
  uint32_t salt = 0;
  uint64_t whole_bytes = 0;    // header and first record
  uint64_t end = 0;            // after the last whole record
  uint64_t next_sequence = 0;  // of the record that would follow
  std::string cut;             // why the bytes after `end` are no records; empty: there are none
};
// FailedPrecondition: not a coordinator's file, or another version. DataLoss: offset and reason.
absl::StatusOr<CoordinatorFile> ReadCoordinatorFile(std::span<const std::byte> bytes);
// Reads the file in a coordinator's folder without changes; a coordinator may hold the folder
// meanwhile. NotFound: the file is missing.
absl::StatusOr<CoordinatorFile> ReadCoordinatorFolder(FileSystem& files, const std::string& folder);

// A coordinator's record on a disk: a log, folder/coordinator.lwlog (proto/LOG.md), in a folder
// that one process at a time holds. The first record is the whole state at the time when the file
// was published. Each further record has the changes since. So the cost of a change, one write and
// one sync, depends on the members and the new data, not on the length of the run. The file is
// published anew, whole, when its changes have outgrown it or a write has failed, so no record
// follows bytes that may be torn. The class is not thread-safe.
class CoordinatorStore {
 public:
  // Creates the folder if need be, and makes its content durable. `files` outlives the store.
  // Unavailable: another process holds the folder. FailedPrecondition: a record of another version.
  // DataLoss: damaged; the message says where, and what to do. Other errors are the disk's.
  static absl::StatusOr<std::unique_ptr<CoordinatorStore>> Open(
      FileSystem* files, const std::string& folder, const CoordinatorStoreOptions& options);

  // The record that the folder had at Open, once; nothing if there was none.
  std::optional<CoordinatorRecord> TakeRecord() { return std::move(record_); }
  // A sentence about a torn tail that was cut off; empty if nothing was cut.
  const std::string& cut() const { return cut_; }

  // The core's unsaved changes, which the core then counts as saved. Nothing: all changes are
  // durable.
  std::optional<CoordinatorWrite> Take(Coordinator& core, absl::Time now) const;

  // Atomic, and durable on return. After an error the next Take gives the whole record.
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
  std::unique_ptr<WritableFile> writer_;  // null: the next write is the whole record
  bool failed_ = false;                   // the last write
  uint32_t salt_ = 0;                     // of the file
  uint64_t next_sequence_ = 0;
  uint64_t whole_bytes_ = 0;
  uint64_t appended_bytes_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_COORDINATOR_STORE_H_

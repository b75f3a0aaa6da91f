#ifndef LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_
#define LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/wire/buffer.h"

namespace longwave {

using BytePieces = std::span<const std::span<const std::byte>>;

// An append-only file. The destructor closes without a sync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  // Appends all bytes of the pieces in order. After an error any part of them may be in the file,
  // torn at any byte. ResourceExhausted: the disk is full; the message has the bytes wanted and
  // free.
  virtual absl::Status Append(BytePieces pieces) = 0;

  // Returns when all appended bytes are on the disk. After an error the content on the disk is
  // unknown: the system may have dropped the bytes and the error, so a second Sync could succeed
  // and mean nothing. The file must not be written any more; see FileSystem::Settle.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
  // Fills `out`. OutOfRange: the file ends earlier.
  virtual absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

// The lock is held as long as the object lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// The store's view of a disk. Implementations: the machine's (posix_file_system.h), and one in
// memory that crashes, fills up and fails on command (tests/support/sim_file_system.h). Paths use
// '/' and are the caller's; messages name them. The class is not thread-safe.
//
// A new name, a rename and a removal are durable only after SyncFolder of their folder. Before, a
// crash may undo each of them separately.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates an empty file. AlreadyExists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // NotFound.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) = 0;

  // Cuts the file to its first bytes, which are `verified`: the caller has read them and checked
  // their checksums. Writes them again in place and syncs. Afterwards readers see the bytes on the
  // disk, even if an earlier sync of this file has failed. A crash meanwhile harms no bytes that
  // were on the disk before. OutOfRange: the file is shorter.
  virtual absl::Status Settle(const std::string& path, std::span<const std::byte> verified) = 0;

  // Atomic; replaces a file with the name `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Sorted names of the files (not folders) in the folder.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  // Creates the folder and its parents durably, for the owner alone. Succeeds if it exists.
  virtual absl::Status CreateFolder(const std::string& folder) = 0;
  virtual absl::Status SyncFolder(const std::string& folder) = 0;

  // Creates the file if need be. Unavailable: this or another process holds the lock.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

// Reads a whole file. ResourceExhausted: the file is larger than `bytes_max`.
absl::StatusOr<Buffer> ReadWhole(FileSystem& files, const std::string& path, uint64_t bytes_max);

// Files are cut, set aside and refused by what was read, and a read may go wrong where the disk is
// right. So a fault counts once two reads in a row have found the same one. fault_of: a sentence
// about a result without an error that is wrong all the same, else empty.
inline constexpr int kReadsMax = 5;
void LogWrongRead(absl::string_view fault);
template <typename Read, typename FaultOf>
std::invoke_result_t<Read> ReadUntilSure(const Read& read, const FaultOf& fault_of) {
  const auto fault = [&](const std::invoke_result_t<Read>& result) {
    return result.ok() ? std::string(fault_of(*result)) : std::string(result.status().message());
  };
  std::invoke_result_t<Read> result = read();
  for (int reads = 1; reads < kReadsMax && !absl::IsNotFound(result.status()); ++reads) {
    const std::string before = fault(result);
    if (before.empty()) break;
    result = read();
    if (fault(result) == before) break;
    LogWrongRead(before);
  }
  return result;
}
template <typename Read>
std::invoke_result_t<Read> ReadUntilSure(const Read& read) {
  return ReadUntilSure(read, [](const auto&) { return ""; });
}

// Writes a whole file atomically and durably: under a temporary name, synced, renamed to
// folder/name (replacing an older file), and the folder synced. After an error the temporary file
// is removed if possible. folder/name is then the old file or, if only the last step failed,
// perhaps the new one.
absl::Status Publish(FileSystem& files, const std::string& folder, absl::string_view name,
                     BytePieces pieces);

// Removes the leftovers of interrupted calls of Publish.
absl::Status RemoveTemporaries(FileSystem& files, const std::string& folder);

// FailedPrecondition: the folder has the file `name`, an SQLite database of an earlier version. The
// message says what can be done.
absl::Status RefuseOlderState(FileSystem& files, const std::string& folder, absl::string_view name);

std::string JoinPath(absl::string_view folder, absl::string_view name);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_

#ifndef LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_
#define LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/wire/buffer.h"

namespace longwave {

using BytePieces = std::span<const std::span<const std::byte>>;

// A file that grows at its end. Closed by its destructor, which syncs nothing.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  // Appends all bytes of the pieces, in order. After an error any part of them may be in the file,
  // torn at any byte. ResourceExhausted: the disk is full; says how many bytes were wanted and how
  // many are free.
  virtual absl::Status Append(BytePieces pieces) = 0;

  // Returns when all that was appended is on the disk. After an error nobody knows what is: the
  // system may have dropped the bytes and forgotten it, so that a second Sync would succeed and
  // mean nothing. Nothing more may be written through this file then; see FileSystem::Settle.
  virtual absl::Status Sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
  // Fills `out`. OutOfRange: the file ends before.
  virtual absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

// Held for as long as it lives.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// What the store needs of a disk, and no more. Two kinds: the machine's (posix_file_system.h) and
// one in memory that crashes, fills up and fails on command (tests/support/sim_file_system.h).
// Paths are the caller's, with '/' between their parts; messages name them. Not for many threads at
// once.
//
// A new name, a rename and a removal are certain only after SyncFolder of the folder they are in;
// before it, a crash may undo them or not, each on its own.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new empty file. AlreadyExists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // NotFound.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) = 0;

  // Cuts the file to its first `bytes` bytes, writes these again in place and syncs. Afterwards
  // what a reader sees is what the disk has, even if an earlier sync of this file has failed. A
  // crash meanwhile harms nothing that was on the disk before. OutOfRange: the file is shorter.
  virtual absl::Status Settle(const std::string& path, uint64_t bytes) = 0;

  // Atomically, also in place of a file that has the name `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names of the files (not folders) in it, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;
  // With its parents, durably, for their owner alone; nothing if it is there.
  virtual absl::Status CreateFolder(const std::string& folder) = 0;
  virtual absl::Status SyncFolder(const std::string& folder) = 0;
  // What an ordinary process may still write to the disk that `path` (which exists) is on.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;

  // Creates the file if need be. Unavailable: somebody else, in this process or another, holds it.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

absl::Status AppendBytes(WritableFile& file, std::span<const std::byte> bytes);

// All of a file. ResourceExhausted: it has more than `bytes_max`.
absl::StatusOr<Buffer> ReadWhole(FileSystem& files, const std::string& path, uint64_t bytes_max);

// A whole file that is there completely and durably or not at all: written under a temporary name,
// synced, renamed to folder/name (in place of an older one), and the folder synced. After an error
// the temporary file is removed if that still goes; folder/name may then be the old one or, if only
// the last step failed, the new.
absl::Status Publish(FileSystem& files, const std::string& folder, absl::string_view name,
                     BytePieces pieces);

// Removes what an interrupted Publish has left.
absl::Status RemoveTemporaries(FileSystem& files, const std::string& folder);

// FailedPrecondition: the folder has the file `name`, in which versions before this one kept, in
// SQLite, what is a file of our own now. Says what can be done.
absl::Status RefuseOlderState(FileSystem& files, const std::string& folder, absl::string_view name);

std::string JoinPath(absl::string_view folder, absl::string_view name);

// "FOLDER/FILE: " in front of what went wrong; the kind of error stays.
absl::Status AtPath(absl::string_view path, const absl::Status& status);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_FILE_SYSTEM_H_

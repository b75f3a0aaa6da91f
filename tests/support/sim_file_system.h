#ifndef LONGWAVE_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_
#define LONGWAVE_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "server/store/file_system.h"

namespace longwave {

// What goes wrong on a simulated disk. Numbers count from the file system's beginning, from 0.
struct SimFaults {
  // The operation (Create, Append, Sync, Settle, Rename, Remove, CreateFolder, SyncFolder: one
  // each) in whose midst the machine stops. It may have done all, nothing or a part of its work;
  // it and everything after it is Aborted until Restart.
  std::optional<uint64_t> crash_at;
  std::optional<uint64_t> capacity_bytes;    // of all files together: what is more does not fit
  std::optional<uint64_t> failed_sync_at;    // the WritableFile::Sync that fails
  std::optional<uint64_t> failed_append_at;  // the Append that fails, torn at any byte
  // A disk that says it has what it has not: WritableFile::Sync does nothing. No shard can stand
  // this; tests of tests use it.
  bool syncs_lie = false;
};

// A disk in memory that keeps only what a real one promises to keep. For each file there is what a
// reader sees and what is on the disk; for each name likewise. At a loss of power
//   a file      keeps what was synced. What was not is kept to a length drawn at random, and
//               stretches of that (kSectorBytes) may be zeros: pages are written in any order
//   a name      that was made, renamed or removed since its folder's last sync is or is not: either
//               all changes up to a random one happened, or each on its own
// After a failed sync the system holds all bytes for written: readers see them, later syncs
// succeed, and yet some never reach the disk. All draws come from `seed`: the same calls, the same
// disk.
class SimFileSystem final : public FileSystem {
 public:
  static constexpr size_t kSectorBytes = 64;  // small, so that small tests see holes

  explicit SimFileSystem(uint64_t seed) : rng_(seed) {}

  SimFaults faults;

  uint64_t operations() const { return operations_; }
  uint64_t syncs() const { return syncs_; }
  uint64_t appends() const { return appends_; }
  uint64_t used_bytes() const { return UsedBytes(); }  // of all files together
  bool crashed() const { return crashed_; }

  enum class Stop {
    kPower,    // the disk keeps what the rules above say
    kProcess,  // kill -9: the system lives on and so does all that was written, synced or not
  };
  // After a crash, or out of the blue: every file and lock that was open is closed for good, the
  // disk is what it is after such a stop, crash_at is used up.
  void Restart(Stop stop);

  // A disk with the same files as readers see them, all of it synced: a backup. Its draws come from
  // `seed`, and its faults are none.
  std::unique_ptr<SimFileSystem> Copy(uint64_t seed) const;

  // Changes one byte of a file where it lies, as a bad disk does.
  void Corrupt(const std::string& path, uint64_t offset, std::byte mask);

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::Status Settle(const std::string& path, uint64_t bytes) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& folder) override;
  absl::Status SyncFolder(const std::string& folder) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  struct Content {
    std::vector<std::byte> seen;
    std::vector<std::byte> on_disk;
    size_t dirty_from = 0;  // the system knows that seen[dirty_from …] is still to be written
  };
  using ContentPtr = std::shared_ptr<Content>;
  // A change of names that is not synced yet: `to` gets the content, `from` loses it.
  struct NameChange {
    std::string from;
    std::string to;
    ContentPtr content;
  };
  using Names = std::map<std::string, ContentPtr>;
  class Writable;
  class Readable;
  class Held;

  // Aborted if the machine is down; else counts the operation. `stops_now`: this is the one.
  absl::Status Begin(bool& stops_now);
  absl::Status CheckRunning() const;
  absl::Status Find(const std::string& path, ContentPtr& content) const;
  absl::Status Append(const std::string& path, Content& content, BytePieces pieces);
  absl::Status Sync(const std::string& path, Content& content);
  void WriteSome(Content& content);  // some of what is dirty to the disk, with holes
  uint64_t UsedBytes() const;
  static void Apply(const NameChange& change, Names& names);

  Rng rng_;
  uint64_t operations_ = 0;
  uint64_t appends_ = 0;
  uint64_t syncs_ = 0;
  uint64_t generation_ = 0;  // of open files: those of another one are dead
  bool crashed_ = false;
  Names seen_;
  Names on_disk_;
  std::vector<NameChange> unsynced_;
  std::set<std::string> folders_;
  std::set<std::string> locks_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_

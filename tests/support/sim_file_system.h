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

// Faults of a simulated disk. Numbers count from the file system's creation, from 0.
struct SimFaults {
  // The operation (one Create, Append, Sync, Settle, Rename, Remove, CreateFolder or SyncFolder)
  // during which the machine stops. The operation may have done all, none or part of its work. This
  // operation and all later ones return Aborted until Restart.
  std::optional<uint64_t> crash_at;
  std::optional<uint64_t> capacity_bytes;    // limit of all files together
  std::optional<uint64_t> failed_sync_at;    // the WritableFile::Sync that fails
  std::optional<uint64_t> failed_append_at;  // the failing Append, torn at any byte
  bool reads_fail = false;                   // ReadAt, for lack of memory or descriptors
  // WritableFile::Sync does nothing and reports success. No shard survives this; tests of tests use
  // it.
  bool syncs_lie = false;
};

// A disk in memory that keeps only the bytes that a real one promises to keep. For each file and
// for each name, the class has the readers' view and the state on the disk. After a power loss
//   a file      has its synced bytes. Unsynced bytes are kept up to a random length, in which
//               sectors may be zeros, since pages are written in any order
//   a name      created, renamed or removed since the last sync of its folder may be kept or not:
//               either all changes up to a random one have happened, or each one independently
// After a failed sync the system believes that all bytes are written: readers see them, later syncs
// succeed, and some never reach the disk. All draws come from `seed`: the same calls give the same
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
    kPower,    // the disk keeps bytes by the rules above
    kProcess,  // kill -9: the system survives, and with it all written bytes, synced or not
  };
  // Stops the machine or the process, also without a crash. All open files and locks become
  // invalid, the disk is as after such a stop, and crash_at is used up.
  void Restart(Stop stop);

  // A backup: a disk with the same files in the readers' view, all synced. Draws come from `seed`,
  // and the copy has no faults.
  std::unique_ptr<SimFileSystem> Copy(uint64_t seed) const;

  // Changes one byte of a file in place, like a bad disk.
  void Corrupt(const std::string& path, uint64_t offset, std::byte mask);

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::Status Settle(const std::string& path, std::span<const std::byte> verified) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& folder) override;
  absl::Status SyncFolder(const std::string& folder) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  struct Content {
    std::vector<std::byte> seen;
    std::vector<std::byte> on_disk;
    size_t dirty_from = 0;  // seen[dirty_from …] is still to be written, as the system knows
  };
  using ContentPtr = std::shared_ptr<Content>;
  // An unsynced change of names: `to` gets the content, `from` loses it.
  struct NameChange {
    std::string from;
    std::string to;
    ContentPtr content;
  };
  using Names = std::map<std::string, ContentPtr>;
  class Writable;
  class Readable;
  class Held;

  // Aborted if the machine is down. Otherwise counts the operation. `stops_now`: the machine stops
  // here.
  absl::Status Begin(bool& stops_now);
  absl::Status CheckRunning() const;
  absl::Status Find(const std::string& path, ContentPtr& content) const;
  absl::Status Append(const std::string& path, Content& content, BytePieces pieces);
  absl::Status Sync(const std::string& path, Content& content);
  void WriteSome(Content& content);  // writes some of the dirty bytes to the disk, with holes
  uint64_t UsedBytes() const;
  static void Apply(const NameChange& change, Names& names);

  Rng rng_;
  uint64_t operations_ = 0;
  uint64_t appends_ = 0;
  uint64_t syncs_ = 0;
  uint64_t generation_ = 0;  // of open files: those of earlier generations are invalid
  bool crashed_ = false;
  Names seen_;
  Names on_disk_;
  std::vector<NameChange> unsynced_;
  std::set<std::string> folders_;
  std::set<std::string> locks_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_

#ifndef LONGWAVE_SERVER_STORE_SNAPSHOT_STORE_H_
#define LONGWAVE_SERVER_STORE_SNAPSHOT_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/wire/buffer.h"
#include "server/store/catalog.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_format.h"
#include "server/store/store_identity.h"

namespace longwave {

// Snapshots kept of each kind and segment range: the newest, and one to fall back on if it is
// damaged. The log must reach back to the older one.
inline constexpr size_t kSnapshotsKept = 2;

// An unusable or missing file.
struct DamagedSnapshot {
  std::string name;
  std::string reason;
};

// A shard's snapshots: immutable files FOLDER/KIND-FIRST-COUNT-rROUND.lwsnap. The class is not
// thread-safe.
//
//   open    Reads and verifies every file in constant memory. A damaged file is set aside
//           (NAME.damaged) with its reason, and the one before is used.
//   write   Durable on return. An error concerns that snapshot alone, changes no earlier one, and
//           another Write may be tried.
//   older   Older snapshots are removed after the newer one is durable.
class SnapshotStore {
 public:
  // FailedPrecondition: a snapshot of another run, shard or layout. `files` and `catalog` outlive
  // the store.
  static absl::StatusOr<std::unique_ptr<SnapshotStore>> Open(FileSystem* files, std::string folder,
                                                             const StoreIdentity& identity,
                                                             Catalog* catalog);

  const std::vector<DamagedSnapshot>& damaged() const { return damaged_; }

  // Writes the content (snapshot_content.h) under the key, and removes all but the kSnapshotsKept
  // newest of its kind and segment range. AlreadyExists: the kind and range has a snapshot of this
  // or a later round. InvalidArgument: too large, no segments. ResourceExhausted: the disk is full.
  // The new snapshot stays after an error only if removing older ones has failed.
  absl::Status Write(const SnapshotKey& key, uint64_t replay_from, Buffer content,
                     Compression compression);

  // The latest usable snapshot of this kind whose range contains the segment.
  std::optional<SnapshotHeader> Latest(SnapshotKind kind, uint32_t segment) const;
  // All usable snapshots, by kind, range and round.
  std::vector<SnapshotHeader> All() const;

  uint64_t file_bytes() const;  // of all usable snapshots

  // The content of a usable snapshot, verified again. NotFound: there is none. DataLoss: the file
  // was damaged since Open. The damaged file is set aside, and Latest gives the one before.
  absl::StatusOr<Buffer> Read(const SnapshotKey& key);

 private:
  SnapshotStore(FileSystem* files, std::string folder, const StoreIdentity& identity,
                Catalog* catalog)
      : files_(files), folder_(std::move(folder)), identity_(identity), catalog_(catalog) {}

  absl::Status Recover();
  absl::Status SetAside(const std::string& name, absl::string_view reason);
  absl::StatusOr<SnapshotHeader> Verify(const std::string& name) const;
  // Snapshots of the same kind and range that a new one of this key makes superfluous.
  std::vector<std::string> OlderThan(const SnapshotKey& key) const;
  absl::Status SaveNames();

  FileSystem* const files_;
  const std::string folder_;
  const StoreIdentity identity_;
  Catalog* const catalog_;
  std::map<std::string, SnapshotHeader> by_name_;
  std::vector<DamagedSnapshot> damaged_;
};

// "state-00000000-00000016-r00000042.lwsnap"; names of one kind and range sort by round.
std::string SnapshotName(const SnapshotKey& key);
// Headers of all snapshot files in a shard's folder, by kind, range and round; empty if the folder
// is missing. No file is set aside. DataLoss, InvalidArgument, OutOfRange: a file is damaged.
// FailedPrecondition: it is another run's, shard's or layout's.
absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity);
// The verified content of the snapshot with this header. DataLoss, OutOfRange: the file is damaged.
absl::StatusOr<Buffer> ReadSnapshot(FileSystem& files, const std::string& folder,
                                    const SnapshotHeader& header);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SNAPSHOT_STORE_H_

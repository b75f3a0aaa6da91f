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

// Of each kind and segment range so many are kept: the newest, and one to fall back on should it be
// damaged. The log must reach back to the older of them (ReplayFromMin).
inline constexpr size_t kSnapshotsKept = 2;

// A file that was there, or should have been, and cannot be used.
struct DamagedSnapshot {
  std::string name;
  std::string reason;
};

// A shard's snapshots: immutable files FOLDER/KIND-FIRST-COUNT-rROUND.lwsnap. Not for many threads
// at once.
//
//   open    Every file is read and verified, in constant memory. A damaged one is set aside
//           (NAME.damaged) with its reason, and the one before it is used.
//   write   Durable when it returns. What went wrong concerns that snapshot alone; nothing that was
//           there before is touched, and another Write may be tried.
//   older   ones are removed after the newer one is durable.
class SnapshotStore {
 public:
  // FailedPrecondition: a snapshot of another run, shard or layout. `files` and `catalog` outlive
  // it.
  static absl::StatusOr<std::unique_ptr<SnapshotStore>> Open(FileSystem* files, std::string folder,
                                                             const StoreIdentity& identity,
                                                             Catalog* catalog);

  const std::vector<DamagedSnapshot>& damaged() const { return damaged_; }

  // Writes the content (snapshot_content.h) under the key and removes what is older than the
  // kSnapshotsKept newest of its kind and segment range. AlreadyExists: of that kind and
  // range there is one of this round or a later one. InvalidArgument: too large, no segments.
  // ResourceExhausted: the disk is full. Only an error in removing older ones leaves the new one in
  // place.
  absl::Status Write(const SnapshotKey& key, uint64_t replay_from, Buffer content,
                     Compression compression);

  // Of the usable ones of this kind whose range holds the segment, that of the latest round.
  std::optional<SnapshotHeader> Latest(SnapshotKind kind, uint32_t segment) const;
  // All usable ones, by kind, range and round.
  std::vector<SnapshotHeader> All() const;

  uint64_t file_bytes() const;  // of all usable ones

  // The content of a usable one, verified again. NotFound: there is none. DataLoss: it has been
  // damaged since it was opened; it is set aside now, and Latest names the one before.
  absl::StatusOr<Buffer> Read(const SnapshotKey& key);

  // The log's records before this are needed by none of the snapshots that are kept of `kind`;
  // nothing if there are none. Whether they cover every segment is the caller's to see.
  std::optional<uint64_t> ReplayFromMin(SnapshotKind kind) const;

 private:
  SnapshotStore(FileSystem* files, std::string folder, const StoreIdentity& identity,
                Catalog* catalog)
      : files_(files), folder_(std::move(folder)), identity_(identity), catalog_(catalog) {}

  absl::Status Recover();
  absl::Status SetAside(const std::string& name, absl::string_view reason);
  absl::StatusOr<SnapshotHeader> Verify(const std::string& name) const;
  // Of its kind and range, those that a new one of this key makes superfluous.
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

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SNAPSHOT_STORE_H_

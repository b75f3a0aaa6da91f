#ifndef LONGWAVE_SERVER_STORE_SHARD_STORE_H_
#define LONGWAVE_SERVER_STORE_SHARD_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/catalog.h"
#include "server/store/delta_log.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_store.h"
#include "server/store/store_identity.h"

namespace longwave {

struct ShardStoreOptions {
  StoreIdentity identity;
  uint64_t folder = 0;   // random word, used if the folder is created now
  std::string settings;  // the run's configuration as text; empty: accept the folder's
  DeltaLogOptions log;
};

// The durable state of a shard, in a folder that one process at a time holds:
//
//   lock            held for as long as the store is open
//   shard.catalog   the catalog
//   log/            the delta log
//   snap/           snapshots
//
// After a restart E and the open rounds follow from the latest state snapshots and the log's
// records from their replay_from on. A snapshot whose replay_from is below the log's first record
// is unusable. The class uses no socket, thread, clock or gRPC, and is not thread-safe.
class ShardStore {
 public:
  // Unavailable: another process holds the folder. FailedPrecondition: the folder is another run's,
  // shard's or layout's. DataLoss: the named file is damaged in a durable part. `files` outlives
  // the store.
  static absl::StatusOr<std::unique_ptr<ShardStore>> Open(FileSystem* files,
                                                          const std::string& folder,
                                                          const ShardStoreOptions& options);

  DeltaLog& log() { return *log_; }
  SnapshotStore& snapshots() { return *snapshots_; }

 private:
  ShardStore() = default;

  std::unique_ptr<FileLock> lock_;  // released last
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<DeltaLog> log_;
  std::unique_ptr<SnapshotStore> snapshots_;
};

struct FolderOwner {
  // The run of a log with at least one record; 0: there is none, and the next process begins a log.
  uint64_t run = 0;
  uint64_t folder = 0;  // random word; 0: not created yet
};
// The way out of a folder that is damaged or not the newest.
inline constexpr absl::string_view kShardWayOut =
    "Put the newest folder back; where workers still have the model, this one can also be removed "
    "and the shard started again, which restores its segments from their replicas";
// The status, with the way out behind its sentence where it says that the folder is damaged.
absl::Status WithWayOut(const absl::Status& status);

// Unavailable: another process holds the folder. DataLoss: with the way out.
absl::StatusOr<FolderOwner> OwnerOfFolder(FileSystem& files, const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SHARD_STORE_H_

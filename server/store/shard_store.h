#ifndef LONGWAVE_SERVER_STORE_SHARD_STORE_H_
#define LONGWAVE_SERVER_STORE_SHARD_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/catalog.h"
#include "server/store/delta_log.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_store.h"
#include "server/store/store_identity.h"

namespace longwave {

struct ShardStoreOptions {
  StoreIdentity identity;
  uint64_t folder = 0;   // random word of the folder, should it be made now
  std::string settings;  // the run's configuration as text; empty: whatever the folder has
  DeltaLogOptions log;
  // The catalog of a folder: MakeFileCatalog.
  std::function<std::unique_ptr<CatalogBackend>(const std::string& folder)> make_catalog;
};

// Everything durable of one shard, in one folder, which belongs to one process at a time:
//
//   lock            held for as long as the store is open
//   shard.catalog   the catalog
//   log/            the delta log
//   snap/           snapshots
//
// After a restart E and the open rounds are those of the latest state snapshots, and of the log's
// records from their replay_from on; a snapshot whose replay_from is below the log's first record
// is too old to be used. Knows no socket, thread, clock or gRPC; not for many threads at once.
class ShardStore {
 public:
  // Unavailable: another process has the folder. FailedPrecondition: it is another run's, shard's
  // or layout's. DataLoss: a file is damaged where it must not be; names it. `files` outlives the
  // store.
  static absl::StatusOr<std::unique_ptr<ShardStore>> Open(FileSystem* files,
                                                          const std::string& folder,
                                                          const ShardStoreOptions& options);

  Catalog& catalog() { return *catalog_; }
  DeltaLog& log() { return *log_; }
  SnapshotStore& snapshots() { return *snapshots_; }

  // How often the folder has been opened, this time included.
  uint64_t incarnation() const { return catalog_->contents().incarnation; }

 private:
  ShardStore() = default;

  std::unique_ptr<FileLock> lock_;  // let go last
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<DeltaLog> log_;
  std::unique_ptr<SnapshotStore> snapshots_;
};

struct FolderOwner {
  // Of which the folder has a log with at least one record; 0: there is none, and whoever opens it
  // begins a new one.
  uint64_t run = 0;
  uint64_t folder = 0;  // its random word; 0: it was not made yet
};
// Unavailable: another process has the folder. `catalog`: of the folder.
absl::StatusOr<FolderOwner> OwnerOfFolder(FileSystem& files, const std::string& folder,
                                          CatalogBackend& catalog);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_SHARD_STORE_H_

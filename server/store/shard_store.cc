#include "server/store/shard_store.h"

#include "common/base/status_macros.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<ShardStore>> ShardStore::Open(FileSystem* files,
                                                             const std::string& folder,
                                                             const ShardStoreOptions& options) {
  std::unique_ptr<ShardStore> store(new ShardStore);
  LONGWAVE_RETURN_IF_ERROR(files->CreateFolder(folder));
  LONGWAVE_ASSIGN_OR_RETURN(store->lock_, files->Lock(JoinPath(folder, "lock")));
  LONGWAVE_ASSIGN_OR_RETURN(store->catalog_, Catalog::Open(folder, options.make_catalog(folder),
                                                           options.identity, options.settings));
  LONGWAVE_ASSIGN_OR_RETURN(
      store->log_, DeltaLog::Open(files, JoinPath(folder, "log"), options.identity, options.log,
                                  store->catalog_.get()));
  LONGWAVE_ASSIGN_OR_RETURN(store->snapshots_,
                            SnapshotStore::Open(files, JoinPath(folder, "snap"), options.identity,
                                                store->catalog_.get()));
  return store;
}

}  // namespace longwave

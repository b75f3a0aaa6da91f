#ifndef LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_
#define LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_store.h"
#include "server/store/store_identity.h"

namespace longwave {

// Headers of all snapshot files in a shard's folder, by kind, range and round; empty if the folder
// is missing. No file is set aside. Errors: ReadSnapshotHeader's.
absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_

#ifndef LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_
#define LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/buffer.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_format.h"
#include "server/store/store_identity.h"

namespace longwave {

// Reads the snapshots in a shard's folder without setting any file aside.

// Headers of all snapshot files, by kind, range and round; empty if the folder is missing.
// DataLoss: a header is unreadable. FailedPrecondition: a header is another run's, shard's or
// layout's.
absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity);

// The verified content of a snapshot. DataLoss: the content does not match its hashes.
absl::StatusOr<Buffer> ReadSnapshot(FileSystem& files, const std::string& folder,
                                    const SnapshotHeader& header);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_

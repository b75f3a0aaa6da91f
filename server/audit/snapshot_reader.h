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

// A shard's snapshots as they lie in their folder, read by somebody else: nothing is set aside.

// Headers of all snapshot files, by kind, range and round; none if there is no such folder.
// DataLoss: one cannot be read. FailedPrecondition: it is another run's, shard's or layout's.
absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity);

// The content of one of them, verified. DataLoss: it does not hold its hashes.
absl::StatusOr<Buffer> ReadSnapshot(FileSystem& files, const std::string& folder,
                                    const SnapshotHeader& header);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_AUDIT_SNAPSHOT_READER_H_

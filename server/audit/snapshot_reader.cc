#include "server/audit/snapshot_reader.h"

namespace longwave {

absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity) {
  std::vector<SnapshotHeader> headers;
  const auto names = files.List(folder);
  if (absl::IsNotFound(names.status())) return headers;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!IsSnapshotName(name)) continue;
    const auto header = ReadSnapshotHeader(files, folder, name, identity);
    if (absl::IsNotFound(header.status())) continue;  // a newer one has just replaced it
    if (!header.ok()) return header.status();
    headers.push_back(*header);
  }
  return headers;
}

}  // namespace longwave

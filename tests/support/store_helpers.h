#ifndef LONGWAVE_TESTS_SUPPORT_STORE_HELPERS_H_
#define LONGWAVE_TESTS_SUPPORT_STORE_HELPERS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/store/file_system.h"
#include "server/store/snapshot_store.h"

namespace longwave {

// Leaves the first bytes of a file.
inline absl::Status CutFile(FileSystem& files, const std::string& path, uint64_t bytes) {
  const auto whole = ReadWhole(files, path, uint64_t{1} << 30);
  if (!whole.ok()) return whole.status();
  return files.Settle(path, whole->bytes().first(bytes));
}

inline absl::Status AppendBytes(WritableFile& file, std::span<const std::byte> bytes) {
  const std::array<std::span<const std::byte>, 1> pieces = {bytes};
  return file.Append(pieces);
}

// No kept snapshot of `kind` needs log records before this number; nothing if there are none.
inline std::optional<uint64_t> ReplayFromMin(const SnapshotStore& snapshots, SnapshotKind kind) {
  std::optional<uint64_t> least;
  for (const SnapshotHeader& header : snapshots.All()) {
    if (header.key.kind != kind) continue;
    least = std::min(least.value_or(header.replay_from), header.replay_from);
  }
  return least;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_STORE_HELPERS_H_

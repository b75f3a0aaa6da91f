#include "server/audit/snapshot_reader.h"

#include <array>

#include "absl/strings/match.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/snapshot_store.h"

namespace longwave {
namespace {

constexpr absl::string_view kSuffix = ".lwsnap";

}  // namespace

absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity) {
  std::vector<SnapshotHeader> headers;
  const auto names = files.List(folder);
  if (absl::IsNotFound(names.status())) return headers;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    const std::string path = JoinPath(folder, name);
    const auto file = files.OpenToRead(path);
    if (absl::IsNotFound(file.status())) continue;  // a newer one has just replaced it
    if (!file.ok()) return file.status();
    std::array<std::byte, kSnapshotHeaderBytes> head;
    if (const absl::Status read = (*file)->ReadAt(0, head); !read.ok()) return Prefixed(path, read);
    const auto header = DecodeSnapshotHeader(head);
    if (!header.ok()) return Prefixed(path, header.status());
    LONGWAVE_RETURN_IF_ERROR(CheckIdentity(path, header->identity, identity));
    if (SnapshotName(header->key) != name) {
      return DataLoss(path, ": is named so, but is ", SnapshotName(header->key));
    }
    headers.push_back(*header);
  }
  return headers;
}

absl::StatusOr<Buffer> ReadSnapshot(FileSystem& files, const std::string& folder,
                                    const SnapshotHeader& header) {
  const std::string path = JoinPath(folder, SnapshotName(header.key));
  LONGWAVE_ASSIGN_OR_RETURN(
      const Buffer whole, ReadWhole(files, path, kSnapshotHeaderBytes + kSnapshotContentBytesMax));
  if (whole.size() < kSnapshotHeaderBytes) {
    return DataLoss(path, ": got ", whole.size(), " bytes, no header");
  }
  const auto again = DecodeSnapshotHeader(whole.bytes().first(kSnapshotHeaderBytes));
  if (!again.ok()) return Prefixed(path, again.status());
  if (*again != header) return DataLoss(path, ": has changed meanwhile");
  const auto stored = whole.bytes().subspan(kSnapshotHeaderBytes);
  // The copy aligns the content, since a model's numbers are read in place.
  const auto content =
      UnpackSnapshotContent(header, Buffer(std::vector<std::byte>(stored.begin(), stored.end())));
  if (!content.ok()) return Prefixed(path, content.status());
  return *content;
}

}  // namespace longwave

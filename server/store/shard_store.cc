#include "server/store/shard_store.h"

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/log_file.h"
#include "server/store/log_format.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<ShardStore>> ShardStore::Open(FileSystem* files,
                                                             const std::string& folder,
                                                             const ShardStoreOptions& options) {
  std::unique_ptr<ShardStore> store(new ShardStore);
  LONGWAVE_RETURN_IF_ERROR(files->CreateFolder(folder));
  LONGWAVE_ASSIGN_OR_RETURN(store->lock_, files->Lock(JoinPath(folder, "lock")));
  LONGWAVE_ASSIGN_OR_RETURN(store->catalog_, Catalog::Open(files, folder, options.identity,
                                                           options.settings, options.folder));
  LONGWAVE_ASSIGN_OR_RETURN(
      store->log_, DeltaLog::Open(files, JoinPath(folder, "log"), options.identity, options.log,
                                  store->catalog_.get()));
  LONGWAVE_ASSIGN_OR_RETURN(store->snapshots_,
                            SnapshotStore::Open(files, JoinPath(folder, "snap"), options.identity,
                                                store->catalog_.get()));
  return store;
}

namespace {

// A file with more bytes has a record for certain, so larger files need not be read.
constexpr uint64_t kSurelyRecords = 2 * uint64_t{kLogBodyBytesMax};

absl::StatusOr<bool> HasRecord(FileSystem& files, const std::string& path) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  if (bytes <= kLogFileHeaderBytes) return false;
  if (bytes > kSurelyRecords) return true;
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer whole, ReadWhole(files, path, kSurelyRecords));
  const auto header = DecodeLogFileHeader(whole.bytes().first(kLogFileHeaderBytes));
  // Other faults of the file are reported when the log is opened.
  return !header.ok() || ViewLogRecord(whole.bytes(), kLogFileHeaderBytes, header->salt).ok();
}

}  // namespace

absl::Status WithWayOut(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  return DataLoss(status.message(), ". ", kShardWayOut);
}

absl::StatusOr<FolderOwner> OwnerOfFolder(FileSystem& files, const std::string& folder) {
  LONGWAVE_RETURN_IF_ERROR(files.CreateFolder(folder));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock,
                            files.Lock(JoinPath(folder, "lock")));
  const absl::StatusOr<std::optional<CatalogContents>> loaded = LoadCatalog(files, folder);
  LONGWAVE_RETURN_IF_ERROR(WithWayOut(loaded.status()));
  const std::optional<CatalogContents>& contents = *loaded;
  if (!contents.has_value()) return FolderOwner{};
  const FolderOwner begins_anew = {.run = 0, .folder = contents->folder};
  if (contents->log_files.empty()) return begins_anew;
  // Only the first file of a log can stay without a record.
  if (contents->log_files.size() == 1 && contents->log_files.front().number == 1) {
    const std::string path = JoinPath(JoinPath(folder, "log"), LogFileName(1));
    const absl::StatusOr<bool> begun =
        ReadUntilSure([&] { return HasRecord(files, path); },
                      [&](bool has) { return has ? "" : path + ": has no record"; });
    if (!begun.ok() && !absl::IsNotFound(begun.status())) return begun.status();
    if (begun.ok() && !*begun) return begins_anew;
  }
  return FolderOwner{.run = contents->identity.run, .folder = contents->folder};
}

}  // namespace longwave

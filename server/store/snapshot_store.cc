#include "server/store/snapshot_store.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

constexpr absl::string_view kSuffix = ".lwsnap";
constexpr size_t kVerifyChunkBytes = 1 << 20;

bool SameRange(const SnapshotKey& a, const SnapshotKey& b) {
  return a.kind == b.kind && a.first_segment == b.first_segment &&
         a.segment_count == b.segment_count;
}

// Whether the file is damaged and to be set aside, in contrast to unreadable and foreign files.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
}

bool IsSnapshotName(absl::string_view name) { return absl::EndsWith(name, kSuffix); }

// The header of the folder's snapshot `name`. Errors: as ListSnapshots.
absl::StatusOr<SnapshotHeader> ReadSnapshotHeader(FileSystem& files, const std::string& folder,
                                                  const std::string& name,
                                                  const StoreIdentity& identity) {
  const std::string path = JoinPath(folder, name);
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  std::array<std::byte, kSnapshotHeaderBytes> head;
  LONGWAVE_RETURN_IF_ERROR(file->ReadAt(0, head));
  const auto header = DecodeSnapshotHeader(head);
  if (!header.ok()) return Prefixed(path, header.status());
  LONGWAVE_RETURN_IF_ERROR(CheckIdentity(path, header->identity, identity));
  if (SnapshotName(header->key) != name) {
    return DataLoss(path, ": is named so, but is ", SnapshotName(header->key));
  }
  return *header;
}

}  // namespace

std::string SnapshotName(const SnapshotKey& key) {
  return absl::StrFormat("%s-%08d-%08d-r%08d%s", Name(key.kind), key.first_segment,
                         key.segment_count, key.round, kSuffix);
}

absl::StatusOr<std::vector<SnapshotHeader>> ListSnapshots(FileSystem& files,
                                                          const std::string& folder,
                                                          const StoreIdentity& identity) {
  std::vector<SnapshotHeader> headers;
  const auto names = files.List(folder);
  if (absl::IsNotFound(names.status())) return headers;
  LONGWAVE_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!IsSnapshotName(name)) continue;
    const auto header = ReadSnapshotHeader(files, folder, name, identity);
    if (absl::IsNotFound(header.status())) continue;  // a newer one has just replaced it
    LONGWAVE_RETURN_IF_ERROR(header.status());
    headers.push_back(*header);
  }
  return headers;
}

absl::StatusOr<Buffer> ReadSnapshot(FileSystem& files, const std::string& folder,
                                    const SnapshotHeader& header) {
  const std::string path = JoinPath(folder, SnapshotName(header.key));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(path));
  std::vector<std::byte> stored(header.stored_bytes);
  LONGWAVE_RETURN_IF_ERROR(file->ReadAt(kSnapshotHeaderBytes, stored));
  auto content = UnpackSnapshotContent(header, Buffer(std::move(stored)));
  if (!content.ok()) return Prefixed(path, content.status());
  return content;
}

absl::StatusOr<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(FileSystem* files,
                                                                   std::string folder,
                                                                   const StoreIdentity& identity,
                                                                   Catalog* catalog) {
  std::unique_ptr<SnapshotStore> store(
      new SnapshotStore(files, std::move(folder), identity, catalog));
  LONGWAVE_RETURN_IF_ERROR(store->Recover());
  return store;
}

absl::Status SnapshotStore::Recover() {
  LONGWAVE_RETURN_IF_ERROR(files_->CreateFolder(folder_));
  LONGWAVE_RETURN_IF_ERROR(RemoveTemporaries(*files_, folder_));
  // File names that an earlier process did not sync must not vanish after this process relies on
  // them.
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(folder_));
  for (const std::string& name : names) {
    if (!IsSnapshotName(name)) continue;
    const auto header = ReadUntilSure([&] { return Verify(name); });
    if (header.ok()) {
      by_name_[name] = *header;
    } else if (IsDamage(header.status())) {
      LONGWAVE_RETURN_IF_ERROR(SetAside(name, header.status().message()));
    } else {
      return header.status();
    }
  }
  for (const std::string& name : catalog_->contents().snapshots) {
    if (!std::ranges::binary_search(names, name)) {
      damaged_.push_back({name, absl::StrCat(JoinPath(folder_, name), ": is gone")});
    }
  }
  // A process finished the file just before it ended if the catalog does not list it.
  return SaveNames();
}

absl::Status SnapshotStore::SetAside(const std::string& name, absl::string_view reason) {
  damaged_.push_back({name, std::string(reason)});
  by_name_.erase(name);
  LONGWAVE_RETURN_IF_ERROR(
      files_->Rename(JoinPath(folder_, name), JoinPath(folder_, name + ".damaged")));
  return files_->SyncFolder(folder_);
}

absl::StatusOr<SnapshotHeader> SnapshotStore::Verify(const std::string& name) const {
  const std::string path = JoinPath(folder_, name);
  LONGWAVE_ASSIGN_OR_RETURN(const SnapshotHeader header,
                            ReadSnapshotHeader(*files_, folder_, name, identity_));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_->OpenToRead(path));
  LONGWAVE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != kSnapshotHeaderBytes + header.stored_bytes) {
    return DataLoss(path, ": got ", size, " bytes, its header says ",
                    kSnapshotHeaderBytes + header.stored_bytes);
  }
  ContentHash hash;
  std::vector<std::byte> chunk(std::min<uint64_t>(kVerifyChunkBytes, header.stored_bytes));
  for (uint64_t at = kSnapshotHeaderBytes; at < size; at += chunk.size()) {
    const auto part = std::span(chunk).first(std::min<uint64_t>(chunk.size(), size - at));
    LONGWAVE_RETURN_IF_ERROR(file->ReadAt(at, part));
    hash.Add(part);
  }
  if (hash.Digest() != header.stored_hash) {
    return DataLoss(
        absl::StrFormat("%s: content: hash: its header says %016x, its bytes give %016x", path,
                        header.stored_hash, hash.Digest()));
  }
  return header;
}

absl::Status SnapshotStore::SaveNames() {
  std::vector<std::string> names;
  for (const auto& [name, header] : by_name_) names.push_back(name);
  return catalog_->SetSnapshots(std::move(names));
}

absl::Status SnapshotStore::Write(const SnapshotKey& key, uint64_t replay_from, Buffer content,
                                  Compression compression) {
  const std::string name = SnapshotName(key);
  for (const auto& [other, header] : by_name_) {
    if (SameRange(header.key, key) && header.key.round >= key.round) {
      return AlreadyExists(JoinPath(folder_, other), ": is there already, wanted to write ", name);
    }
  }
  if (key.segment_count == 0 ||
      key.segment_count > std::numeric_limits<uint32_t>::max() - key.first_segment) {
    return InvalidArgument("snapshot: segments: got ", key.segment_count, " from ",
                           key.first_segment);
  }
  SnapshotHeader header;
  header.identity = identity_;
  header.key = key;
  header.replay_from = replay_from;
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer stored,
                            PackSnapshotContent(std::move(content), compression, header));
  const auto head = EncodeSnapshotHeader(header);
  const std::array<std::span<const std::byte>, 2> pieces = {head, stored.bytes()};
  LONGWAVE_RETURN_IF_ERROR(Publish(*files_, folder_, name, pieces));

  // The catalog adds the new file and drops the older ones in one step. The files are removed
  // afterwards, so that after a crash in between there are leftovers, not losses.
  const std::vector<std::string> older = OlderThan(key);
  const std::map<std::string, SnapshotHeader> before = by_name_;
  by_name_[name] = header;
  for (const std::string& each : older) by_name_.erase(each);
  if (absl::Status status = SaveNames(); !status.ok()) {
    by_name_ = before;
    files_->Remove(JoinPath(folder_, name)).IgnoreError();  // the first error is returned
    return status;
  }
  if (older.empty()) return absl::OkStatus();
  for (const std::string& each : older) {
    LONGWAVE_RETURN_IF_ERROR(files_->Remove(JoinPath(folder_, each)));
  }
  return files_->SyncFolder(folder_);
}

std::vector<std::string> SnapshotStore::OlderThan(const SnapshotKey& key) const {
  std::vector<std::string> older;
  for (const auto& [name, header] : by_name_) {
    if (SameRange(header.key, key)) older.push_back(name);
  }
  std::ranges::sort(older, {},
                    [&](const std::string& name) { return by_name_.at(name).key.round; });
  // The new snapshot takes one place.
  older.resize(older.size() - std::min(older.size(), kSnapshotsKept - 1));
  return older;
}

std::optional<SnapshotHeader> SnapshotStore::Latest(SnapshotKind kind, uint32_t segment) const {
  std::optional<SnapshotHeader> latest;
  for (const auto& [name, header] : by_name_) {
    const SnapshotKey& key = header.key;
    if (key.kind != kind || segment < key.first_segment ||
        segment - key.first_segment >= key.segment_count) {
      continue;
    }
    if (!latest.has_value() || key.round > latest->key.round) latest = header;
  }
  return latest;
}

std::vector<SnapshotHeader> SnapshotStore::All() const {
  std::vector<SnapshotHeader> all;
  for (const auto& [name, header] : by_name_) all.push_back(header);
  return all;
}

uint64_t SnapshotStore::file_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, header] : by_name_) bytes += kSnapshotHeaderBytes + header.stored_bytes;
  return bytes;
}

absl::StatusOr<Buffer> SnapshotStore::Read(const SnapshotKey& key) {
  const std::string name = SnapshotName(key);
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) {
    return NotFound(JoinPath(folder_, name), ": there is no such snapshot");
  }
  absl::StatusOr<Buffer> content =
      ReadUntilSure([&] { return ReadSnapshot(*files_, folder_, known->second); });
  if (IsDamage(content.status())) {
    LONGWAVE_RETURN_IF_ERROR(SetAside(name, content.status().message()));
    LONGWAVE_RETURN_IF_ERROR(SaveNames());
  }
  return content;
}

}  // namespace longwave

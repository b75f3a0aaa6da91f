#include "server/store/coordinator_store.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"
#include "common/wire/crc32c.h"
#include "server/store/coordinator_format.h"
#include "server/store/log_format.h"

namespace longwave {
namespace {

constexpr absl::string_view kRecordName = "coordinator.lwlog";
// A coordinator's files belong to no shard.
constexpr StoreIdentity kIdentity = {.run = 0, .shard = 0xffffffff, .layout_hash = 0};
constexpr uint64_t kFileBytesMax = uint64_t{1} << 33;
constexpr absl::string_view kWayOut =
    ". Put the newest folder back: without it no coordinator knows the run, whose model `longwave "
    "replay` makes from the shards' folders";

// A record around a body: head, body and zero padding.
class SealedRecord {
 public:
  SealedRecord(std::span<const std::byte> body, uint64_t sequence, uint32_t salt)
      : head_(EncodeLogRecordHead({.kind = LogKind::kDecisions,
                                   .sequence = sequence,
                                   .unsynced_before = 0,
                                   .body_bytes = static_cast<uint32_t>(body.size()),
                                   .body_crc = Crc32c(body)},
                                  salt)),
        pieces_{head_, body, PaddingOf(body.size())} {}
  SealedRecord(const SealedRecord&) = delete;
  SealedRecord& operator=(const SealedRecord&) = delete;

  const std::array<std::span<const std::byte>, 3>& pieces() const { return pieces_; }
  uint64_t bytes() const { return head_.size() + pieces_[1].size() + pieces_[2].size(); }

 private:
  const std::array<std::byte, kLogRecordHeadBytes> head_;
  const std::array<std::span<const std::byte>, 3> pieces_;
};

}  // namespace

absl::StatusOr<CoordinatorFile> ReadCoordinatorFile(std::span<const std::byte> bytes) {
  LONGWAVE_ASSIGN_OR_RETURN(
      const LogFileHeader header,
      DecodeLogFileHeader(bytes.first(std::min(bytes.size(), kLogFileHeaderBytes))));
  if (header.identity != kIdentity || header.file != 1 || header.first_sequence != 1) {
    return FailedPrecondition("got file ", header.file, " of shard ", header.identity.shard,
                              "'s log, wanted a coordinator's record");
  }
  CoordinatorFile file;
  file.salt = header.salt;
  const auto lost = [](uint64_t offset, absl::string_view why) {
    return DataLoss("offset ", offset, ": ", why);
  };
  LONGWAVE_ASSIGN_OR_RETURN(
      const LogScan scan,
      ScanLogFile(bytes, header, [&](const LogRecordView& view, uint64_t offset) -> absl::Status {
        if (view.head.kind != LogKind::kDecisions) {
          return lost(offset, absl::StrCat("got a ", std::string(Name(view.head.kind)),
                                           " record, wanted decisions"));
        }
        const auto changes = DecodeCoordinatorChanges(view.body);
        if (!changes.ok()) return Prefixed(absl::StrCat("offset ", offset), changes.status());
        Apply(*changes, &file.record);
        if (view.head.sequence == 1) file.whole_bytes = view.end;
        return absl::OkStatus();
      }));
  file.end = scan.end;
  file.next_sequence = scan.next_sequence;
  if (file.next_sequence == 1) {  // the file was published with its first record
    return lost(scan.end, scan.fault.empty() ? "got the end, wanted a record" : scan.fault);
  }
  if (scan.fault_was_durable) {
    return lost(scan.end, absl::StrCat(scan.fault, "; record ", scan.next_sequence,
                                       " had been synced, as a later record says"));
  }
  file.cut = scan.fault;
  return file;
}

absl::StatusOr<CoordinatorFile> ReadCoordinatorFolder(FileSystem& files,
                                                      const std::string& folder) {
  const std::string path = JoinPath(folder, kRecordName);
  LONGWAVE_ASSIGN_OR_RETURN(const Buffer bytes, ReadWhole(files, path, kFileBytesMax));
  absl::StatusOr<CoordinatorFile> file = ReadCoordinatorFile(bytes.bytes());
  if (!file.ok()) return Prefixed(path, file.status());
  return file;
}

CoordinatorStore::CoordinatorStore(FileSystem* files, std::string folder,
                                   const CoordinatorStoreOptions& options)
    : files_(files),
      folder_(std::move(folder)),
      path_(JoinPath(folder_, kRecordName)),
      options_(options) {}

absl::StatusOr<std::unique_ptr<CoordinatorStore>> CoordinatorStore::Open(
    FileSystem* files, const std::string& folder, const CoordinatorStoreOptions& options) {
  std::unique_ptr<CoordinatorStore> store(new CoordinatorStore(files, folder, options));
  LONGWAVE_RETURN_IF_ERROR(files->CreateFolder(folder));
  LONGWAVE_ASSIGN_OR_RETURN(store->lock_, files->Lock(JoinPath(folder, "lock")));
  LONGWAVE_RETURN_IF_ERROR(RefuseOlderState(*files, folder, "coordinator.db"));
  LONGWAVE_RETURN_IF_ERROR(store->Recover());
  return store;
}

absl::Status CoordinatorStore::Recover() {
  LONGWAVE_RETURN_IF_ERROR(RemoveTemporaries(*files_, folder_));
  Buffer bytes;
  absl::StatusOr<CoordinatorFile> file = ReadUntilSure(
      [&]() -> absl::StatusOr<CoordinatorFile> {
        LONGWAVE_ASSIGN_OR_RETURN(bytes, ReadWhole(*files_, path_, kFileBytesMax));
        absl::StatusOr<CoordinatorFile> decoded = ReadCoordinatorFile(bytes.bytes());
        if (absl::IsDataLoss(decoded.status())) {
          return DataLoss(path_, ": ", decoded.status().message(), kWayOut);
        }
        return decoded.ok() ? std::move(decoded) : Prefixed(path_, decoded.status());
      },
      [&](const CoordinatorFile& decoded) {
        if (decoded.cut.empty()) return std::string();
        return absl::StrCat(path_, ", offset ", decoded.end, ": ", decoded.cut);
      });
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(file.status());
  if (!file->cut.empty()) {
    cut_ = absl::StrCat(path_, ", offset ", file->end, ": cut ", bytes.size() - file->end,
                        " bytes that were never synced: ", file->cut);
  }
  // The last process may have ended before it synced its last write or the file's name.
  LONGWAVE_RETURN_IF_ERROR(files_->Settle(path_, bytes.bytes().first(file->end)));
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  LONGWAVE_ASSIGN_OR_RETURN(writer_, files_->OpenToAppend(path_));
  salt_ = file->salt;
  next_sequence_ = file->next_sequence;
  whole_bytes_ = file->whole_bytes;
  appended_bytes_ = file->end - file->whole_bytes;
  record_ = std::move(file->record);
  return absl::OkStatus();
}

std::optional<CoordinatorWrite> CoordinatorStore::Take(Coordinator& core, absl::Time now) const {
  std::optional<CoordinatorChanges> changes = core.Unsaved(now);
  if (!changes && !failed_) return std::nullopt;
  const bool is_whole =
      writer_ == nullptr || appended_bytes_ > std::max(whole_bytes_, options_.appended_bytes_min);
  if (is_whole) changes = ChangesFromNothing(core.Export(now));
  core.Saved();
  return CoordinatorWrite{is_whole, *std::move(changes)};
}

absl::Status CoordinatorStore::Write(const CoordinatorWrite& write) {
  const std::vector<std::byte> body = Encode(write.changes);
  absl::Status status;
  if (constexpr uint64_t most = std::numeric_limits<uint32_t>::max(); body.size() > most) {
    status =
        ResourceExhausted(path_, ": the record has ", body.size(), " bytes, wanted at most ", most);
  } else {
    status = write.is_whole ? Replace(body) : Append(body);
  }
  failed_ = !status.ok();
  if (failed_) writer_.reset();
  return status;
}

absl::Status CoordinatorStore::Replace(std::span<const std::byte> body) {
  const auto header = EncodeLogFileHeader(
      {.identity = kIdentity, .file = 1, .first_sequence = 1, .salt = options_.salt});
  const SealedRecord record(body, 1, options_.salt);
  const auto& [head, content, zeros] = record.pieces();
  const std::array<std::span<const std::byte>, 4> pieces = {header, head, content, zeros};
  writer_.reset();
  LONGWAVE_RETURN_IF_ERROR(Publish(*files_, folder_, kRecordName, pieces));
  LONGWAVE_ASSIGN_OR_RETURN(writer_, files_->OpenToAppend(path_));
  salt_ = options_.salt;
  next_sequence_ = 2;
  whole_bytes_ = header.size() + record.bytes();
  appended_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status CoordinatorStore::Append(std::span<const std::byte> body) {
  const SealedRecord record(body, next_sequence_, salt_);
  LONGWAVE_RETURN_IF_ERROR(writer_->Append(record.pieces()));
  LONGWAVE_RETURN_IF_ERROR(writer_->Sync());
  ++next_sequence_;
  appended_bytes_ += record.bytes();
  return absl::OkStatus();
}

}  // namespace longwave

#include "server/store/delta_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"
#include "server/store/log_file.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<DeltaLog>> DeltaLog::Open(FileSystem* files, std::string folder,
                                                         const StoreIdentity& identity,
                                                         const DeltaLogOptions& options,
                                                         Catalog* catalog) {
  if (options.file_bytes_max < kLogFileBytesMin || options.file_bytes_max > kLogFileBytesMax) {
    return InvalidArgument("bytes of a log file: got ", options.file_bytes_max, ", wanted ",
                           kLogFileBytesMin, " to ", kLogFileBytesMax);
  }
  std::unique_ptr<DeltaLog> log(new DeltaLog(files, std::move(folder), identity, options, catalog));
  LONGWAVE_RETURN_IF_ERROR(log->Recover());
  return log;
}

uint64_t DeltaLog::Pending::bytes() const { return kLogRecordHeadBytes + AlignedUp(body.bytes); }

std::string DeltaLog::PathOf(uint32_t number) const {
  return JoinPath(folder_, LogFileName(number));
}

uint64_t DeltaLog::file_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [number, file] : by_number_) bytes += file.bytes;
  return bytes;
}

std::optional<DeltaLog::MergedName> DeltaLog::MergedNameOf(const LogRecord& record) {
  const auto* merged = std::get_if<MergedRecord>(&record);
  if (merged == nullptr) return std::nullopt;
  return MergedName{merged->header.segment, merged->header.round, merged->header.payload_bytes};
}

void DeltaLog::Index(const MergedName& name, const Place& place) {
  Place& indexed = merged_[name.segment][name.round];
  indexed = place;
  indexed.payload_bytes = name.payload_bytes;
}

absl::StatusOr<uint64_t> DeltaLog::Append(const LogRecord& record) {
  LONGWAVE_RETURN_IF_ERROR(failure_);
  LONGWAVE_ASSIGN_OR_RETURN(LogBody body, EncodeLogBody(record));
  Pending pending;
  pending.head.kind = KindOf(record);
  pending.head.sequence = next_sequence_;
  pending.head.body_bytes = body.bytes;
  pending.head.body_crc = body.crc;
  pending.body = std::move(body);
  pending.merged = MergedNameOf(record);
  pending_.push_back(std::move(pending));
  return next_sequence_++;
}

absl::Status DeltaLog::Sync() {
  LONGWAVE_RETURN_IF_ERROR(failure_);
  if (absl::Status status = WritePending(); !status.ok()) {
    failure_ = absl::Status(
        status.code(),
        absl::StrCat("the log takes nothing more until it is opened again: ", status.message()));
  }
  pending_.clear();
  return failure_;
}

absl::Status DeltaLog::WritePending() {
  for (size_t begin = 0; begin < pending_.size();) {
    const File* file = &by_number_.rbegin()->second;
    uint64_t bytes = file->bytes;
    if (bytes > kLogFileHeaderBytes && bytes + pending_[begin].bytes() > options_.file_bytes_max) {
      // All earlier records are durable, so the file that ends here is never written again.
      LONGWAVE_RETURN_IF_ERROR(StartFile(by_number_.rbegin()->first + 1));
      file = &by_number_.rbegin()->second;
      bytes = file->bytes;
    }
    size_t end = begin;
    do {
      bytes += pending_[end++].bytes();
    } while (end < pending_.size() && bytes + pending_[end].bytes() <= options_.file_bytes_max);
    LONGWAVE_RETURN_IF_ERROR(WriteGroup(std::span(pending_).subspan(begin, end - begin)));
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status DeltaLog::WriteGroup(std::span<Pending> group) {
  auto& [number, file] = *by_number_.rbegin();
  std::vector<std::array<std::byte, kLogRecordHeadBytes>> heads;
  heads.reserve(group.size());  // the pieces point into it
  std::vector<std::span<const std::byte>> pieces;
  for (Pending& pending : group) {
    pending.head.unsynced_before = static_cast<uint32_t>(pending.head.sequence - durable_sequence_);
    heads.push_back(EncodeLogRecordHead(pending.head, file.header.salt));
    pieces.emplace_back(heads.back());
    pieces.emplace_back(pending.body.front);
    pieces.push_back(pending.body.payload.bytes());
    pieces.push_back(PaddingOf(pending.body.bytes));
  }
  LONGWAVE_RETURN_IF_ERROR(writer_->Append(pieces));
  LONGWAVE_RETURN_IF_ERROR(writer_->Sync());
  for (const Pending& pending : group) {
    Place place;
    place.file = number;
    place.record_bytes = static_cast<uint32_t>(pending.bytes());
    place.offset = file.bytes;
    place.sequence = pending.head.sequence;
    if (pending.merged.has_value()) Index(*pending.merged, place);
    file.bytes += pending.bytes();
  }
  durable_sequence_ = group.back().head.sequence + 1;
  return absl::OkStatus();
}

absl::Status DeltaLog::StartFile(uint32_t number) {
  File file;
  file.header = {identity_, number, durable_sequence_, options_.salt};
  file.bytes = kLogFileHeaderBytes;
  const auto header = EncodeLogFileHeader(file.header);
  const std::array<std::span<const std::byte>, 1> pieces = {header};
  LONGWAVE_RETURN_IF_ERROR(Publish(*files_, folder_, LogFileName(number), pieces));
  // The catalog lists a file before its first record, so a file that it does not list is empty.
  LONGWAVE_RETURN_IF_ERROR(catalog_->AddLogFile({number, file.header.first_sequence}));
  LONGWAVE_ASSIGN_OR_RETURN(writer_, files_->OpenToAppend(PathOf(number)));
  by_number_[number] = std::move(file);
  return absl::OkStatus();
}

bool DeltaLog::CanDrop(uint64_t sequence) const {
  const auto second = std::next(by_number_.begin());
  return second != by_number_.end() && second->second.header.first_sequence <= sequence;
}

absl::Status DeltaLog::Drop(uint64_t sequence) {
  uint32_t first_kept = by_number_.begin()->first;
  for (const auto& [number, file] : by_number_) {
    if (file.header.first_sequence <= sequence) first_kept = number;
  }
  if (first_kept == by_number_.begin()->first) return absl::OkStatus();
  // The catalog drops the files first, so that after a crash in between they are leftovers, not
  // losses.
  LONGWAVE_RETURN_IF_ERROR(catalog_->DropLogFilesBefore(first_kept));
  std::vector<std::string> paths;
  while (by_number_.begin()->first < first_kept) {
    paths.push_back(PathOf(by_number_.begin()->first));
    by_number_.erase(by_number_.begin());
  }
  for (auto& [segment, rounds] : merged_) {
    std::erase_if(rounds, [&](const auto& round) { return round.second.file < first_kept; });
  }
  std::erase_if(merged_, [](const auto& segment) { return segment.second.empty(); });
  for (const std::string& path : paths) LONGWAVE_RETURN_IF_ERROR(files_->Remove(path));
  return files_->SyncFolder(folder_);
}

absl::StatusOr<std::shared_ptr<const std::vector<std::byte>>> DeltaLog::Read(const File& file,
                                                                             uint64_t offset,
                                                                             uint64_t bytes) const {
  // Opened for each read: a shard may have thousands of files, more than descriptors.
  LONGWAVE_ASSIGN_OR_RETURN(const auto reader, files_->OpenToRead(PathOf(file.header.file)));
  auto content = std::make_shared<std::vector<std::byte>>(bytes);
  LONGWAVE_RETURN_IF_ERROR(reader->ReadAt(offset, *content));
  return content;
}

absl::Status DeltaLog::Replay(uint64_t from, Visit visit) const {
  for (auto it = by_number_.begin(); it != by_number_.end(); ++it) {
    const auto next = std::next(it);
    const File& file = it->second;
    if (next != by_number_.end() && next->second.header.first_sequence <= from) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const auto content, Read(file, 0, file.bytes));
    const auto decode = [&](const LogRecordView& view, uint64_t offset) -> absl::Status {
      if (view.head.sequence < from) return absl::OkStatus();
      const auto record = DecodeLogBody(view.head.kind, view.body, content);
      if (!record.ok()) return LostAt(PathOf(it->first), offset, record.status().message());
      return visit(view.head.sequence, *record);
    };
    LONGWAVE_ASSIGN_OR_RETURN(const LogScan scan, ScanLogFile(*content, file.header, decode));
    if (!scan.fault.empty()) return LostAt(PathOf(it->first), scan.end, scan.fault);
  }
  return absl::OkStatus();
}

absl::StatusOr<DeltaLog::Place> DeltaLog::FindMerged(uint32_t segment, uint32_t round) const {
  const auto rounds = merged_.find(segment);
  if (rounds != merged_.end()) {
    const auto place = rounds->second.find(round);
    if (place != rounds->second.end()) return place->second;
  }
  return NotFound("the log has no merged update of segment ", segment, ", round ", round);
}

absl::StatusOr<uint64_t> DeltaLog::MergedSequence(uint32_t segment, uint32_t round) const {
  LONGWAVE_ASSIGN_OR_RETURN(const Place place, FindMerged(segment, round));
  return place.sequence;
}

absl::StatusOr<MergedRecord> DeltaLog::ReadMerged(uint32_t segment, uint32_t round) const {
  LONGWAVE_ASSIGN_OR_RETURN(const Place place, FindMerged(segment, round));
  return ReadUntilSure([&] { return ReadMergedAt(place); });
}

absl::StatusOr<MergedRecord> DeltaLog::ReadMergedAt(const Place& place) const {
  const File& file = by_number_.at(place.file);
  LONGWAVE_ASSIGN_OR_RETURN(const auto content, Read(file, place.offset, place.record_bytes));
  const auto lost = [&](absl::string_view why) {
    return LostAt(PathOf(place.file), place.offset, why);
  };
  const auto view = ViewLogRecord(*content, 0, file.header.salt);
  if (!view.ok()) return lost(view.status().message());
  if (view->head.sequence != place.sequence || view->head.kind != LogKind::kMerged) {
    return lost(absl::StrCat("got record ", view->head.sequence, ", wanted merged record ",
                             place.sequence));
  }
  auto record = DecodeLogBody(view->head.kind, view->body, content);
  if (!record.ok()) return lost(record.status().message());
  return std::get<MergedRecord>(*std::move(record));
}

absl::StatusOr<uint64_t> DeltaLog::MergedPayloadBytes(uint32_t segment, uint32_t first_round,
                                                      uint32_t last_round) const {
  uint64_t bytes = 0;
  for (uint64_t round = first_round; round <= last_round; ++round) {
    LONGWAVE_ASSIGN_OR_RETURN(const Place place, FindMerged(segment, static_cast<uint32_t>(round)));
    bytes += place.payload_bytes;
  }
  return bytes;
}

}  // namespace longwave

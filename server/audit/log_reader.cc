#include "server/audit/log_reader.h"

#include <array>
#include <utility>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/log_file.h"
#include "server/store/log_format.h"

namespace longwave {

absl::StatusOr<LogReader> LogReader::Open(FileSystem* files, std::string folder) {
  LogReader log(files, std::move(folder));
  LONGWAVE_ASSIGN_OR_RETURN(log.numbers_, ListLogFiles(*files, log.folder_));
  if (log.numbers_.empty()) return NotFound(log.folder_, ": has no log file");
  LONGWAVE_RETURN_IF_ERROR(CheckNoGap(log.folder_, log.numbers_));
  const std::string first = log.PathOf(log.numbers_.front());
  LONGWAVE_ASSIGN_OR_RETURN(const auto file, files->OpenToRead(first));
  std::array<std::byte, kLogFileHeaderBytes> head;
  if (const absl::Status read = file->ReadAt(0, head); !read.ok()) return Prefixed(first, read);
  const auto header = DecodeLogFileHeader(head);
  if (!header.ok()) return Prefixed(first, header.status());
  log.identity_ = header->identity;
  log.first_sequence_ = header->first_sequence;
  return log;
}

absl::Status LogReader::Read(Visit visit) {
  tail_bytes_ = record_count_ = 0;
  uint64_t next_sequence = first_sequence_;
  for (const uint32_t number : numbers_) {
    LONGWAVE_RETURN_IF_ERROR(ReadFile(number, number == numbers_.back(), &next_sequence, visit));
  }
  return absl::OkStatus();
}

absl::Status LogReader::ReadFile(uint32_t number, bool is_last, uint64_t* next_sequence,
                                 Visit visit) {
  const std::string path = PathOf(number);
  LONGWAVE_ASSIGN_OR_RETURN(LogFile read, ReadLogFile(*files_, folder_, number, identity_));
  // Payloads are views of the file, so a payload that is kept keeps the whole file.
  const auto file = std::make_shared<const LogFile>(std::move(read));
  const std::span<const std::byte> bytes = file->bytes.bytes();
  const LogFileHeader& header = file->header;
  if (header.first_sequence != *next_sequence) {
    return LostAt(path, 0, "first sequence number: got ", header.first_sequence, ", wanted ",
                  *next_sequence);
  }
  const auto take = [&](const LogRecordView& view, uint64_t offset) -> absl::Status {
    const auto record = DecodeLogBody(view.head.kind, view.body, file);
    if (!record.ok()) return LostAt(path, offset, record.status().message());
    ++record_count_;
    return visit(view.head.sequence, *record);
  };
  LONGWAVE_ASSIGN_OR_RETURN(const LogScan scan, ScanLogFile(bytes, header, take));
  *next_sequence = scan.next_sequence;
  if (scan.fault.empty()) return absl::OkStatus();
  if (!is_last || scan.fault_was_durable) return LostAt(path, scan.end, scan.fault);
  tail_bytes_ = bytes.size() - scan.end;
  return absl::OkStatus();
}

std::string LogReader::PathOf(uint32_t number) const {
  return JoinPath(folder_, LogFileName(number));
}

}  // namespace longwave

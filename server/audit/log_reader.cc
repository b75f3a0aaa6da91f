#include "server/audit/log_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/store/delta_log.h"
#include "server/store/log_file_name.h"
#include "server/store/log_format.h"

namespace longwave {
namespace {

// Above the size of any log file: the largest that options allow, and one record.
constexpr uint64_t kReadBytesMax = kLogFileBytesMax + 2 * uint64_t{kLogBodyBytesMax};

absl::Status Lost(const std::string& path, uint64_t offset, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ", offset ", offset, ": ", why));
}

}  // namespace

absl::StatusOr<LogReader> LogReader::Open(FileSystem* files, std::string folder) {
  LogReader log(files, std::move(folder));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(log.folder_));
  for (const std::string& name : names) {
    if (const auto number = LogFileNumber(name)) log.numbers_.push_back(*number);
  }
  if (log.numbers_.empty()) {
    return absl::NotFoundError(absl::StrCat(log.folder_, ": has no log file"));
  }
  std::sort(log.numbers_.begin(), log.numbers_.end());
  for (size_t i = 1; i < log.numbers_.size(); ++i) {
    if (log.numbers_[i] == log.numbers_[i - 1] + 1) continue;
    return absl::DataLossError(absl::StrCat(log.PathOf(log.numbers_[i - 1] + 1), ": is gone; ",
                                            log.PathOf(log.numbers_[i]), " comes after it"));
  }
  const std::string first = log.PathOf(log.numbers_.front());
  LONGWAVE_ASSIGN_OR_RETURN(const auto file, files->OpenToRead(first));
  std::array<std::byte, kLogFileHeaderBytes> head;
  if (const absl::Status read = file->ReadAt(0, head); !read.ok()) return AtPath(first, read);
  const auto header = DecodeLogFileHeader(head);
  if (!header.ok()) return AtPath(first, header.status());
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
  LONGWAVE_ASSIGN_OR_RETURN(Buffer whole, ReadWhole(*files_, path, kReadBytesMax));
  // Payloads are views of the file, so a payload that is kept keeps the whole file.
  const auto file = std::make_shared<const Buffer>(std::move(whole));
  const std::span<const std::byte> bytes = file->bytes();
  const auto header =
      DecodeLogFileHeader(bytes.first(std::min<size_t>(bytes.size(), kLogFileHeaderBytes)));
  if (!header.ok()) return AtPath(path, header.status());
  LONGWAVE_RETURN_IF_ERROR(CheckIdentity(path, header->identity, identity_));
  if (header->file != number) {
    return Lost(path, 0, absl::StrCat("got the header of file ", header->file));
  }
  if (header->first_sequence != *next_sequence) {
    return Lost(path, 0,
                absl::StrCat("first sequence number: got ", header->first_sequence, ", wanted ",
                             *next_sequence));
  }
  const auto take = [&](const LogRecordView& view, uint64_t offset) -> absl::Status {
    const auto record = DecodeLogBody(view.head.kind, view.body, file);
    if (!record.ok()) return Lost(path, offset, record.status().message());
    ++record_count_;
    return visit(view.head.sequence, *record);
  };
  LONGWAVE_ASSIGN_OR_RETURN(const LogScan scan, ScanLogFile(bytes, *header, take));
  *next_sequence = scan.next_sequence;
  if (scan.fault.empty()) return absl::OkStatus();
  if (!is_last || scan.fault_was_durable) return Lost(path, scan.end, scan.fault);
  tail_bytes_ = bytes.size() - scan.end;
  return absl::OkStatus();
}

std::string LogReader::PathOf(uint32_t number) const {
  return JoinPath(folder_, LogFileName(number));
}

}  // namespace longwave

#include "worker/checkpoint/push_journal.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace longwave {
namespace {

constexpr char kJournalPrefix[] = "journal.";
// Above what rounds between two checkpoints write.
constexpr uint64_t kJournalBytesMax = uint64_t{1} << 40;

absl::StatusOr<JournalScan> Scan(FileSystem& files, const std::string& file, Buffer* bytes) {
  const auto read = [&]() -> absl::StatusOr<JournalScan> {
    LONGWAVE_ASSIGN_OR_RETURN(*bytes, ReadWhole(files, file, kJournalBytesMax));
    absl::StatusOr<JournalScan> scan = ScanJournal(*bytes);
    return scan.ok() ? std::move(scan) : Prefixed(file, scan.status());
  };
  return ReadUntilSure(read, [](const JournalScan& scan) { return scan.fault; });
}

}  // namespace

std::string JournalName(uint64_t write) {
  return absl::StrFormat("%s%016x", kJournalPrefix, write);
}

absl::StatusOr<std::vector<uint64_t>> ListJournals(FileSystem& files, const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<uint64_t> writes;
  for (const std::string& name : names) {
    uint64_t write = 0;
    if (!absl::StartsWith(name, kJournalPrefix)) continue;
    const std::string digits = name.substr(sizeof kJournalPrefix - 1);
    if (absl::SimpleHexAtoi(digits, &write) && JournalName(write) == name) writes.push_back(write);
  }
  std::ranges::sort(writes);
  return writes;
}

absl::Status RemoveJournalsBefore(FileSystem& files, const std::string& folder, uint64_t write) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint64_t> writes, ListJournals(files, folder));
  for (const uint64_t each : writes) {
    if (each < write) LONGWAVE_RETURN_IF_ERROR(files.Remove(JoinPath(folder, JournalName(each))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JournalRecord>> ReadJournals(FileSystem& files,
                                                        const std::string& folder, uint64_t write,
                                                        const JournalHeader* of) {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<uint64_t> writes, ListJournals(files, folder));
  std::erase_if(writes, [write](uint64_t each) { return each < write; });
  std::vector<JournalRecord> records;
  for (const uint64_t each : writes) {
    const std::string path = JoinPath(folder, JournalName(each));
    Buffer bytes;
    LONGWAVE_ASSIGN_OR_RETURN(JournalScan scan, Scan(files, path, &bytes));
    const bool is_last = each == writes.back();
    if (scan.fault_was_durable || (!scan.fault.empty() && !is_last)) {
      return DataLoss(path, ": ", scan.fault,
                      ", where there was one; what was sent since the checkpoint is not known");
    }
    if (scan.end == 0) continue;
    JournalHeader wanted = of == nullptr ? scan.header : *of;
    wanted.write = each;
    if (scan.header != wanted)
      return DataLoss(path, ": is of another run, worker or model than the checkpoint");
    std::ranges::move(scan.records, std::back_inserter(records));
  }
  return records;
}

absl::Status SettleJournals(FileSystem& files, const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint64_t> writes, ListJournals(files, folder));
  if (writes.empty()) return absl::OkStatus();
  const std::string path = JoinPath(folder, JournalName(writes.back()));
  Buffer bytes;
  const absl::StatusOr<JournalScan> scan = Scan(files, path, &bytes);
  if (absl::IsFailedPrecondition(scan.status())) return scan.status();
  // A damaged file stays as it is, for ReadJournals to say so.
  if (!scan.ok() || scan->fault.empty() || scan->fault_was_durable) return absl::OkStatus();
  Log(LogLevel::kInfo, path, ": ends with a record that was never whole: it is cut there");
  if (scan->end == 0) return files.Remove(path);
  return files.Settle(path, bytes.bytes().first(scan->end));
}

void PushJournal::Begin(const JournalHeader& header) {
  header_ = header;
  file_.reset();
  count_ = 0;
  failed_ = absl::OkStatus();
}

absl::Status PushJournal::Append(std::span<const JournalRecord> records) {
  LONGWAVE_RETURN_IF_ERROR(failed_);
  if (records.empty()) return absl::OkStatus();
  failed_ = Write(records);
  return failed_;
}

absl::Status PushJournal::Open() {
  LONGWAVE_ASSIGN_OR_RETURN(file_, files_->Create(JoinPath(folder_, JournalName(header_.write))));
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  const std::vector<std::byte> header = EncodeJournalHeader(header_);
  const std::array<std::span<const std::byte>, 1> pieces = {header};
  return file_->Append(pieces);
}

absl::Status PushJournal::Write(std::span<const JournalRecord> records) {
  if (file_ == nullptr) LONGWAVE_RETURN_IF_ERROR(Open());
  std::vector<EncodedRecord> encoded;
  encoded.reserve(records.size());
  std::vector<std::span<const std::byte>> pieces;
  uint32_t number = count_;
  for (const JournalRecord& record : records) {
    encoded.push_back(EncodeJournalRecord(record, number++, count_));
    pieces.insert(pieces.end(), encoded.back().pieces.begin(), encoded.back().pieces.end());
  }
  LONGWAVE_RETURN_IF_ERROR(file_->Append(pieces));
  LONGWAVE_RETURN_IF_ERROR(file_->Sync());
  count_ = number;
  return absl::OkStatus();
}

}  // namespace longwave

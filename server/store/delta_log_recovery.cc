// Opening a delta log: its files, their records, and the end of the last file.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/store/delta_log.h"
#include "server/store/log_file.h"

namespace longwave {

absl::Status DeltaLog::Recover() {
  LONGWAVE_RETURN_IF_ERROR(files_->CreateFolder(folder_));
  LONGWAVE_RETURN_IF_ERROR(RemoveTemporaries(*files_, folder_));
  // File names that an earlier process did not sync must not vanish after this process relies on
  // them.
  LONGWAVE_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers, FilesToRead());
  for (const uint32_t number : numbers) {
    LONGWAVE_RETURN_IF_ERROR(RecoverFile(number, number == numbers.back()));
  }
  durable_sequence_ = next_sequence_;
  if (by_number_.empty()) {
    LONGWAVE_RETURN_IF_ERROR(StartFile(1));
  } else {
    const uint32_t last = by_number_.rbegin()->first;
    LONGWAVE_ASSIGN_OR_RETURN(writer_, files_->OpenToAppend(PathOf(last)));
  }
  recovery_.first_sequence = by_number_.begin()->second.header.first_sequence;
  recovery_.next_sequence = next_sequence_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> DeltaLog::FilesToRead() {
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<uint32_t> there, ListLogFiles(*files_, folder_));
  const std::vector<CatalogLogFile>& known = catalog_->contents().log_files;
  if (!known.empty()) {
    for (const CatalogLogFile& file : known) {
      if (!std::ranges::binary_search(there, file.number)) {
        return DataLoss(PathOf(file.number), ": is gone; it has the records from ",
                        file.first_sequence, " on");
      }
    }
    // Left by an interrupted Drop.
    while (there.front() < known.front().number) {
      LONGWAVE_RETURN_IF_ERROR(files_->Remove(PathOf(there.front())));
      there.erase(there.begin());
    }
  }
  LONGWAVE_RETURN_IF_ERROR(CheckNoGap(folder_, there));
  return there;
}

absl::Status DeltaLog::RecoverFile(uint32_t number, bool is_last) {
  const std::string path = PathOf(number);
  const std::vector<CatalogLogFile>& known = catalog_->contents().log_files;
  const auto index = [&](const LogRecordView& view, uint64_t offset) -> absl::Status {
    // The checksum holds, so a body that cannot be decoded is no torn tail.
    const auto record = DecodeLogBody(view.head.kind, view.body, nullptr);
    if (!record.ok()) return LostAt(path, offset, record.status().message());
    Place place;
    place.file = number;
    place.record_bytes = static_cast<uint32_t>(view.end - offset);
    place.offset = offset;
    place.sequence = view.head.sequence;
    if (const auto name = MergedNameOf(*record)) Index(*name, place);
    if (const auto* told = std::get_if<MembershipRecord>(&*record)) {
      recovery_.membership = told->membership;
      recovery_.membership_sequence = view.head.sequence;
    }
    return absl::OkStatus();
  };
  LogFile read;
  LONGWAVE_ASSIGN_OR_RETURN(
      const LogScan scan,
      ReadUntilSure(
          [&]() -> absl::StatusOr<LogScan> {
            LONGWAVE_ASSIGN_OR_RETURN(read, ReadLogFile(*files_, folder_, number, identity_));
            const uint64_t first = read.header.first_sequence;
            const uint64_t wanted = !by_number_.empty() ? next_sequence_
                                    : known.empty()     ? first
                                                        : known.front().first_sequence;
            if (first != wanted || wanted == 0) {
              return LostAt(path, 0, "first sequence number: got ", first, ", wanted ", wanted);
            }
            return ScanLogFile(read.bytes.bytes(), read.header, index);
          },
          [&](const LogScan& scan) {
            if (scan.fault.empty()) return std::string();
            return absl::StrCat(path, ", offset ", scan.end, ": ", scan.fault);
          }));
  const std::span<const std::byte> bytes = read.bytes.bytes();
  const LogFileHeader& header = read.header;
  if (!scan.fault.empty()) {
    if (!is_last) return LostAt(path, scan.end, scan.fault);
    if (scan.fault_was_durable) {
      return LostAt(path, scan.end, scan.fault, "; record ", scan.next_sequence,
                    " had been synced, as a later record says");
    }
    recovery_.cut_bytes = bytes.size() - scan.end;
    recovery_.cut = absl::StrCat(path, ", offset ", scan.end, ": cut ", recovery_.cut_bytes,
                                 " bytes that were never synced: ", scan.fault);
  }
  if (is_last) {
    // Records of the last process may be in the system's memory alone, since its sync may have
    // failed or never happened. From here on these records count as durable.
    LONGWAVE_RETURN_IF_ERROR(files_->Settle(path, bytes.first(scan.end)));
  }
  // The last process created the file just before it ended, or the catalog was lost.
  if (known.empty() || known.back().number < number) {
    LONGWAVE_RETURN_IF_ERROR(catalog_->AddLogFile({number, header.first_sequence}));
  }
  File file;
  file.header = header;
  file.bytes = scan.end;
  by_number_[number] = std::move(file);
  next_sequence_ = scan.next_sequence;
  return absl::OkStatus();
}

}  // namespace longwave

#ifndef LONGWAVE_SERVER_STORE_LOG_FORMAT_H_
#define LONGWAVE_SERVER_STORE_LOG_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/log_record.h"
#include "server/store/store_identity.h"

namespace longwave {

// A log file is a header and records at multiples of 8 bytes. A record is a head, a body and zeros
// up to the next multiple of 8. proto/LOG.md is the public definition.
inline constexpr uint32_t kLogFileMagic = 0x314c574c;    // "LWL1" read as bytes
inline constexpr uint32_t kLogRecordMagic = 0x3152574c;  // "LWR1"
inline constexpr uint16_t kLogVersion = 1;
inline constexpr size_t kLogFileHeaderBytes = 64;
inline constexpr size_t kLogRecordHeadBytes = 32;

struct LogFileHeader {
  StoreIdentity identity;
  uint32_t file = 0;            // counted from 1
  uint64_t first_sequence = 0;  // of its first record
  // A number that workers do not know. Heads carry their CRC xored with it, so no payload can
  // contain a valid record of this file.
  uint32_t salt = 0;

  bool operator==(const LogFileHeader&) const = default;
};

std::array<std::byte, kLogFileHeaderBytes> EncodeLogFileHeader(const LogFileHeader& header);
// InvalidArgument (magic, version), DataLoss (length, CRC, zero bytes).
absl::StatusOr<LogFileHeader> DecodeLogFileHeader(std::span<const std::byte> bytes);

struct LogRecordHead {
  LogKind kind = LogKind::kNote;
  uint64_t sequence = 0;
  // The number of earlier records that were not yet durable when this one was appended. The number
  // distinguishes a torn tail from damage: records below sequence − unsynced_before were on the
  // disk, so one of them that is unreadable is lost, not unfinished.
  uint32_t unsynced_before = 0;
  uint32_t body_bytes = 0;
  uint32_t body_crc = 0;

  bool operator==(const LogRecordHead&) const = default;
};

std::array<std::byte, kLogRecordHeadBytes> EncodeLogRecordHead(const LogRecordHead& head,
                                                               uint32_t salt);
// DataLoss for any fault, since every writer wrote these bytes right.
absl::StatusOr<LogRecordHead> DecodeLogRecordHead(std::span<const std::byte> bytes, uint32_t salt);

// Head and body of the record at `offset` of a file's bytes. The padding is checked, too. DataLoss.
struct LogRecordView {
  LogRecordHead head;
  std::span<const std::byte> body;
  uint64_t end = 0;  // offset of the next record
};
absl::StatusOr<LogRecordView> ViewLogRecord(std::span<const std::byte> file, uint64_t offset,
                                            uint32_t salt);

// The end of a file's readable records.
struct LogScan {
  uint64_t end = 0;            // after the last whole record
  uint64_t next_sequence = 0;  // of the record that would follow
  // The fault of the bytes after `end`; empty if the file ends there.
  std::string fault;
  // A later record proves that the faulty one was durable once.
  bool fault_was_durable = false;
};

// Reads a log file's records and calls `visit` with each. `file` has all bytes of the file,
// `header` is its decoded header. The scan stops at the first fault and looks for records behind
// it. An error of `visit` ends the scan and is returned.
absl::StatusOr<LogScan> ScanLogFile(
    std::span<const std::byte> file, const LogFileHeader& header,
    absl::FunctionRef<absl::Status(const LogRecordView&, uint64_t offset)> visit);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_LOG_FORMAT_H_

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

// A log file is a header and records, each from a multiple of 8 bytes: a head, a body, zeros to the
// next multiple of 8. proto/LOG.md is the definition for strangers.
inline constexpr uint32_t kLogFileMagic = 0x314c574c;    // "LWL1" read as bytes
inline constexpr uint32_t kLogRecordMagic = 0x3152574c;  // "LWR1"
inline constexpr uint16_t kLogVersion = 1;
inline constexpr size_t kLogFileHeaderBytes = 64;
inline constexpr size_t kLogRecordHeadBytes = 32;

struct LogFileHeader {
  StoreIdentity identity;
  uint32_t file = 0;            // its number, from 1
  uint64_t first_sequence = 0;  // of its first record
  // Any number that workers don't know. Heads carry their CRC xored with it, so that no payload can
  // hold what looks like a record of this file.
  uint32_t salt = 0;

  bool operator==(const LogFileHeader&) const = default;
};

std::array<std::byte, kLogFileHeaderBytes> EncodeLogFileHeader(const LogFileHeader& header);
// InvalidArgument (magic, version), DataLoss (length, CRC, zero bytes).
absl::StatusOr<LogFileHeader> DecodeLogFileHeader(std::span<const std::byte> bytes);

struct LogRecordHead {
  LogKind kind = LogKind::kNote;
  uint64_t sequence = 0;
  // How many of the records before this one were not yet known to be durable when it was appended.
  // That tells a torn tail from damage: records below sequence − unsynced_before have been on the
  // disk, so that one of them that cannot be read is lost, not unfinished.
  uint32_t unsynced_before = 0;
  uint32_t body_bytes = 0;
  uint32_t body_crc = 0;

  bool operator==(const LogRecordHead&) const = default;
};

std::array<std::byte, kLogRecordHeadBytes> EncodeLogRecordHead(const LogRecordHead& head,
                                                               uint32_t salt);
// DataLoss, whatever is wrong: every writer wrote these bytes right.
absl::StatusOr<LogRecordHead> DecodeLogRecordHead(std::span<const std::byte> bytes, uint32_t salt);

// Head and body of the record that begins at `offset` of a file's bytes; its padding included in
// the check. DataLoss.
struct LogRecordView {
  LogRecordHead head;
  std::span<const std::byte> body;
  uint64_t end = 0;  // where the next one begins
};
absl::StatusOr<LogRecordView> ViewLogRecord(std::span<const std::byte> file, uint64_t offset,
                                            uint32_t salt);

// Where reading a file's records came to an end.
struct LogScan {
  uint64_t end = 0;            // after the last whole record
  uint64_t next_sequence = 0;  // of the record that would stand there
  // Empty: the file ends there. Else what is wrong with the bytes after it.
  std::string fault;
  // Something behind the fault proves that the record which should stand there was durable once.
  bool fault_was_durable = false;
};

// Reads a log file's records from `file`, all of its bytes, whose decoded header is `header`, and
// calls `visit` with each. Stops at the first fault, and looks behind it. An error of
// `visit` ends the scan and is returned.
absl::StatusOr<LogScan> ScanLogFile(
    std::span<const std::byte> file, const LogFileHeader& header,
    absl::FunctionRef<absl::Status(const LogRecordView&, uint64_t offset)> visit);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_STORE_LOG_FORMAT_H_

#include "server/store/log_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "server/store/byte_stream.h"

namespace longwave {
namespace {

// Offsets in bytes.
enum FileHeaderOffset : size_t {
  kFileMagicAt = 0,
  kFileVersionAt = 4,
  kFileZeroAt = 6,
  kFileRunAt = 8,
  kFileLayoutAt = 16,
  kFileShardAt = 24,
  kFileNumberAt = 28,
  kFileFirstSequenceAt = 32,
  kFileSaltAt = 40,
  kFileZerosAt = 44,
  kFileCrcAt = 60,
};
static_assert(kFileCrcAt + sizeof(uint32_t) == kLogFileHeaderBytes);

enum RecordHeadOffset : size_t {
  kMagicAt = 0,
  kKindAt = 4,
  kZeroAt = 5,
  kUnsyncedAt = 8,
  kBodyBytesAt = 12,
  kSequenceAt = 16,
  kBodyCrcAt = 24,
  kHeadCrcAt = 28,
};
static_assert(kHeadCrcAt + sizeof(uint32_t) == kLogRecordHeadBytes);

bool AllZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, ByteReader::IsZero);
}

absl::Status Loss(absl::string_view what) { return absl::DataLossError(what); }

// Whether a whole record after `from` proves that the faulty record `sequence` was durable once.
bool WasDurable(std::span<const std::byte> file, uint64_t from, uint64_t sequence, uint32_t salt) {
  for (uint64_t at = from; at < file.size(); at += kFileAlignment) {
    if (file.size() - at < kLogRecordHeadBytes) return false;
    if (LoadLe<uint32_t>(file.data() + at) != kLogRecordMagic) continue;
    const auto record = ViewLogRecord(file, at, salt);
    if (!record.ok() || record->head.sequence <= sequence) continue;
    if (record->head.sequence - record->head.unsynced_before > sequence) return true;
  }
  return false;
}

}  // namespace

std::array<std::byte, kLogFileHeaderBytes> EncodeLogFileHeader(const LogFileHeader& header) {
  std::array<std::byte, kLogFileHeaderBytes> bytes = {};
  std::byte* const to = bytes.data();
  StoreLe<uint32_t>(kLogFileMagic, to + kFileMagicAt);
  StoreLe<uint16_t>(kLogVersion, to + kFileVersionAt);
  StoreLe<uint64_t>(header.identity.run, to + kFileRunAt);
  StoreLe<uint64_t>(header.identity.layout_hash, to + kFileLayoutAt);
  StoreLe<uint32_t>(header.identity.shard, to + kFileShardAt);
  StoreLe<uint32_t>(header.file, to + kFileNumberAt);
  StoreLe<uint64_t>(header.first_sequence, to + kFileFirstSequenceAt);
  StoreLe<uint32_t>(header.salt, to + kFileSaltAt);
  StoreLe<uint32_t>(Crc32c(std::span(bytes).first(kFileCrcAt)), to + kFileCrcAt);
  return bytes;
}

absl::StatusOr<LogFileHeader> DecodeLogFileHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kLogFileHeaderBytes) {
    return Loss(
        absl::StrCat("log header: got ", bytes.size(), " bytes, wanted ", kLogFileHeaderBytes));
  }
  const std::byte* const from = bytes.data();
  if (const auto magic = LoadLe<uint32_t>(from + kFileMagicAt); magic != kLogFileMagic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("log header: magic: got %08x, wanted %08x", magic, kLogFileMagic));
  }
  if (const auto version = LoadLe<uint16_t>(from + kFileVersionAt); version != kLogVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("log header: version: got ", version, ", wanted ", kLogVersion));
  }
  const auto crc = LoadLe<uint32_t>(from + kFileCrcAt);
  if (const uint32_t wanted = Crc32c(bytes.first(kFileCrcAt)); crc != wanted) {
    return Loss(absl::StrFormat("log header: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  if (!AllZero(bytes.subspan(kFileZeroAt, kFileRunAt - kFileZeroAt)) ||
      !AllZero(bytes.subspan(kFileZerosAt, kFileCrcAt - kFileZerosAt))) {
    return Loss("log header: zero bytes that are not zero");
  }
  LogFileHeader header;
  header.identity.run = LoadLe<uint64_t>(from + kFileRunAt);
  header.identity.layout_hash = LoadLe<uint64_t>(from + kFileLayoutAt);
  header.identity.shard = LoadLe<uint32_t>(from + kFileShardAt);
  header.file = LoadLe<uint32_t>(from + kFileNumberAt);
  header.first_sequence = LoadLe<uint64_t>(from + kFileFirstSequenceAt);
  header.salt = LoadLe<uint32_t>(from + kFileSaltAt);
  return header;
}

std::array<std::byte, kLogRecordHeadBytes> EncodeLogRecordHead(const LogRecordHead& head,
                                                               uint32_t salt) {
  std::array<std::byte, kLogRecordHeadBytes> bytes = {};
  std::byte* const to = bytes.data();
  StoreLe<uint32_t>(kLogRecordMagic, to + kMagicAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(head.kind), to + kKindAt);
  StoreLe<uint32_t>(head.unsynced_before, to + kUnsyncedAt);
  StoreLe<uint32_t>(head.body_bytes, to + kBodyBytesAt);
  StoreLe<uint64_t>(head.sequence, to + kSequenceAt);
  StoreLe<uint32_t>(head.body_crc, to + kBodyCrcAt);
  StoreLe<uint32_t>(Crc32c(std::span(bytes).first(kHeadCrcAt)) ^ salt, to + kHeadCrcAt);
  return bytes;
}

absl::StatusOr<LogRecordHead> DecodeLogRecordHead(std::span<const std::byte> bytes, uint32_t salt) {
  if (bytes.size() != kLogRecordHeadBytes) {
    return Loss(
        absl::StrCat("record head: got ", bytes.size(), " bytes, wanted ", kLogRecordHeadBytes));
  }
  const std::byte* const from = bytes.data();
  if (const auto magic = LoadLe<uint32_t>(from + kMagicAt); magic != kLogRecordMagic) {
    return Loss(
        absl::StrFormat("record head: magic: got %08x, wanted %08x", magic, kLogRecordMagic));
  }
  const auto crc = LoadLe<uint32_t>(from + kHeadCrcAt);
  if (const uint32_t wanted = Crc32c(bytes.first(kHeadCrcAt)) ^ salt; crc != wanted) {
    return Loss(absl::StrFormat("record head: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  LogRecordHead head;
  const auto kind = LoadLe<uint8_t>(from + kKindAt);
  if (kind < static_cast<uint8_t>(LogKind::kPush) ||
      kind > static_cast<uint8_t>(LogKind::kDecisions)) {
    return Loss(absl::StrCat("record head: kind: got ", kind, ", wanted 1 to 5"));
  }
  head.kind = static_cast<LogKind>(kind);
  head.unsynced_before = LoadLe<uint32_t>(from + kUnsyncedAt);
  head.body_bytes = LoadLe<uint32_t>(from + kBodyBytesAt);
  head.sequence = LoadLe<uint64_t>(from + kSequenceAt);
  head.body_crc = LoadLe<uint32_t>(from + kBodyCrcAt);
  if (!AllZero(bytes.subspan(kZeroAt, kUnsyncedAt - kZeroAt))) {
    return Loss("record head: zero bytes that are not zero");
  }
  if (head.kind != LogKind::kDecisions && head.body_bytes > kLogBodyBytesMax) {
    return Loss(absl::StrCat("record head: body bytes: got ", head.body_bytes, ", wanted at most ",
                             kLogBodyBytesMax));
  }
  if (head.unsynced_before >= head.sequence) {
    return Loss(absl::StrCat("record head: ", head.unsynced_before, " unsynced records before ",
                             head.sequence));
  }
  return head;
}

absl::StatusOr<LogRecordView> ViewLogRecord(std::span<const std::byte> file, uint64_t offset,
                                            uint32_t salt) {
  const std::span<const std::byte> rest = file.subspan(offset);
  if (rest.size() < kLogRecordHeadBytes) {
    return Loss(
        absl::StrCat("record head: got ", rest.size(), " bytes, wanted ", kLogRecordHeadBytes));
  }
  auto head = DecodeLogRecordHead(rest.first(kLogRecordHeadBytes), salt);
  if (!head.ok()) return std::move(head).status();
  const uint64_t bytes = kLogRecordHeadBytes + AlignedUp(head->body_bytes);
  if (rest.size() < bytes) {
    return Loss(
        absl::StrCat("record ", head->sequence, ": got ", rest.size(), " bytes, wanted ", bytes));
  }
  const auto body = rest.subspan(kLogRecordHeadBytes, head->body_bytes);
  if (const uint32_t crc = Crc32c(body); crc != head->body_crc) {
    return Loss(absl::StrFormat("record %d: CRC32C: its head says %08x, its body gives %08x",
                                head->sequence, head->body_crc, crc));
  }
  const size_t filled = kLogRecordHeadBytes + head->body_bytes;
  if (!AllZero(rest.subspan(filled, bytes - filled))) {
    return Loss(absl::StrCat("record ", head->sequence, ": padding that is not zero"));
  }
  return LogRecordView{*head, body, offset + bytes};
}

absl::StatusOr<LogScan> ScanLogFile(
    std::span<const std::byte> file, const LogFileHeader& header,
    absl::FunctionRef<absl::Status(const LogRecordView&, uint64_t offset)> visit) {
  LogScan scan{std::min<uint64_t>(kLogFileHeaderBytes, file.size()), header.first_sequence, "",
               false};
  while (scan.end < file.size()) {
    const auto record = ViewLogRecord(file, scan.end, header.salt);
    if (!record.ok()) {
      scan.fault = std::string(record.status().message());
    } else if (record->head.sequence != scan.next_sequence) {
      scan.fault = absl::StrCat("record: sequence number: got ", record->head.sequence, ", wanted ",
                                scan.next_sequence);
    }
    if (!scan.fault.empty()) {
      scan.fault_was_durable = WasDurable(file, scan.end, scan.next_sequence, header.salt);
      return scan;
    }
    if (absl::Status status = visit(*record, scan.end); !status.ok()) return status;
    scan.end = record->end;
    ++scan.next_sequence;
  }
  return scan;
}

}  // namespace longwave

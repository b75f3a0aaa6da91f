#include "server/store/log_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/errors.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/field_codec.h"

namespace longwave {
namespace {

constexpr size_t kCrcBytes = sizeof(uint32_t);  // at the end of either head

// Between the zeros after the version and those before the CRC.
void LogFileFields(auto& header, auto& code) {
  code(header.identity, header.file, header.first_sequence, header.salt);
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, ByteReader::IsZero);
}

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
  FieldWriter out;
  out(kLogFileMagic, kLogVersion, uint16_t{0});
  LogFileFields(header, out);
  out.PutZeros(kLogFileHeaderBytes - kCrcBytes - out.bytes().size());
  out(Crc32c(out.bytes()));
  return out.TakeArray<kLogFileHeaderBytes>();
}

absl::StatusOr<LogFileHeader> DecodeLogFileHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kLogFileHeaderBytes) {
    return DataLoss("log header: got ", bytes.size(), " bytes, wanted ", kLogFileHeaderBytes);
  }
  FieldReader in(bytes);
  if (const auto magic = in.Get<uint32_t>(); magic != kLogFileMagic) {
    return InvalidArgument(
        absl::StrFormat("log header: magic: got %08x, wanted %08x", magic, kLogFileMagic));
  }
  if (const auto version = in.Get<uint16_t>(); version != kLogVersion)
    return InvalidArgument("log header: version: got ", version, ", wanted ", kLogVersion);
  const auto crc = LoadLe<uint32_t>(bytes.last(kCrcBytes).data());
  if (const uint32_t wanted = Crc32c(bytes.first(bytes.size() - kCrcBytes)); crc != wanted) {
    return DataLoss(
        absl::StrFormat("log header: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  LogFileHeader header;
  bool zeros = in.Get<uint16_t>() == 0;
  LogFileFields(header, in);
  zeros &= AllZero(in.GetBytes(in.left() - kCrcBytes));
  if (!zeros) return DataLoss("log header: zero bytes that are not zero");
  return header;
}

std::array<std::byte, kLogRecordHeadBytes> EncodeLogRecordHead(const LogRecordHead& head,
                                                               uint32_t salt) {
  FieldWriter out;
  out(kLogRecordMagic, head.kind);
  out.PutZeros(3);
  out(head.unsynced_before, head.body_bytes, head.sequence, head.body_crc);
  out(Crc32c(out.bytes()) ^ salt);
  return out.TakeArray<kLogRecordHeadBytes>();
}

absl::StatusOr<LogRecordHead> DecodeLogRecordHead(std::span<const std::byte> bytes, uint32_t salt) {
  if (bytes.size() != kLogRecordHeadBytes) {
    return DataLoss("record head: got ", bytes.size(), " bytes, wanted ", kLogRecordHeadBytes);
  }
  FieldReader in(bytes);
  if (const auto magic = in.Get<uint32_t>(); magic != kLogRecordMagic) {
    return DataLoss(
        absl::StrFormat("record head: magic: got %08x, wanted %08x", magic, kLogRecordMagic));
  }
  const auto crc = LoadLe<uint32_t>(bytes.last(kCrcBytes).data());
  if (const uint32_t wanted = Crc32c(bytes.first(bytes.size() - kCrcBytes)) ^ salt; crc != wanted) {
    return DataLoss(
        absl::StrFormat("record head: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  LogRecordHead head;
  const auto kind = in.Get<uint8_t>();
  if (kind < static_cast<uint8_t>(LogKind::kPush) ||
      kind > static_cast<uint8_t>(LogKind::kRestored)) {
    return DataLoss("record head: kind: got ", kind, ", wanted 1 to 6");
  }
  head.kind = static_cast<LogKind>(kind);
  if (!AllZero(in.GetBytes(3))) return DataLoss("record head: zero bytes that are not zero");
  in(head.unsynced_before, head.body_bytes, head.sequence, head.body_crc);
  if (head.kind != LogKind::kDecisions && head.body_bytes > kLogBodyBytesMax) {
    return DataLoss("record head: body bytes: got ", head.body_bytes, ", wanted at most ",
                    kLogBodyBytesMax);
  }
  if (head.unsynced_before >= head.sequence) {
    return DataLoss("record head: ", head.unsynced_before, " unsynced records before ",
                    head.sequence);
  }
  return head;
}

absl::StatusOr<LogRecordView> ViewLogRecord(std::span<const std::byte> file, uint64_t offset,
                                            uint32_t salt) {
  const std::span<const std::byte> rest = file.subspan(offset);
  if (rest.size() < kLogRecordHeadBytes) {
    return DataLoss("record head: got ", rest.size(), " bytes, wanted ", kLogRecordHeadBytes);
  }
  auto head = DecodeLogRecordHead(rest.first(kLogRecordHeadBytes), salt);
  if (!head.ok()) return std::move(head).status();
  const uint64_t bytes = kLogRecordHeadBytes + AlignedUp(head->body_bytes);
  if (rest.size() < bytes) {
    return DataLoss("record ", head->sequence, ": got ", rest.size(), " bytes, wanted ", bytes);
  }
  const auto body = rest.subspan(kLogRecordHeadBytes, head->body_bytes);
  if (const uint32_t crc = Crc32c(body); crc != head->body_crc) {
    return DataLoss(absl::StrFormat("record %d: CRC32C: its head says %08x, its body gives %08x",
                                    head->sequence, head->body_crc, crc));
  }
  const size_t filled = kLogRecordHeadBytes + head->body_bytes;
  if (!AllZero(rest.subspan(filled, bytes - filled))) {
    return DataLoss("record ", head->sequence, ": padding that is not zero");
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

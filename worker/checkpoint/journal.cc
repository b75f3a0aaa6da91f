#include "worker/checkpoint/journal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/wire/byte_stream.h"
#include "common/wire/field_codec.h"
#include "common/wire/frame.h"
#include "server/store/snapshot_format.h"

namespace longwave {
namespace {

constexpr size_t kHashBytes = sizeof(uint64_t);
// Disks write whole multiples of so much, in any order.
constexpr size_t kSectorBytes = 64;
constexpr size_t kPayloadBytesAt = 32;  // in a record's head

uint64_t HashOf(std::span<const std::byte> head, std::span<const std::byte> payload) {
  ContentHash hash;
  hash.Add(head.first(kJournalHeadBytes - kHashBytes));
  hash.Add(payload);
  return hash.Digest();
}

struct Numbered {
  JournalRecord record;
  uint32_t number = 0;
  uint32_t durable = 0;
  uint64_t end = 0;
};

// The record at the offset; nothing: none that a writer wrote is there.
std::optional<Numbered> RecordAt(const Buffer& file, uint64_t offset,
                                 const std::shared_ptr<const void>& owner) {
  const std::span<const std::byte> bytes = file.bytes().subspan(offset);
  if (bytes.size() < kJournalHeadBytes) return std::nullopt;
  FieldReader in(bytes);
  if (in.Get<uint32_t>() != kJournalRecordMagic) return std::nullopt;
  Numbered one;
  JournalRecord& record = one.record;
  in(record.kind);
  bool is_right = in.good();
  for (const std::byte zero : in.GetBytes(3)) is_right = is_right && zero == std::byte{0};
  uint32_t payload_bytes = 0;
  uint32_t norm = 0;
  in(one.number, one.durable, record.segment, record.round, record.fragment, record.accounted,
     payload_bytes, norm, record.weight, record.step, record.tokens);
  record.norm = std::bit_cast<float>(norm);
  const auto hash = in.Get<uint64_t>();
  const std::span<const std::byte> payload = in.GetBytes(payload_bytes);
  in.Align();
  if (!is_right || !in.ok() || payload_bytes > kPayloadBytesMax || one.durable > one.number ||
      hash != HashOf(bytes, payload) || !std::isfinite(record.norm)) {
    return std::nullopt;
  }
  record.payload = payload.empty() ? Buffer() : Buffer(payload, owner);
  one.end = offset + (bytes.size() - in.left());
  return one;
}

// Whether an append that was cut short explains `tail`, which begins at the offset with no record:
// the bytes end before the record does, or a part of it never reached the disk and reads as zeros.
bool IsTorn(std::span<const std::byte> tail, uint64_t offset) {
  if (tail.size() < kJournalHeadBytes) return true;
  FieldReader in(tail);
  const bool has_length = in.Get<uint32_t>() == kJournalRecordMagic;
  in.GetBytes(kPayloadBytesAt - sizeof(uint32_t));
  const size_t wanted = kJournalHeadBytes + in.Get<uint32_t>();
  if (has_length && wanted <= kJournalHeadBytes + kPayloadBytesMax) {
    if (AlignedUp(wanted) > tail.size()) return true;
    tail = tail.first(wanted);
  }
  for (size_t at = 0; at < tail.size();) {
    const size_t size = std::min(kSectorBytes - (offset + at) % kSectorBytes, tail.size() - at);
    const auto sector = tail.subspan(at, size);
    if (std::ranges::all_of(sector, [](std::byte b) { return b == std::byte{0}; })) return true;
    at += size;
  }
  return false;
}

}  // namespace

std::vector<std::byte> EncodeJournalHeader(const JournalHeader& header) {
  FieldWriter out;
  out(kJournalMagic, kJournalVersion, uint16_t{0}, header.run, header.layout_hash, header.write,
      header.worker, uint32_t{0});
  out(HashContent(out.bytes()));
  LONGWAVE_CHECK(out.bytes().size() == kJournalHeaderBytes);
  return out.Take();
}

EncodedRecord EncodeJournalRecord(const JournalRecord& record, uint32_t number, uint32_t durable) {
  const std::span<const std::byte> payload = record.payload.bytes();
  FieldWriter out;
  out(kJournalRecordMagic, record.kind, uint8_t{0}, uint16_t{0}, number, durable, record.segment,
      record.round, record.fragment, record.accounted, static_cast<uint32_t>(payload.size()),
      std::bit_cast<uint32_t>(record.norm), record.weight, record.step, record.tokens, uint64_t{0});
  EncodedRecord encoded{.head = out.Take(), .pieces = {}};
  LONGWAVE_CHECK(encoded.head.size() == kJournalHeadBytes);
  FieldWriter hash;
  hash(HashOf(encoded.head, payload));
  std::ranges::copy(hash.bytes(), encoded.head.end() - kHashBytes);
  encoded.pieces = {encoded.head, payload, PaddingOf(payload.size())};
  return encoded;
}

absl::StatusOr<JournalScan> ScanJournal(const Buffer& file) {
  JournalScan scan;
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kJournalHeaderBytes) {
    scan.fault =
        absl::StrCat("got ", bytes.size(), " bytes, wanted at least ", kJournalHeaderBytes);
    return scan;
  }
  FieldReader in(bytes);
  const auto magic = in.Get<uint32_t>();
  const auto version = in.Get<uint16_t>();
  // Zeros: the file's first sector never reached the disk.
  if (magic != kJournalMagic && magic != 0)
    return InvalidArgument("journal: the file begins as none does");
  if (magic == kJournalMagic && version != kJournalVersion) {
    return FailedPrecondition("journal: got version ", version, ", wanted ", kJournalVersion,
                              ": another release of Longwave wrote it; finish the run with that "
                              "release, or set the worker's folder aside");
  }
  uint16_t zero = 0;
  uint32_t zeros = 0;
  in(zero, scan.header.run, scan.header.layout_hash, scan.header.write, scan.header.worker, zeros);
  const auto hash = in.Get<uint64_t>();
  const bool is_header =
      zero == 0 && zeros == 0 && hash == HashContent(bytes.first(kJournalHeaderBytes - kHashBytes));
  const auto owner = std::make_shared<const Buffer>(file);
  if (is_header) scan.end = kJournalHeaderBytes;
  while (is_header && scan.end < bytes.size()) {
    std::optional<Numbered> next = RecordAt(file, scan.end, owner);
    if (!next.has_value() || next->number != scan.records.size()) break;
    scan.records.push_back(std::move(next->record));
    scan.end = next->end;
  }
  if (scan.end == bytes.size()) return scan;
  scan.fault = is_header ? absl::StrCat("offset ", scan.end, ": no record")
                         : std::string("the header's hash is not that of its bytes");
  scan.fault_was_durable = !IsTorn(bytes.subspan(scan.end), scan.end);
  for (uint64_t at = AlignedUp(scan.end); at < bytes.size() && !scan.fault_was_durable;
       at += kFileAlignment) {
    const std::optional<Numbered> later = RecordAt(file, at, owner);
    if (!later.has_value()) continue;
    scan.fault_was_durable = later->durable > scan.records.size();
  }
  return scan;
}

}  // namespace longwave

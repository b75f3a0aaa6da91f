// Log files: a start of the log must not crash or read out of bounds, decoded records are
// canonical, and a log that was cut once reads back whole. A fuzzer does not guess checksums, so
// every input is also tried with correct ones.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/byte_stream.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "server/store/delta_log.h"
#include "tests/support/sim_file_system.h"

namespace longwave {
namespace {

const StoreIdentity kIdentity = {1, 2, 3};

void CheckCanonical(const LogRecordView& view, const LogRecord& record) {
  const auto body = EncodeLogBody(record);
  LONGWAVE_CHECK(body.ok() && KindOf(record) == view.head.kind);
  std::vector<std::byte> again = body->front;
  const auto payload = body->payload.bytes();
  again.insert(again.end(), payload.begin(), payload.end());
  LONGWAVE_CHECK(std::ranges::equal(again, view.body) && body->crc == view.head.body_crc);
}

void Scan(std::span<const std::byte> file) {
  const auto header = DecodeLogFileHeader(file.first(std::min(file.size(), kLogFileHeaderBytes)));
  if (!header.ok()) return;
  const auto encoded = EncodeLogFileHeader(*header);
  LONGWAVE_CHECK(std::ranges::equal(encoded, file.first(encoded.size())));
  const auto scan =
      ScanLogFile(file, *header, [&](const LogRecordView& view, uint64_t) -> absl::Status {
        const auto record = DecodeLogBody(view.head.kind, view.body, nullptr);
        if (record.ok()) CheckCanonical(view, *record);
        return absl::OkStatus();
      });
  LONGWAVE_CHECK(scan.ok() && scan->end <= file.size());
  LONGWAVE_CHECK(scan->fault.empty() == (scan->end == file.size()));
}

// Opens the bytes as the only file of a folder with a new catalog.
void Open(std::span<const std::byte> file) {
  SimFileSystem files(1);
  LONGWAVE_CHECK(files.CreateFolder("d/log").ok());
  const std::array<std::span<const std::byte>, 1> pieces = {file};
  LONGWAVE_CHECK(Publish(files, "d/log", "00000001.lwlog", pieces).ok());
  auto catalog = Catalog::Open(&files, "d", kIdentity, "");
  LONGWAVE_CHECK(catalog.ok());
  uint64_t next = 0;
  for (int time = 0; time < 2; ++time) {
    const auto log = DeltaLog::Open(&files, "d/log", kIdentity, {}, catalog->get());
    if (!log.ok()) {
      LONGWAVE_CHECK(time == 0 && !log.status().message().empty());
      return;
    }
    const LogRecovery& recovery = (*log)->recovery();
    LONGWAVE_CHECK(time == 0 || (recovery.cut_bytes == 0 && recovery.next_sequence == next));
    next = recovery.next_sequence;
    uint64_t count = 0;
    const auto replayed = (*log)->Replay(0, [&](uint64_t, const LogRecord&) {
      ++count;
      return absl::OkStatus();
    });
    LONGWAVE_CHECK(replayed.ok() && count == recovery.next_sequence - recovery.first_sequence);
  }
}

// Corrects magic, version, identity, kinds, numbers and checksums. The input's lengths, bodies and
// end remain.
std::vector<std::byte> PutRight(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  if (file.size() < kLogFileHeaderBytes) return file;
  const uint64_t first_sequence = 1 + std::to_integer<uint64_t>(file[32]);
  const LogFileHeader header{kIdentity, 1, first_sequence, 7};
  std::ranges::copy(EncodeLogFileHeader(header), file.begin());
  uint64_t sequence = first_sequence;
  for (size_t at = kLogFileHeaderBytes; at + kLogRecordHeadBytes <= file.size();) {
    LogRecordHead head;
    head.kind = static_cast<LogKind>(1 + std::to_integer<int>(file[at + 4]) % 5);
    head.sequence = sequence++;
    head.unsynced_before =
        static_cast<uint32_t>(LoadLe<uint32_t>(file.data() + at + 8) % head.sequence);
    const uint64_t left = file.size() - at - kLogRecordHeadBytes;
    head.body_bytes = static_cast<uint32_t>(
        std::min<uint64_t>(LoadLe<uint32_t>(file.data() + at + 12) % 4096, left));
    const auto body = std::span(file).subspan(at + kLogRecordHeadBytes, head.body_bytes);
    if (head.kind <= LogKind::kMerged && body.size() >= 64) {
      // The frame header within: its own checksum, and its payload's where that is all of the rest.
      if (head.kind == LogKind::kPush) {
        StoreLe<uint32_t>(Crc32c(body.subspan(64)), body.data() + 52);
      }
      StoreLe<uint32_t>(Crc32c(body.first(60)), body.data() + 60);
    }
    head.body_crc = Crc32c(body);
    std::ranges::copy(EncodeLogRecordHead(head, header.salt),
                      file.begin() + static_cast<ptrdiff_t>(at));
    at += kLogRecordHeadBytes + AlignedUp(head.body_bytes);
  }
  return file;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  Scan(input);
  Open(input);
  const std::vector<std::byte> right = PutRight(input);
  Scan(right);
  Open(right);
  return 0;
}

// A coordinator's file: readers must not crash or reserve more than the bytes need. Decoded records
// are canonical, a file that was cut once reads back whole, and a coordinator can continue from any
// record that CheckRecord passes. A fuzzer does not guess checksums, so every input is tried as a
// file, as that file with correct heads, and as one change.

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/wire/byte_stream.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "server/coordinator/coordinator.h"
#include "server/store/coordinator_format.h"
#include "server/store/coordinator_store.h"
#include "server/store/log_format.h"
#include "tests/support/sim_file_system.h"

namespace longwave {
namespace {

constexpr size_t kHeadBytes = 8;  // of a change: magic, version

void GoOn(CoordinatorRecord record) {
  CoordinatorOptions options;
  options.settings = record.state.settings;
  options.rounds = 100;
  options.segment_count = [](const Manifest&, uint64_t) { return 1; };
  options.shards_wanted = std::max<uint32_t>(1, static_cast<uint32_t>(record.state.shards.size()));
  if (!record.state.workers.empty()) record.manifest = Manifest{{{"w", {8, 8}}}};
  if (!Coordinator::CheckRecord(options, record).ok()) return;
  Coordinator coordinator(options, record);
  Rng rng(1);
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 3; ++i, now += absl::Seconds(31)) coordinator.Step(Tick{}, now, rng);
  for (const WorkerRecord& worker : record.state.workers) {
    coordinator.Step(
        WorkerHeartbeat{
            .worker = worker.member.worker,
            .incarnation = worker.incarnation,
            .rounds = {{.round = record.state.next_round,
                        .segment_hashes = std::vector<uint64_t>(record.state.segment_count % 64)}}},
        now, rng);
  }
  const CoordinatorRecord again = coordinator.Export(now);
  LONGWAVE_CHECK(Coordinator::CheckRecord(options, again).ok());
}

void ReadChange(std::span<const std::byte> bytes) {
  auto changes = DecodeCoordinatorChanges(bytes);
  if (!changes.ok()) return;
  LONGWAVE_CHECK(std::ranges::equal(Encode(*changes), bytes));
  CoordinatorRecord record;
  Apply(*changes, &record);
  GoOn(std::move(record));
}

// Opens the bytes as a folder's file, twice.
void Open(std::span<const std::byte> file) {
  SimFileSystem files(1);
  LONGWAVE_CHECK(files.CreateFolder("d").ok());
  const std::array<std::span<const std::byte>, 1> pieces = {file};
  LONGWAVE_CHECK(Publish(files, "d", "coordinator.lwlog", pieces).ok());
  std::optional<CoordinatorRecord> first;
  for (int time = 0; time < 2; ++time) {
    auto store = CoordinatorStore::Open(&files, "d", {});
    if (!store.ok()) {
      LONGWAVE_CHECK(time == 0 && !store.status().message().empty());
      return;
    }
    LONGWAVE_CHECK(time == 0 || (*store)->cut().empty());
    std::optional<CoordinatorRecord> record = (*store)->TakeRecord();
    LONGWAVE_CHECK(record.has_value() && (time == 0 || Encode(ChangesFromNothing(*record)) ==
                                                           Encode(ChangesFromNothing(*first))));
    first = std::move(record);
  }
  GoOn(*std::move(first));
}

std::vector<std::byte> HeadPutRight(std::span<const std::byte> change) {
  std::vector<std::byte> bytes(change.begin(), change.end());
  bytes.resize(std::max(bytes.size(), kHeadBytes));
  StoreLe<uint32_t>(0x6443574c, bytes.data());
  if (LoadLe<uint32_t>(bytes.data() + 4) != kCoordinatorFormatWithIntervals)
    StoreLe<uint32_t>(kCoordinatorFormat, bytes.data() + 4);
  return bytes;
}

// Corrects header, kinds, numbers, checksums and the changes' heads. The input's lengths, fields
// and end remain.
std::vector<std::byte> PutRight(std::span<const std::byte> input) {
  std::vector<std::byte> file(input.begin(), input.end());
  if (file.size() < kLogFileHeaderBytes) return file;
  const LogFileHeader header{{0, 0xffffffff, 0}, 1, 1, 7};
  std::ranges::copy(EncodeLogFileHeader(header), file.begin());
  uint64_t sequence = 1;
  for (size_t at = kLogFileHeaderBytes; at + kLogRecordHeadBytes <= file.size();) {
    const uint64_t left = file.size() - at - kLogRecordHeadBytes;
    const auto length = static_cast<uint32_t>(
        std::min<uint64_t>(LoadLe<uint32_t>(file.data() + at + 12) % 4096, left));
    const auto body = std::span(file).subspan(at + kLogRecordHeadBytes, length);
    if (body.size() >= kHeadBytes) std::ranges::copy(HeadPutRight(body), body.begin());
    const LogRecordHead head{LogKind::kDecisions, sequence++, 0, length, Crc32c(body)};
    std::ranges::copy(EncodeLogRecordHead(head, header.salt),
                      file.begin() + static_cast<ptrdiff_t>(at));
    at += kLogRecordHeadBytes + AlignedUp(length);
  }
  return file;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  Open(input);
  Open(PutRight(input));
  ReadChange(input);
  ReadChange(HeadPutRight(input));
  return 0;
}

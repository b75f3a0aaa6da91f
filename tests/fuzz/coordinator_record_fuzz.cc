// A coordinator's record: no bytes make its readers crash or reserve more than they hold; what they
// read is canonical; and what CheckRecord lets pass, a coordinator can go on from. The first byte
// says which part the rest is of; every input is also tried with its head put right.

#include <xxhash.h>

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/wire/bytes.h"
#include "server/coordinator/coordinator.h"
#include "server/store/coordinator_format.h"

namespace longwave {
namespace {

constexpr size_t kHeadBytes = 16;

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

void Read(uint8_t part, std::span<const std::byte> bytes) {
  const auto same = [&](const std::vector<std::byte>& again) {
    LONGWAVE_CHECK(std::ranges::equal(again, bytes));
  };
  switch (part % 5) {
    case 0:
      if (auto state = DecodeCoordinatorState(bytes); state.ok()) {
        same(Encode(*state));
        GoOn({.state = *std::move(state)});
      }
      return;
    case 1:
      if (const auto manifest = DecodeManifest(bytes); manifest.ok()) same(Encode(*manifest));
      return;
    case 2:
      if (const auto round = DecodeRoundRecord(bytes); round.ok()) same(Encode(*round));
      return;
    case 3:
      if (const auto report = DecodeOpenReport(bytes); report.ok()) same(Encode(*report));
      return;
    default:
      if (FinishedRound round; DecodeHashes(bytes, &round).ok()) same(EncodeHashes(round));
  }
}

std::vector<std::byte> PutRight(uint8_t part, std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  bytes.resize(std::max(bytes.size(), kHeadBytes));
  constexpr char kParts[] = {'s', 'm', 'r', 'p', 'h'};
  StoreLe<uint32_t>(0x0043574c | static_cast<uint32_t>(kParts[part % 5]) << 24, bytes.data());
  StoreLe<uint32_t>(kCoordinatorFormat, bytes.data() + 4);
  StoreLe<uint64_t>(XXH3_64bits(bytes.data() + kHeadBytes, bytes.size() - kHeadBytes),
                    bytes.data() + 8);
  return bytes;
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data + 1, size - 1));
  Read(data[0], input);
  Read(data[0], PutRight(data[0], input));
  return 0;
}

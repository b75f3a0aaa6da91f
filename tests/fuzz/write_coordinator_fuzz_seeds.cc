// Writes valid inputs of coordinator_record_fuzz, one file each, to FOLDER/coordinator_record_fuzz:
//   write_coordinator_fuzz_seeds tests/fuzz/corpus

#include <filesystem>
#include <string>

#include "server/store/coordinator_format.h"
#include "tests/fuzz/seeds.h"
#include "tests/unit/coordinator/random_events.h"

namespace longwave {
namespace {

bool Seed(const std::filesystem::path& folder, const std::string& name, uint8_t part,
          const std::vector<std::byte>& bytes) {
  std::vector<std::byte> input = {std::byte{part}};
  input.insert(input.end(), bytes.begin(), bytes.end());
  return WriteSeed(folder / ("seed-" + name), input);
}

bool WriteAll(const std::filesystem::path& corpora) {
  const std::filesystem::path folder = corpora / "coordinator_record_fuzz";
  bool good = true;
  for (const uint32_t steps : {3u, 40u, 300u}) {
    RandomEvents events(steps);
    Coordinator coordinator(RandomEvents::RunOptions());
    Rng rng(1);
    absl::Time now = absl::UnixEpoch();
    for (uint32_t step = 0; step < steps; ++step) {
      now += absl::Seconds(events.Seconds());
      coordinator.Step(events.Next(coordinator.Status(0, now), 1), now, rng);
    }
    const CoordinatorRecord record = coordinator.Export(now);
    const std::string after = std::to_string(steps);
    good &= Seed(folder, "state-" + after, 0, Encode(record.state));
    if (record.manifest && steps == 300)
      good &= Seed(folder, "manifest", 1, Encode(*record.manifest));
    if (!record.rounds.empty()) {
      good &= Seed(folder, "round-" + after, 2, Encode(record.rounds.back().record));
      good &= Seed(folder, "hashes-" + after, 4, EncodeHashes(record.rounds.back()));
    }
    if (!record.reports.empty()) {
      good &= Seed(folder, "report-" + after, 3, Encode(record.reports.front()));
    }
  }
  return good;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  return longwave::WriteSeedsMain(argc, argv, &longwave::WriteAll);
}

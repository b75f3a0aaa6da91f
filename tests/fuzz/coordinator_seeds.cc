// Valid inputs of coordinator_record_fuzz.

#include <filesystem>
#include <string>

#include "server/store/coordinator_format.h"
#include "server/store/coordinator_store.h"
#include "tests/fuzz/seeds.h"
#include "tests/support/sim_file_system.h"
#include "tests/unit/coordinator/random_events.h"

namespace longwave {

// Each as the changes that a whole record is, and as a file of that and the changes since.
bool WriteCoordinatorSeeds(const std::filesystem::path& corpora) {
  const std::filesystem::path folder = corpora / "coordinator_record_fuzz";
  bool good = true;
  for (const uint32_t steps : {3u, 40u, 300u}) {
    SimFileSystem files(1);
    auto store = CoordinatorStore::Open(&files, "d", {.salt = 7});
    good &= store.ok();
    RandomEvents events(steps);
    Coordinator coordinator(RandomEvents::RunOptions());
    Rng rng(1);
    absl::Time now = absl::UnixEpoch();
    for (uint32_t step = 0; step < steps && good; ++step) {
      now += absl::Seconds(events.Seconds());
      coordinator.Step(events.Next(coordinator.Status(0, now), 1), now, rng);
      if (step % 20 != 2) continue;  // seeds are small
      if (const auto write = (*store)->Take(coordinator, now)) good &= (*store)->Write(*write).ok();
    }
    const std::string after = std::to_string(steps);
    good &= WriteSeed(folder / ("seed-change-" + after),
                      Encode(ChangesFromNothing(coordinator.Export(now))));
    const auto file = ReadWhole(files, "d/coordinator.lwlog", 1 << 20);
    good &= file.ok() && WriteSeed(folder / ("seed-file-" + after), file->bytes());
  }
  return good;
}

}  // namespace longwave

// Valid inputs of checkpoint_fuzz.

#include <filesystem>

#include "tests/fuzz/seeds.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"

namespace longwave {

bool WriteCheckpointSeeds(const std::filesystem::path& corpora) {
  const std::filesystem::path folder = corpora / "checkpoint_fuzz";
  Checkpoint bare = TestCheckpoint();
  bare.pushes.clear();
  bare.blobs.clear();
  bare.name.clear();
  return WriteSeed(folder / "seed-whole", FileOf(TestCheckpoint())) &&
         WriteSeed(folder / "seed-bare", FileOf(bare));
}

}  // namespace longwave

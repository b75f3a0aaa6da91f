// Writes valid inputs of checkpoint_fuzz, one file each, to FOLDER/checkpoint_fuzz/seed-*:
//   write_checkpoint_fuzz_seeds tests/fuzz/corpus

#include <filesystem>

#include "tests/fuzz/seeds.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"

namespace longwave {
namespace {

bool WriteAll(const std::filesystem::path& corpora) {
  const std::filesystem::path folder = corpora / "checkpoint_fuzz";
  Checkpoint bare = TestCheckpoint();
  bare.pushes.clear();
  bare.blobs.clear();
  bare.name.clear();
  return WriteSeed(folder / "seed-whole", FileOf(TestCheckpoint())) &&
         WriteSeed(folder / "seed-bare", FileOf(bare));
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  return longwave::WriteSeedsMain(argc, argv, &longwave::WriteAll);
}

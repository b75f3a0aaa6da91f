// Valid inputs of checkpoint_fuzz and journal_fuzz.

#include <cstddef>
#include <filesystem>
#include <vector>

#include "tests/fuzz/seeds.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"
#include "worker/checkpoint/journal.h"

namespace longwave {
namespace {

std::vector<std::byte> JournalFile() {
  std::vector<std::byte> file =
      EncodeJournalHeader({.run = 77, .layout_hash = 0xabcd, .write = 5, .worker = 3});
  const JournalRecord records[] = {
      {.segment = 1, .round = 12, .accounted = 12, .norm = 2.5f, .payload = BytesOf({1, 2, 3})},
      {.kind = JournalKind::kAccepted, .segment = 1, .round = 12},
      {.kind = JournalKind::kReturned, .segment = 1, .round = 12}};
  uint32_t number = 0;
  for (const JournalRecord& record : records) {
    for (const auto piece : EncodeJournalRecord(record, number, number).pieces)
      file.insert(file.end(), piece.begin(), piece.end());
    ++number;
  }
  return file;
}

}  // namespace

bool WriteCheckpointSeeds(const std::filesystem::path& corpora) {
  const std::filesystem::path folder = corpora / "checkpoint_fuzz";
  Checkpoint bare = TestCheckpoint();
  bare.pushes.clear();
  bare.blobs.clear();
  bare.name.clear();
  return WriteSeed(folder / "seed-whole", FileOf(TestCheckpoint())) &&
         WriteSeed(folder / "seed-bare", FileOf(bare)) &&
         WriteSeed(corpora / "journal_fuzz/seed-whole", JournalFile());
}

}  // namespace longwave

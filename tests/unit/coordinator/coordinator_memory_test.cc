// The coordinator's memory through a long run: a program of its own, since it replaces operator
// new.
#include <malloc.h>

#include <atomic>
#include <cstdint>

#include "gtest/gtest.h"
#include "tests/support/replaced_new.h"
#include "tests/unit/coordinator/coordinator_testing.h"

namespace {
std::atomic<int64_t> live_bytes{0};
}  // namespace

void NoteAllocated(void* memory) { live_bytes += static_cast<int64_t>(malloc_usable_size(memory)); }
void NoteReleased(void* memory) { live_bytes -= static_cast<int64_t>(malloc_usable_size(memory)); }

namespace longwave {
namespace {

class CoordinatorMemory : public CoordinatorTest {};

TEST_F(CoordinatorMemory, ARoundLeavesItsRecordAloneHoweverManySegmentsThereAre) {
  constexpr uint32_t kSegments = 240;
  constexpr uint32_t kRounds = 9000;
  CoordinatorOptions options = Options(2, 1, 2 * kRounds);
  options.segment_count = [](const Manifest&, uint64_t) { return kSegments; };
  Make(options);
  Step(Shard(0));
  for (const uint32_t worker : {0, 1}) {
    RegisterWorker request = Worker(worker);
    request.start_hashes.assign(kSegments, 5);
    Step(request);
  }
  ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  int64_t before = 0;
  uint32_t counted_from = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    now_ += 1;
    Step(ShardAt(0, round + 1));
    for (const uint32_t worker : {0, 1})
      Step(Beat(worker, {Report(round, std::vector<uint64_t>(kSegments, round))}, 1));
    Step(Tick{});
    coordinator_->Saved();
    if (round == 1000) {
      before = live_bytes;
      counted_from = round;
    }
  }
  ASSERT_EQ(coordinator_->RoundsFrom(0).size(), kRounds);
  // A vector that grows by doubling has room for twice its records.
  const int64_t bytes_a_round = (live_bytes - before) / (kRounds - counted_from);
  EXPECT_LE(bytes_a_round, static_cast<int64_t>(2 * sizeof(FinishedRound) + 16));
  EXPECT_LE(sizeof(FinishedRound), 200u) << "the headers say about so much a round";
}

}  // namespace
}  // namespace longwave

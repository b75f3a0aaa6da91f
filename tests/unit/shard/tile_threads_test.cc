#include "server/shard/tile_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

namespace longwave {
namespace {

TEST(TileThreads, DoesEveryTileOnceWhateverTheirNumber) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    TileThreads runner(threads);
    EXPECT_EQ(runner.slot_count(), threads);
    for (const uint32_t tiles : {0u, 1u, 7u, 8u, 9u, 100u, 1000u}) {
      std::vector<std::atomic<int>> done(tiles);
      runner.Run(tiles, [&](uint32_t begin, uint32_t end, uint32_t slot) {
        EXPECT_LT(slot, threads);
        for (uint32_t i = begin; i < end; ++i) ++done[i];
      });
      for (uint32_t i = 0; i < tiles; ++i) ASSERT_EQ(done[i], 1) << threads << " " << i;
    }
  }
}

TEST(TileThreads, GivesASlotToOneCallAtATime) {
  TileThreads runner(4);
  std::vector<int> unguarded(4, 0);  // the thread sanitizer would report a race on these
  for (int run = 0; run < 200; ++run) {
    runner.Run(64, [&](uint32_t begin, uint32_t end, uint32_t slot) {
      unguarded[slot] += static_cast<int>(end - begin);
    });
  }
  int sum = 0;
  for (const int count : unguarded) sum += count;
  EXPECT_EQ(sum, 200 * 64);
}

TEST(TileThreads, ShowsTheCallerWhatTheOthersWrote) {
  TileThreads runner(3);
  std::vector<uint32_t> squares(500);
  runner.Run(500, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint32_t i = begin; i < end; ++i) squares[i] = i * i;
  });
  for (uint32_t i = 0; i < 500; ++i) ASSERT_EQ(squares[i], i * i);
}

}  // namespace
}  // namespace longwave

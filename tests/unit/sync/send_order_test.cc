#include "worker/sync/send_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace longwave {
namespace {

using ::testing::ElementsAre;

// Tiles of 64 × 64, a segment each.
Layout LayoutOf(uint32_t segments, uint32_t shards) {
  return Layout::Create({.tensors = {{"w", {64, 64 * segments}}}},
                        {.segment_tiles = 1, .shard_count = shards})
      .value();
}

TEST(SendOrderTest, TakesTheShardsByTurns) {
  const Layout layout = LayoutOf(6, 3);  // {0, 1}, {2, 3}, {4, 5}
  EXPECT_THAT(SendOrder(layout, 0), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(SendOrderTest, EachWorkerBeginsWithAnotherShard) {
  const Layout layout = LayoutOf(6, 3);
  EXPECT_THAT(SendOrder(layout, 1), ElementsAre(2, 4, 0, 3, 5, 1));
  EXPECT_THAT(SendOrder(layout, 2), ElementsAre(4, 0, 2, 5, 1, 3));
  EXPECT_EQ(SendOrder(layout, 3), SendOrder(layout, 0));
}

TEST(SendOrderTest, ShardsMayHaveDifferentNumbersOfSegments) {
  const Layout layout = LayoutOf(5, 3);
  for (const uint32_t worker : {0u, 1u, 7u, std::numeric_limits<uint32_t>::max()}) {
    std::vector<uint32_t> order = SendOrder(layout, worker);
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(5);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all) << "worker " << worker;
  }
}

}  // namespace
}  // namespace longwave

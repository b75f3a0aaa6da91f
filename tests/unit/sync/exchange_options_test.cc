#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "worker/sync/exchange.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;

// Twelve segments of one tile.
Layout Segments(uint32_t shards) {
  return *Layout::Create({.tensors = {{"v", {12 * 4096}}}},
                         {.tiling = Tiling::kFlat, .segment_tiles = 1, .shard_count = shards});
}

std::vector<uint32_t> ConnectionsOf(uint32_t shards, uint32_t connections, uint32_t fragments) {
  const LedgerOptions ledger =
      LedgerOptionsFor({.connections = connections, .fragments = fragments}, Segments(shards));
  EXPECT_EQ(ledger.connection_count, shards * connections);
  return ledger.connections;
}

TEST(LedgerOptionsFor, SegmentsTakeTheConnectionsInTurns) {
  EXPECT_THAT(ConnectionsOf(1, 4, 1), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(ConnectionsOf(2, 2, 1), ElementsAre(0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3));
}

// A fragment is synced by itself: it alone must fill them all.
TEST(LedgerOptionsFor, SegmentsOfAFragmentTakeTheConnectionsInTurns) {
  EXPECT_THAT(ConnectionsOf(1, 3, 4), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2));
  for (const uint32_t shards : {1, 2}) {
    for (const uint32_t fragments : {1, 2, 3}) {
      const std::vector<uint32_t> connections = ConnectionsOf(shards, 2, fragments);
      for (uint32_t fragment = 0; fragment < fragments; ++fragment) {
        std::multiset<uint32_t> used;
        for (uint32_t s = fragment; s < 12; s += fragments) used.insert(connections[s]);
        for (uint32_t c = 0; c < 2 * shards; ++c) {
          EXPECT_GE(used.count(c), 12 / fragments / shards / 2)
              << fragments << " fragments, connection " << c;
        }
      }
    }
  }
}

TEST(LedgerOptionsFor, FragmentsAreNoMoreThanSegments) {
  EXPECT_EQ(ConnectionsOf(1, 4, 100), ConnectionsOf(1, 4, 12));
  EXPECT_EQ(std::ranges::count(ConnectionsOf(1, 4, 100), 0), 12);
}

}  // namespace
}  // namespace longwave

#include "common/config/run_config.h"

#include <gtest/gtest.h>

#include <set>

#include "common/config/config.h"

namespace longwave {
namespace {

RunConfig WithSteps(uint64_t steps, uint32_t inner_steps) {
  RunConfig config = DefaultConfig();
  config.run.steps = steps;
  config.sync.inner_steps = inner_steps;
  return config;
}

TEST(FewRoundsSentence, IsOfFewerThanTen) {
  EXPECT_EQ(FewRoundsSentence(WithSteps(30, 3)), "");
  EXPECT_EQ(FewRoundsSentence(WithSteps(27, 3)),
            "9 are few (run.steps 27 over sync.inner_steps 3): loss and bytes say little of fewer "
            "than 10");
  EXPECT_EQ(FewRoundsSentence(WithSteps(3, 3)).substr(0, 8), "1 is few");
}

TEST(RoundCount, CountsAShortLastRound) {
  EXPECT_EQ(RoundCount(WithSteps(600, 30)), 20u);
  EXPECT_EQ(RoundCount(WithSteps(601, 30)), 21u);
  EXPECT_EQ(RoundCount(WithSteps(1, 30)), 1u);
  EXPECT_EQ(RoundCount(WithSteps(600, 1)), 600u);
}

// A matrix of `tiles` blocks of 64 × 64.
Manifest OfTiles(int64_t tiles) { return {{{"w", {64 * tiles, 64}}}}; }

RunConfig WithShards(uint32_t shards) {
  RunConfig config = DefaultConfig();
  config.run.shards = shards;
  return config;
}

TEST(WorkersMax, IsWhatIsConfiguredOrRoomForAsManyAgain) {
  RunConfig config = DefaultConfig();
  EXPECT_EQ(WorkersMax(config), 64u);
  config.run.workers = 500;
  EXPECT_EQ(WorkersMax(config), 1000u);
  config.cluster.workers_max = 512;
  EXPECT_EQ(WorkersMax(config), 512u);
}

TEST(LayoutOptionsFor, KeepsTheConfiguredSegmentsOfALargeModel) {
  const LayoutOptions options = LayoutOptionsFor(WithShards(2), OfTiles(1000));
  EXPECT_EQ(options,
            (LayoutOptions{.tiling = Tiling::kModel, .segment_tiles = 256, .shard_count = 2}));
}

TEST(LayoutOptionsFor, DividesASmallModelEvenly) {
  EXPECT_EQ(LayoutOptionsFor(WithShards(2), OfTiles(257)).segment_tiles, 129u);
  EXPECT_EQ(LayoutOptionsFor(WithShards(2), OfTiles(8)).segment_tiles, 4u);
}

TEST(LayoutOptionsFor, GivesEveryShardASegmentIfThereAreTilesEnough) {
  for (uint32_t shards = 1; shards <= 16; ++shards) {
    for (int64_t tiles = shards; tiles <= 3 * shards + 2; ++tiles) {
      const LayoutOptions options = LayoutOptionsFor(WithShards(shards), OfTiles(tiles));
      const auto layout = Layout::Create(OfTiles(tiles), options);
      ASSERT_TRUE(layout.ok()) << layout.status();
      std::set<uint32_t> owners;
      for (const Segment& segment : layout->segments()) owners.insert(segment.shard);
      EXPECT_EQ(owners.size(), shards) << tiles << " tiles";
    }
  }
}

TEST(LayoutOptionsFor, KeepsAtLeastOneTileASegment) {
  EXPECT_EQ(LayoutOptionsFor(WithShards(64), OfTiles(3)).segment_tiles, 1u);
}

TEST(LayoutOptionsFor, LeavesABadManifestToTheLayout) {
  EXPECT_EQ(LayoutOptionsFor(WithShards(2), Manifest{}).segment_tiles, 256u);
}

TEST(FitsInterval, TheBoundsLimitRoundsAndContributions) {
  RunConfig config = WithSteps(600, 0);
  ASSERT_TRUE(FitsInterval(config));
  config.sync.inner_steps_min = 4;
  config.sync.inner_steps_max = 50;
  EXPECT_EQ(RoundCount(config), 150u);
  EXPECT_EQ(ContributionStepsMax(config), 50u);
  config.sync.fragments = 2;
  EXPECT_EQ(ContributionStepsMax(config), 100u);
  EXPECT_EQ(FewRoundsSentence(config), "");
  config.run.steps = 30;
  EXPECT_EQ(FewRoundsSentence(config),
            "at most 8 rounds are few (run.steps 30 over sync.inner_steps_min 4): loss and bytes "
            "say little of fewer than 10");
  EXPECT_FALSE(FitsInterval(WithSteps(600, 30)));
}

TEST(ExpectedRounds, AreThoseOfTheStepsThatAreLeft) {
  EXPECT_EQ(ExpectedRounds(WithSteps(600, 30), 3, 90), 20u);
  EXPECT_EQ(ExpectedRounds(WithSteps(600, 0), 0, 0), 0u);
  EXPECT_EQ(ExpectedRounds(WithSteps(600, 0), 4, 100), 24u);
  EXPECT_EQ(ExpectedRounds(WithSteps(600, 0), 31, 600), 31u);
}

}  // namespace
}  // namespace longwave

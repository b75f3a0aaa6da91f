#include "worker/sync/fragments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace longwave {
namespace {

using ::testing::ElementsAre;

Layout Make(Tiling tiling, uint32_t segment_tiles) {
  const Manifest manifest = {.tensors = {{"wide", {70, 1000}},
                                         {"tall", {300, 65}},
                                         {"bias", {70}},
                                         {"conv", {64, 4, 4, 4}},
                                         {"row", {1, 5000}},
                                         {"long", {9000}},
                                         {"g", {}}}};
  return *Layout::Create(manifest, {.tiling = tiling, .segment_tiles = segment_tiles});
}

TEST(FragmentElements, AreThoseOfTheFragmentsTilesEachOnce) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
    for (const uint32_t segment_tiles : {1, 3, 5}) {
      const Layout layout = Make(tiling, segment_tiles);
      for (const uint32_t wanted : {2, 3, 7}) {
        const uint32_t fragments = FragmentCount(wanted, layout);
        std::vector<uint32_t> owner(layout.parameter_count(), fragments);
        for (size_t s = 0; s < layout.segments().size(); ++s) {
          for (const Tile& tile : layout.tiles(layout.segments()[s])) {
            for (uint64_t r = 0; r < tile.rows_valid; ++r) {
              const auto row = owner.begin() + tile.offset + r * tile.row_stride;
              std::fill(row, row + tile.cols_valid, s % fragments);
            }
          }
        }
        std::vector<uint32_t> seen(layout.parameter_count(), fragments);
        for (uint32_t f = 0; f < fragments; ++f) {
          for (const auto& [begin, end] :
               FragmentElements(layout, f, fragments, AllSegments(layout))) {
            ASSERT_LT(begin, end);
            ASSERT_LE(end, layout.parameter_count());
            for (uint64_t e = begin; e < end; ++e) {
              ASSERT_EQ(seen[e], fragments) << "element " << e << " twice";
              seen[e] = f;
            }
          }
        }
        EXPECT_EQ(seen, owner);
      }
    }
  }
}

TEST(FragmentElements, AreOneRangeForAWholeModelAndForRunsEndToEnd) {
  const Layout three = Make(Tiling::kModel, 3);
  EXPECT_THAT(FragmentElements(three, 0, 1, AllSegments(three)),
              ElementsAre(ElementRange{0, three.parameter_count()}));
  const Layout flat = Make(Tiling::kFlat, 2);
  const std::vector<ElementRange> ranges = FragmentElements(flat, 1, 2, AllSegments(flat));
  ASSERT_GE(ranges.size(), 2u);
  EXPECT_EQ(ranges[0], (ElementRange{2 * 4096, 4 * 4096}));
  EXPECT_EQ(ranges[1].begin, 6u * 4096);
}

TEST(SyncPlan, WithoutOverlapAndFragmentsIsOneSyncARound) {
  const SyncPlan plan(4, 1, 0, 10);
  EXPECT_EQ(plan.round_count(), 3u);
  EXPECT_EQ(plan.At(0, 0), (SyncPoint{0, 0, 4, 4, 4}));
  EXPECT_EQ(plan.At(1, 0), (SyncPoint{1, 0, 4, 8, 8}));
  EXPECT_EQ(plan.At(2, 0), (SyncPoint{2, 0, 2, 10, 10}));
}

TEST(SyncPlan, SpreadsFragmentsOverTheStepsAndAppliesLater) {
  const SyncPlan plan(10, 3, 2, 23);
  EXPECT_EQ(plan.At(0, 0), (SyncPoint{0, 0, 4, 4, 6}));
  EXPECT_EQ(plan.At(0, 1), (SyncPoint{0, 1, 7, 7, 9}));
  EXPECT_EQ(plan.At(0, 2), (SyncPoint{0, 2, 10, 10, 12}));
  EXPECT_EQ(plan.At(1, 0), (SyncPoint{1, 0, 10, 14, 16}));
  EXPECT_EQ(plan.At(1, 2), (SyncPoint{1, 2, 10, 20, 22}));
  // The run ends after three steps of its last round.
  EXPECT_EQ(plan.At(2, 0), (SyncPoint{2, 0, 9, 23, 23}));
  EXPECT_EQ(plan.At(2, 2), (SyncPoint{2, 2, 3, 23, 23}));
}

TEST(SyncPlan, HasOneFragmentInFlightAndCoversEveryStepOnce) {
  for (uint32_t inner_steps = 1; inner_steps <= 12; ++inner_steps) {
    for (uint32_t fragments = 1; fragments <= inner_steps; ++fragments) {
      const uint32_t overlaps = (inner_steps + fragments - 1) / fragments;
      for (uint32_t overlap = 0; overlap < overlaps; ++overlap) {
        for (const uint64_t steps : {uint64_t{1}, uint64_t{11}, uint64_t{36}}) {
          const SyncPlan plan(inner_steps, fragments, overlap, steps);
          uint64_t free_from = 0;
          std::vector<uint64_t> covered(fragments);
          for (uint32_t round = 0; round < plan.round_count(); ++round) {
            for (uint32_t f = 0; f < fragments; ++f) {
              const SyncPoint point = plan.At(round, f);
              EXPECT_GE(point.signal_step, free_from);
              EXPECT_GE(point.steps, 1u);
              EXPECT_LE(point.apply_step - point.signal_step, overlap);
              covered[f] += point.steps;
              EXPECT_EQ(covered[f], point.signal_step);
              free_from = point.apply_step;
            }
          }
          for (const uint64_t steps_of_fragment : covered) EXPECT_EQ(steps_of_fragment, steps);
          EXPECT_EQ(free_from, steps);
        }
      }
    }
  }
}

TEST(SyncPlan, CoversEveryStepOnceWhereRoundsHaveDifferentSteps) {
  for (const uint32_t fragments : {1u, 2u, 3u}) {
    for (uint64_t steps = 1; steps <= 60; ++steps) {
      SyncPlan plan(RoundPlan(steps), fragments, /*overlap=*/0);
      ASSERT_TRUE(
          plan.Extend({.decided_rounds = 40, .changes = {{0, 3}, {2, 11}, {3, 4}, {6, 5}}}).ok());
      ASSERT_NE(plan.round_count(), kRoundNever);
      std::vector<uint64_t> covered(fragments);
      for (uint32_t round = 0; round < plan.round_count(); ++round) {
        for (uint32_t f = 0; f < fragments; ++f) {
          const SyncPoint point = plan.At(round, f);
          EXPECT_GE(point.steps, 1u);
          EXPECT_LE(point.steps, fragments == 1 ? 11u : 22u);  // ContributionStepsMax
          covered[f] += point.steps;
          EXPECT_EQ(covered[f], point.signal_step);
        }
      }
      for (const uint64_t steps_of_fragment : covered) EXPECT_EQ(steps_of_fragment, steps);
    }
  }
}

TEST(SyncPlan, RefusesRoundsThatFragmentsAndOverlapDoNotFit) {
  SyncPlan plan(RoundPlan(100), /*fragment_count=*/3, /*overlap=*/2);
  EXPECT_EQ(plan.Extend({.decided_rounds = 2, .changes = {{0, 6}}}).message(),
            "round 0 has 6 inner steps, wanted as many as 3 fragments with an overlap of 2 steps "
            "need");
  EXPECT_FALSE(plan.Extend({.decided_rounds = 2, .changes = {{0, 2}}}).ok());
  EXPECT_TRUE(plan.Extend({.decided_rounds = 2, .changes = {{0, 7}}}).ok());
}

}  // namespace
}  // namespace longwave

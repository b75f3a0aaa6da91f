#include "common/layout/segment_elements.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/rng.h"
#include "kernels/ops.h"
#include "tests/support/reference/ops.h"

namespace longwave {
namespace {

Layout Make(Tiling tiling, uint32_t segment_tiles) {
  // Segments that begin and end within rows of blocks, cross matrices, and cross into the vectors.
  const Manifest manifest{{{"a", {130, 300}},
                           {"v", {5000}},
                           {"b", {64, 257}},
                           {"row", {1, 70}},
                           {"conv", {8, 3, 5, 5}},
                           {"w", {33}}}};
  auto layout = Layout::Create(manifest, {.tiling = tiling, .segment_tiles = segment_tiles});
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

template <typename F>
void ForEachLayout(const F& f) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor, Tiling::kFlat}) {
    for (const uint32_t segment_tiles : {1, 2, 3, 5, 1000}) f(Make(tiling, segment_tiles));
  }
}

TEST(SegmentElements, AreThoseOfTheSegmentsTilesEachOnceAndAscending) {
  ForEachLayout([](const Layout& layout) {
    const auto segments = static_cast<uint32_t>(layout.segments().size());
    std::vector<uint32_t> owner(layout.parameter_count(), segments);
    uint64_t count = 0;
    for (uint32_t s = 0; s < segments; ++s) {
      const std::vector<ElementRange> ranges = SegmentElements(layout, s);
      uint64_t end_before = 0;
      for (size_t i = 0; i < ranges.size(); ++i) {
        ASSERT_LT(ranges[i].begin, ranges[i].end);
        ASSERT_LE(ranges[i].end, layout.parameter_count());
        // Neighbours are joined.
        if (i > 0) {
          ASSERT_GT(ranges[i].begin, end_before) << "segment " << s;
        }
        end_before = ranges[i].end;
        for (uint64_t e = ranges[i].begin; e < ranges[i].end; ++e) owner[e] = s;
      }
      count += ElementCount(ranges);
    }
    EXPECT_EQ(count, layout.parameter_count());
    for (uint32_t s = 0; s < segments; ++s) {
      for (const Tile& tile : layout.tiles(layout.segments()[s])) {
        for (uint64_t r = 0; r < tile.rows_valid; ++r) {
          for (uint64_t c = 0; c < tile.cols_valid; ++c) {
            ASSERT_EQ(owner[tile.offset + r * tile.row_stride + c], s);
          }
        }
      }
    }
  });
}

TEST(SegmentElements, AreAppendedToWhatTheyContinue) {
  const Layout flat = Make(Tiling::kFlat, 1);
  std::vector<ElementRange> ranges;
  AppendSegmentElements(flat, 0, ranges);
  AppendSegmentElements(flat, 1, ranges);
  AppendSegmentElements(flat, 3, ranges);
  EXPECT_EQ(ranges, (std::vector<ElementRange>{{0, 2 * 4096}, {3 * 4096, 4 * 4096}}));
}

TEST(StateHash, IsThatOfOneArrayAndTellsTheOrderOfMore) {
  const std::vector<uint64_t> one = {7}, two = {7, 9}, other_way = {9, 7}, zero = {7, 0};
  EXPECT_EQ(StateHash(one), 7u);
  EXPECT_NE(StateHash(two), StateHash(other_way));
  EXPECT_NE(StateHash(zero), 7u);
}

TEST(SegmentHash, IsThatOfTheKernels) {
  ForEachLayout([](const Layout& layout) {
    Rng rng(4);
    std::vector<float> theta(layout.parameter_count());
    for (float& value : theta) value = static_cast<float>(rng.Uniform() - 0.5);
    theta[0] = -0.0f;
    for (const KernelOps* ops : {&ref::Ops(), OpsFor(BackendKind::kCpu).value()}) {
      std::vector<uint64_t> wanted(layout.segments().size());
      ASSERT_TRUE(
          ops->hash(Exec{}, {.layout = &layout, .theta = theta.data(), .hashes = wanted}).ok());
      for (uint32_t s = 0; s < wanted.size(); ++s) {
        std::vector<float> elements;
        for (const auto& [begin, end] : SegmentElements(layout, s)) {
          elements.insert(elements.end(), theta.begin() + static_cast<std::ptrdiff_t>(begin),
                          theta.begin() + static_cast<std::ptrdiff_t>(end));
        }
        EXPECT_EQ(SegmentHash(layout, s, elements), wanted[s]) << s;
      }
      EXPECT_EQ(StartHashes(layout, theta, 1), wanted);
    }
  });
}

TEST(StartHashes, AreThoseOfAStateWithoutVelocity) {
  ForEachLayout([](const Layout& layout) {
    const std::vector<float> theta(layout.parameter_count(), 0.25f);
    const std::vector<uint64_t> hashes = StartHashes(layout, theta, 2);
    ASSERT_EQ(hashes.size(), layout.segments().size());
    for (uint32_t s = 0; s < hashes.size(); ++s) {
      const uint64_t count = ElementCount(SegmentElements(layout, s));
      const std::vector<std::vector<float>> state = {std::vector<float>(count, 0.25f),
                                                     std::vector<float>(count)};
      EXPECT_EQ(hashes[s], SegmentStateHash(layout, s, state)) << s;
    }
  });
}

}  // namespace
}  // namespace longwave

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/tile_codec.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using Indices = std::vector<uint16_t>;

Indices TopK(const std::vector<float>& values, size_t k) {
  Indices indices(k);
  SelectTopK(values, indices);
  return indices;
}

// The definition, by a stable sort.
Indices SortedTopK(const std::vector<float>& values, size_t k) {
  Indices order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SelectTopK, AgreesWithAStableSort) {
  Rng rng(7);
  for (size_t n : {1, 2, 3, 10, 64, 100, 1000, 4095, 4096}) {
    for (size_t k : {1, 2, 3, 10, 63, 64, 256, 4095, 4096}) {
      if (k > n) continue;
      const std::vector<float> values = RandomValues(n, 1.0f, rng);
      ASSERT_EQ(TopK(values, k), SortedTopK(values, k)) << n << " " << k;
      // Few different magnitudes: nearly everything is a tie.
      std::vector<float> coarse;
      for (float value : values) coarse.push_back(std::round(value * 4));
      ASSERT_EQ(TopK(coarse, k), SortedTopK(coarse, k)) << n << " " << k;
    }
  }
}

TEST(SelectTopK, OrdersDenormals) {
  EXPECT_EQ(TopK({1e-44f, -3e-44f, 2e-45f, 2e-44f, 0.0f}, 2), (Indices{1, 3}));
}

TEST(SelectTopK, TellsNeighbouringFloatsApartOverTheWholeRange) {
  for (float base : {1e-44f, 1e-30f, 1.0f, 3e38f}) {
    const float above = std::nextafter(base, INFINITY);
    EXPECT_EQ(TopK({base, base, -above, base}, 1), (Indices{2})) << base;
  }
}

TEST(SelectRandom, GivesDistinctSortedIndicesInRange) {
  for (uint32_t n : {1u, 2u, 63u, 64u, 65u, 4096u}) {
    for (uint32_t k : {1u, 2u, 64u, 4096u}) {
      if (k > n) continue;
      for (uint64_t draw = 0; draw < 50; ++draw) {
        Indices indices(k);
        SelectRandom(n, draw, indices);
        ASSERT_TRUE(std::adjacent_find(indices.begin(), indices.end(),
                                       std::greater_equal<uint16_t>()) == indices.end());
        ASSERT_LT(indices.back(), n);
      }
    }
  }
}

TEST(SelectRandom, TakesEachIndexAboutEquallyOften) {
  std::vector<int> hits(16);
  for (uint64_t draw = 0; draw < 8000; ++draw) {
    Indices indices(4);
    SelectRandom(16, SelectionDraw(1, 2, draw), indices);
    for (uint16_t index : indices) ++hits[index];
  }
  // 2000 each, with a standard deviation of 39.
  for (int count : hits) EXPECT_NEAR(count, 2000, 200);
}

TEST(SelectRandom, IsTheSampleThatItHasAlwaysBeen) {
  Indices indices(4);
  SelectRandom(4096, SelectionDraw(1, 2, 3), indices);
  Indices again(4);
  SelectRandom(4096, SelectionDraw(1, 2, 3), again);
  EXPECT_EQ(indices, again);
  EXPECT_EQ(indices, (Indices{231, 1788, 2566, 3954}));
}

TEST(SelectStride, StepsEvenlyFromAStartThatMoves) {
  std::set<uint16_t> starts;
  for (uint32_t round = 0; round < 200; ++round) {
    Indices indices(5);
    SelectStride(43, SelectionDraw(9, round, 0), indices);
    for (size_t i = 1; i < indices.size(); ++i) ASSERT_EQ(indices[i] - indices[i - 1], 8);
    ASSERT_LT(indices.back(), 43);
    starts.insert(indices[0]);
  }
  EXPECT_EQ(starts.size(), 8u);
}

TEST(SelectStride, TakesAllOfThem) {
  Indices indices(7);
  SelectStride(7, 12345, indices);
  EXPECT_EQ(indices, (Indices{0, 1, 2, 3, 4, 5, 6}));
}

TEST(SelectionDraw, DependsOnEachOfItsArguments) {
  std::set<uint64_t> draws;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint32_t round = 0; round < 10; ++round) {
      for (uint64_t tile = 0; tile < 10; ++tile) draws.insert(SelectionDraw(seed, round, tile));
    }
  }
  EXPECT_EQ(draws.size(), 1000u);
}

}  // namespace
}  // namespace longwave

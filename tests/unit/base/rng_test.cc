#include "common/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longwave {
namespace {

// The stream of a published run: a bound of up to 2^32 takes the upper half of a word alone.
TEST(Rng, BelowASmallBoundIsTheUpperHalfsShare) {
  for (const uint64_t bound : {uint64_t{1}, uint64_t{3}, uint64_t{4096}, uint64_t{1} << 32}) {
    Rng rng(7), words(7);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(rng.Below(bound), (words.Next() >> 32) * bound >> 32);
  }
}

TEST(Rng, BelowALargeBoundReachesAllOfIt) {
  constexpr uint64_t kBound = (uint64_t{1} << 40) + 12345;
  Rng rng(7);
  uint64_t highest = 0, lowest = kBound;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t drawn = rng.Below(kBound);
    ASSERT_LT(drawn, kBound);
    highest = std::max(highest, drawn);
    lowest = std::min(lowest, drawn);
  }
  EXPECT_GT(highest, kBound / 100 * 99);
  EXPECT_LT(lowest, kBound / 100);
}

}  // namespace
}  // namespace longwave

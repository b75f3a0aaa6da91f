#include "server/shard/grace.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

using absl::Milliseconds;
using absl::Seconds;

Grace Any() { return {Milliseconds(10), Seconds(100)}; }

TEST(Grace, IsTheLeastUntilThreeClosesAreKnown) {
  Grace grace = Any();
  EXPECT_EQ(grace.current(), Milliseconds(10));
  grace.Add(Seconds(5));
  grace.Add(Seconds(5));
  EXPECT_EQ(grace.current(), Milliseconds(10));
  grace.Add(Seconds(5));
  EXPECT_EQ(grace.current(), Seconds(5));
}

TEST(Grace, IsTheMedianAndFourDeviations) {
  Grace grace = Any();
  for (const int needed : {9, 1, 4, 6, 5}) grace.Add(Seconds(needed));
  // Median 5 of 1 4 5 6 9; deviations 4 1 0 1 4 with median 1.
  EXPECT_EQ(grace.current(), Seconds(9));
  grace.Add(Seconds(20));
  // The lower medians: 5 of 1 4 5 6 9 20, and 1 of the distances 4 1 0 1 4 15.
  EXPECT_EQ(grace.current(), Seconds(9));
}

TEST(Grace, StaysBetweenItsBounds) {
  Grace grace(Seconds(1), Seconds(3));
  for (int i = 0; i < 3; ++i) grace.Add(Milliseconds(1));
  EXPECT_EQ(grace.current(), Seconds(1));
  for (int i = 0; i < 9; ++i) grace.Add(absl::Hours(1));
  EXPECT_EQ(grace.current(), Seconds(3));
  for (int i = 0; i < 32; ++i) grace.Add(absl::InfiniteDuration());
  EXPECT_EQ(grace.current(), Seconds(3));
}

TEST(Grace, AFewStragglersDoNotMoveIt) {
  Grace grace = Any();
  for (int i = 0; i < 17; ++i) grace.Add(Seconds(2));
  for (int i = 0; i < 15; ++i) grace.Add(absl::Hours(2));
  EXPECT_EQ(grace.current(), Seconds(2));
}

TEST(Grace, ForgetsWhatIsOlderThanItsHistory) {
  Grace grace = Any();
  for (size_t i = 0; i < Grace::kHistory; ++i) grace.Add(Seconds(50));
  for (size_t i = 0; i < Grace::kHistory; ++i) grace.Add(Seconds(1));
  EXPECT_EQ(grace.current(), Seconds(1));
  // In a whole ring each new one takes the oldest one's place, and no other.
  for (size_t i = 0; i < Grace::kHistory / 2 - 1; ++i) grace.Add(Seconds(7));
  EXPECT_EQ(grace.current(), Seconds(1));
}

TEST(Grace, CountsTimesBeforeTheQuorumAsNone) {
  Grace grace(absl::ZeroDuration(), Seconds(100));
  for (int i = 0; i < 3; ++i) grace.Add(-Seconds(5));
  EXPECT_EQ(grace.current(), absl::ZeroDuration());
}

TEST(Grace, GrowsByWhatCameTooLate) {
  Grace grace = Any();
  grace.Extend(Seconds(8));  // of no close
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(grace.current(), Milliseconds(10));
    grace.Add(absl::ZeroDuration());
    grace.Extend(Seconds(8));
    grace.Extend(Seconds(3));  // another one, which was less late
  }
  EXPECT_EQ(grace.current(), Seconds(8));
}

TEST(Grace, ExtendsTheNewestCloseOfAWholeRing) {
  Grace grace(absl::ZeroDuration(), Seconds(100));
  for (size_t i = 0; i < Grace::kHistory + 5; ++i) grace.Add(Seconds(1));
  for (size_t i = 0; i < Grace::kHistory; ++i) {
    EXPECT_EQ(grace.current(), Seconds(i < Grace::kHistory / 2 + 1 ? 1 : 9)) << i;
    grace.Add(Seconds(1));
    grace.Extend(Seconds(9));
  }
}

}  // namespace
}  // namespace longwave

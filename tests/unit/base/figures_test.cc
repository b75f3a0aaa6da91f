#include "common/base/figures.h"

#include <gtest/gtest.h>

#include <limits>

namespace longwave {
namespace {

TEST(FormatBytes, NeverPrintsAThousandOfAUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(999.6), "1.0 kB");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(63'249), "63.2 kB");
  EXPECT_EQ(FormatBytes(999'949), "999.9 kB");
  EXPECT_EQ(FormatBytes(999'951), "1.0 MB");
  EXPECT_EQ(FormatBytes(4.4e9), "4.4 GB");
}

TEST(FormatCount, PutsThePrefixAfterASpace) {
  EXPECT_EQ(FormatCount(7), "7");
  EXPECT_EQ(FormatCount(12'345), "12.3 k");
  EXPECT_EQ(FormatCount(1'050'000), "1.1 M");
}

TEST(FormatDuration, HasHoursOnlyFromAnHourOn) {
  EXPECT_EQ(FormatDuration(0.4), "0:00");
  EXPECT_EQ(FormatDuration(59.6), "1:00");
  EXPECT_EQ(FormatDuration(3599), "59:59");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(FormatRatio, OfNothingIsNotANumber) {
  EXPECT_EQ(FormatRatio(218.4, 1), "218 x");
  EXPECT_EQ(FormatRatio(6.14, 1), "6.1 x");
  EXPECT_EQ(FormatRatio(1, 0), "-");
  EXPECT_EQ(FormatRatio(0, 1), "-");
}

TEST(FormatHash, IsSixteenDigits) { EXPECT_EQ(FormatHash(0xab), "00000000000000ab"); }

TEST(FormatRound, StandsBelowTheLineOfTheRoundBefore) {
  EXPECT_EQ(
      FormatRound({.rounds_done = 3, .rounds = 32, .step = 45, .steps = 480, .train_loss = 2}),
      "round  3/32  step  45/480  loss 2.000");
}

}  // namespace
}  // namespace longwave

#include "cli/text.h"

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

TEST(FitWidth, CountsCodePointsAndCutsBetweenThem) {
  EXPECT_EQ(DisplayWidth("a█é"), 3u);
  EXPECT_EQ(FitWidth("a█éx", 3), "a█é");
  EXPECT_EQ(FitWidth("a█", 1), "a");
  EXPECT_EQ(FitWidth("ab", 5), "ab");
}

TEST(WrapWords, BreaksBetweenWordsAlone) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(WrapWords("as wide as it may be", 20, 2), (Lines{"as wide as it may be"}));
  EXPECT_EQ(WrapWords("name  one two three four", 14, 6),
            (Lines{"name  one two", "      three", "      four"}));
  EXPECT_EQ(WrapWords("files /a/very/long/path end", 10, 2),
            (Lines{"files", "  /a/very/long/path", "  end"}));
  EXPECT_EQ(WrapWords("é é é", 3, 0), (Lines{"é é", "é"}));
  EXPECT_EQ(WrapWords("/a/very/long/path", 5, 9), (Lines{"/a/very/long/path"}));
}

TEST(ProgressBar, IsAlwaysAsWideAsAsked) {
  const TextStyle utf8, ascii{.utf8 = false};
  EXPECT_EQ(ProgressBar(0.5, 4, ascii), "##..");
  EXPECT_EQ(ProgressBar(1.7, 4, ascii), "####");
  EXPECT_EQ(ProgressBar(-1, 4, ascii), "....");
  for (double share : {0.0, 0.33, 1.0}) EXPECT_EQ(DisplayWidth(ProgressBar(share, 9, utf8)), 9u);
}

TEST(Sparkline, SpansMinimumToMaximumOfTheLastValues) {
  EXPECT_EQ(Sparkline({100, 3, 2, 1}, 3, TextStyle()), "█▅▁");
  EXPECT_EQ(Sparkline({2, 2}, 5, TextStyle()), "▁▁");
  EXPECT_EQ(Sparkline({2}, 5, TextStyle()), "");
  EXPECT_EQ(Sparkline({2, 1}, 5, TextStyle{.utf8 = false}), "");
}

TEST(TextTable, AlignsTheFirstColumnLeftAndTheOthersRight) {
  TextTable table;
  table.AddRow({"name", "é"});
  table.AddRow({"a", "10.5 kB", "x"});
  EXPECT_EQ(table.Lines(), (std::vector<std::string>{"name        é", "a     10.5 kB  x"}));
}

}  // namespace
}  // namespace longwave

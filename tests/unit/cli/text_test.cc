#include "cli/text.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

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

#include "common/metrics/process_figures.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace longwave {
namespace {

TEST(ProcessFigures, ReadsALineWhateverTheProcessIsCalled) {
  const std::string fields =
      " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 1000000 250 18446744073709551615";
  for (const char* name : {"worker", "a b", "a) b", "((", ") S 9"}) {
    const auto stat = ParseProcessStat("77 (" + std::string(name) + ")" + fields);
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->start_ticks, 4242);
    EXPECT_EQ(stat->virtual_bytes, 1000000);
    EXPECT_EQ(stat->resident_pages, 250);
  }
}

TEST(ProcessFigures, RefusesWhatIsNoSuchLine) {
  for (const char* line : {"", "77", "77 (x", "77 (x) S 1 2 3",
                           "77 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 soon 1 1"}) {
    EXPECT_FALSE(ParseProcessStat(line).has_value()) << line;
  }
}

TEST(ProcessFigures, AreThoseOfThisProcess) {
  const ProcessFigures figures = ReadProcessFigures();
  ASSERT_TRUE(figures.start_time_seconds.has_value());
  // The clock is read to a tick, and was set when the machine was started.
  EXPECT_NEAR(*figures.start_time_seconds, static_cast<double>(std::time(nullptr)), 600);
  EXPECT_GT(*figures.resident_memory_bytes, 1e5);
  EXPECT_GE(*figures.virtual_memory_bytes, *figures.resident_memory_bytes);
  EXPECT_GE(*figures.open_fds, 3);
  EXPECT_GE(*figures.max_fds, *figures.open_fds);
  EXPECT_GE(*figures.cpu_seconds, 0);
}

}  // namespace
}  // namespace longwave

#include "cli/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace longwave {
namespace {

TEST(MergeLogs, OrdersByTimeAndKeepsWhatFollowsALineBelowIt) {
  EXPECT_THAT(
      MergeLogs({{"worker-0",
                  {"Traceback before any time", "2026-11-23 10:00:02.000 worker-0 info late",
                   "  below it"}},
                 {"worker-1",
                  {"2026-11-23 10:00:01.000 worker-1 info early",
                   "2026-11-23 10:00:03.500 worker-1 info last"}}}),
      testing::ElementsAre("worker-0: Traceback before any time",
                           "2026-11-23 10:00:01.000 worker-1 info early",
                           "2026-11-23 10:00:02.000 worker-0 info late", "worker-0:   below it",
                           "2026-11-23 10:00:03.500 worker-1 info last"));
  EXPECT_TRUE(MergeLogs({}).empty());
}

// Earlier versions wrote the local time; the zone is the test's.
TEST(MergeLogs, OrdersLinesOfBothKindsOfTimes) {
  setenv("TZ", "Asia/Tokyo", 1);
  EXPECT_THAT(MergeLogs({{"worker-0",
                          {"2026-11-23 19:00:01.000 worker-0 info before the update",
                           "2026-11-23 10:00:03.000Z worker-0 info after it"}},
                         {"worker-1", {"2026-11-23 10:00:02.000Z worker-1 info between"}}}),
              testing::ElementsAre("2026-11-23 19:00:01.000 worker-0 info before the update",
                                   "2026-11-23 10:00:02.000Z worker-1 info between",
                                   "2026-11-23 10:00:03.000Z worker-0 info after it"));
  unsetenv("TZ");
}

TEST(MergeLogs, KeepsEachProcesssOrderWhereTheClockIsSetBack) {
  EXPECT_THAT(
      MergeLogs({{"a",
                  {"2026-11-23 10:00:10.000Z a info 1", "2026-11-23 09:00:11.000Z a info 3",
                   "2026-11-23 09:00:13.000Z a info 5"}},
                 {"b",
                  {"2026-11-23 10:00:10.500Z b info 2", "2026-11-23 09:00:12.000Z b info 4",
                   "  below", "2026-11-23 09:00:11.999Z b info by another thread"}}}),
      testing::ElementsAre("2026-11-23 10:00:10.000Z a info 1", "2026-11-23 10:00:10.500Z b info 2",
                           "2026-11-23 09:00:11.000Z a info 3", "2026-11-23 09:00:12.000Z b info 4",
                           "b:   below", "2026-11-23 09:00:11.999Z b info by another thread",
                           "2026-11-23 09:00:13.000Z a info 5"));
}

}  // namespace
}  // namespace longwave

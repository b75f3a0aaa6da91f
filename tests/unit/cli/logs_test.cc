#include "cli/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace longwave

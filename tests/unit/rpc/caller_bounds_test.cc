#include "common/rpc/caller_bounds.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(CallerBounds, MessagesLeaveTheProcessMostOfItsMemory) {
  constexpr size_t kGibibyte = size_t{1} << 30;
  EXPECT_EQ(CallBytesMax(kGibibyte), kGibibyte / 4) << "the chart's coordinator";
  EXPECT_EQ(CallBytesMax(4.0 * kGibibyte), kGibibyte);
  EXPECT_EQ(CallBytesMax(256.0 * kGibibyte), kGibibyte) << "and no more, however much there is";
}

}  // namespace
}  // namespace longwave

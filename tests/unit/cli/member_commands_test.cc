#include "cli/security/member_commands.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(DescribeExpulsion, SaysWhatBecameOfTheTokens) {
  EXPECT_EQ(DescribeExpulsion("w", false, {}), "expelled w");
  EXPECT_EQ(
      DescribeExpulsion("w", false,
                        {{.id = "one", .uses = 8, .used = 1}, {.id = "two", .uses = 2, .used = 1}}),
      "expelled w; token one, with 7 uses left, is revoked; token two, with 1 use left, is "
      "revoked");
  EXPECT_EQ(DescribeExpulsion("w", true, {}), "w may join again, with a new token");
}

}  // namespace
}  // namespace longwave

#include "common/base/memory.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(MachineMemory, IsReadFromTheMachine) {
  const auto memory = ReadMachineMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available_bytes, 1e6);
  EXPECT_GT(memory->total_bytes, memory->available_bytes);
}

TEST(CountText, KeepsAFewDigits) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(980), "980");
  EXPECT_EQ(CountText(999.7), "1.0 K");
  EXPECT_EQ(CountText(12.34e9), "12.3 G");
  EXPECT_EQ(CountText(295e9), "295 G");
  EXPECT_EQ(BytesText(12), "12 B");
  EXPECT_EQ(BytesText(20.1e9), "20.1 GB");
}

}  // namespace
}  // namespace longwave

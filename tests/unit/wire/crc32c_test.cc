#include "common/wire/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/base/isa.h"
#include "common/base/rng.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

uint32_t Crc32cByTables(std::span<const std::byte> bytes) {
  const ScopedIsa generic(Isa::kGeneric);
  return Crc32c(bytes);
}

std::vector<std::byte> RandomBytes(size_t count, uint32_t seed) {
  std::vector<std::byte> bytes(count);
  Rng rng(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.Next());
  return bytes;
}

using Function = uint32_t (*)(std::span<const std::byte>);

class Crc32cBothPaths : public testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(Dispatched, Crc32cBothPaths, testing::Values(&Crc32c));
INSTANTIATE_TEST_SUITE_P(ByTables, Crc32cBothPaths, testing::Values(&Crc32cByTables));

// RFC 3720, appendix B.4.
TEST_P(Crc32cBothPaths, GivesTheVectorsOfRfc3720) {
  EXPECT_EQ(GetParam()(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(GetParam()(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  std::vector<std::byte> up(32), down(32);
  for (int i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(GetParam()(up), 0x46dd794eu);
  EXPECT_EQ(GetParam()(down), 0x113fdb5cu);
  EXPECT_EQ(GetParam()(Bytes({0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                              0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                              0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0})),
            0xd9963a56u);
}

TEST_P(Crc32cBothPaths, GivesTheCheckValueOfNineDigits) {
  EXPECT_EQ(GetParam()(Bytes({'1', '2', '3', '4', '5', '6', '7', '8', '9'})), 0xe3069283u);
}

TEST_P(Crc32cBothPaths, IsZeroOfNothing) { EXPECT_EQ(GetParam()({}), 0u); }

TEST(Crc32c, AgreesWithTheTablesAtEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = RandomBytes(300, 1);
  for (size_t start = 0; start < 9; ++start) {
    for (size_t size = 0; size + start <= bytes.size(); ++size) {
      const auto part = std::span<const std::byte>(bytes).subspan(start, size);
      ASSERT_EQ(Crc32c(part), Crc32cByTables(part)) << start << " " << size;
    }
  }
}

// Long inputs are worked off in lanes side by side, 3 KiB at a time.
TEST(Crc32c, AgreesWithTheTablesAroundMultiplesOfItsLanes) {
  const std::vector<std::byte> bytes = RandomBytes(5 * 3072 + 20, 2);
  for (size_t start = 0; start < 9; start += 4) {
    for (size_t blocks = 1; blocks <= 5; ++blocks) {
      for (size_t size = blocks * 3072 - 9; size <= blocks * 3072 + 9; ++size) {
        const auto part = std::span<const std::byte>(bytes).subspan(start, size);
        ASSERT_EQ(Crc32c(part), Crc32cByTables(part)) << start << " " << size;
      }
    }
  }
}

TEST(Crc32cConcat, IsTheChecksumOfBothPartsAtEverySplit) {
  const std::vector<std::byte> bytes = RandomBytes(300, 1);
  const std::span<const std::byte> all = bytes;
  for (size_t split = 0; split <= all.size(); ++split) {
    EXPECT_EQ(
        Crc32cConcat(Crc32c(all.first(split)), Crc32c(all.subspan(split)), all.size() - split),
        Crc32c(all))
        << split;
  }
}

TEST(Crc32cConcat, HoldsForPartsLongerThanAMegabyte) {
  const std::vector<std::byte> bytes = RandomBytes((3 << 20) + 5, 2);
  const std::span<const std::byte> all = bytes;
  EXPECT_EQ(Crc32cConcat(Crc32c(all.first(7)), Crc32c(all.subspan(7)), all.size() - 7),
            Crc32c(all));
}

}  // namespace
}  // namespace longwave

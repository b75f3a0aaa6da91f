#include "server/store/crc32c_concat.h"

#include <gtest/gtest.h>

#include "common/wire/crc32c.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

TEST(Crc32cConcat, IsTheChecksumOfBothPartsAtEverySplit) {
  const std::vector<std::byte> bytes = TestBytes(300, 1);
  const std::span<const std::byte> all = bytes;
  for (size_t split = 0; split <= all.size(); ++split) {
    EXPECT_EQ(
        Crc32cConcat(Crc32c(all.first(split)), Crc32c(all.subspan(split)), all.size() - split),
        Crc32c(all))
        << split;
  }
}

TEST(Crc32cConcat, HoldsForPartsLongerThanAMegabyte) {
  const std::vector<std::byte> bytes = TestBytes((3 << 20) + 5, 2);
  const std::span<const std::byte> all = bytes;
  EXPECT_EQ(Crc32cConcat(Crc32c(all.first(7)), Crc32c(all.subspan(7)), all.size() - 7),
            Crc32c(all));
}

}  // namespace
}  // namespace longwave

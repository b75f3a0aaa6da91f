#include "common/control/control.h"

#include <gtest/gtest.h>

#include <set>

namespace longwave {
namespace {

TEST(CombineHashes, DependsOnValuesOrderAndCount) {
  const std::set<uint64_t> hashes = {
      CombineHashes({}),           CombineHashes({0}),       CombineHashes({0, 0}),
      CombineHashes({1}),          CombineHashes({1, 2}),    CombineHashes({2, 1}),
      CombineHashes({1, 2, 3}),    CombineHashes({1, 3, 2}), CombineHashes({3, 2, 1}),
      CombineHashes({1, 2, 3, 0}),
  };
  EXPECT_EQ(hashes.size(), 10u);
  EXPECT_EQ(CombineHashes({1, 2, 3}), CombineHashes({1, 2, 3}));
}

}  // namespace
}  // namespace longwave

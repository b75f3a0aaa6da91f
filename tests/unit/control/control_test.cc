#include "common/control/control.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "common/control/longer_run.h"

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

TEST(IsLongerRun, IsOneOfMoreStepsAndNoOtherDifference) {
  const std::string_view before = "a: 1\nrun.steps: 9\nb: 2\n";
  EXPECT_TRUE(IsLongerRun(before, "a: 1\nrun.steps: 10\nb: 2\n"));
  for (const char* const other :
       {"a: 1\nrun.steps: 9\nb: 2\n", "a: 1\nrun.steps: 8\nb: 2\n", "a: 1\nrun.steps: 10\nb: 3\n",
        "a: 1\nb: 2\n", "a: 1\nrun.steps: x\nb: 2\n", "a: 1\nrun.steps: 10\nb: 2\nc: 3\n", ""}) {
    EXPECT_FALSE(IsLongerRun(before, other)) << other;
  }
  EXPECT_FALSE(IsLongerRun("", before));
}

}  // namespace
}  // namespace longwave

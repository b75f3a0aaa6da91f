#include "worker/ranks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/config/config.h"

namespace longwave {
namespace {

// Of this process if rank 0 has started it, with this test's program again; else empty.
std::string PlaceHere() {
  std::ifstream file("/proc/self/cmdline");
  const std::string command{std::istreambuf_iterator<char>(file), {}};
  for (absl::string_view word : absl::StrSplit(command, '\0')) {
    if (absl::ConsumePrefix(&word, "--node-place=")) return std::string(word);
  }
  return "";
}

// A rank with a GPU among others without is refused before anything is computed, and rank 0 alone
// says so.
TEST(Ranks, ThatHaveDevicesOfOtherKindsAreRefusedInASentence) {
  const auto ranks = Ranks::Open(
      PlaceHere(),
      {"/proc/self/exe", "--gtest_filter=Ranks.ThatHaveDevicesOfOtherKindsAreRefusedInASentence"},
      [] {
        return ParseConfig("{}", "test", {"train.ranks=3", "train.micro_batches=3"});
      });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  KernelOps ops = **OpsFor(BackendKind::kCpu);
  EXPECT_EQ(ranks->AgreeOnDevice(Device{.ops = &ops}), absl::OkStatus());
  ops.on_device = ranks->rank() == 2;
  const absl::Status refused = ranks->AgreeOnDevice(Device{.ops = &ops});
  const auto all = ranks->link()->AllGather(
      ReportsError(ranks->rank(), refused) ? refused.ToString() : "", absl::Minutes(1));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, std::vector<std::string>(
                      {"FAILED_PRECONDITION: rank 2 of this node computes on cuda and rank 0 on "
                       "cpu, wanted one kind of train.device for all",
                       "", ""}));
}

TEST(Ranks, LeaveTheCoordinatorsReasonToRankZero) {
  const absl::Status ended = absl::AbortedError("worker 0 (node) is no longer a member");
  EXPECT_TRUE(ReportsError(0, ended));
  EXPECT_FALSE(ReportsError(1, ended));
}

}  // namespace
}  // namespace longwave

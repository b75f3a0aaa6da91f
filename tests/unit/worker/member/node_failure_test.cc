// Nodes of which a rank fails, hangs or is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <latch>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/coordinator_client.h"
#include "tests/support/test_folder.h"
#include "tests/unit/worker/member/node_testing.h"

namespace longwave {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(NodeTest, EndsAtAllRanksWithTheSentenceOfTheOneThatFails) {
  StartRun(1);
  Process node{.config = config_, .ranks = 3};
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (rank == 2 && step == 9) node.theta.back() = std::numeric_limits<float>::quiet_NaN();
  };
  node.Run();
  int told = 0;
  for (const absl::Status& ended : node.ended) {
    EXPECT_EQ(ended.code(), absl::StatusCode::kDataLoss) << ended;
    EXPECT_THAT(std::string(ended.message()), HasSubstr("NaN"));
    told += std::string(ended.message()).starts_with("rank 2 of this node") ? 1 : 0;
  }
  EXPECT_EQ(told, 2);
  EndRun(true, absl::StatusCode::kAborted);
}

TEST_F(NodeTest, EndsWithinTheHeartbeatTimeoutWhereARankHangs) {
  StartRun(1, {"cluster.heartbeat_timeout_s=1"});
  Process node{.config = config_, .ranks = 3};
  std::latch others(2);
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (rank == 2 && step == 9) others.wait();
  };
  node.at_end = [&](uint32_t rank) {
    if (rank != 2) others.count_down();
  };
  node.Run();
  for (const absl::Status& ended : node.ended)
    EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << ended;
  EndRun(false);
}

// As where a frozen rank is awaited in a collective call of the step, so that no meeting notices
// it.
TEST_F(NodeTest, LeavesWithinTheHeartbeatTimeoutWhereAStepHangs) {
  StartRun(1, {"cluster.heartbeat_timeout_s=3"});
  Process node{.config = config_, .ranks = 2};
  std::promise<absl::Time> hangs;
  std::latch thawed(1);
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (step < 9) return;
    if (rank == 0) hangs.set_value(MonotonicNow());
    thawed.wait();
    if (rank == 1) node.ends_now = true;
  };
  auto running = std::async([&] { node.Run(); });
  const absl::Time began = hangs.get_future().get();
  const auto client = CoordinatorClient::Connect(config_.cluster.coordinator);
  // The coordinator begins another epoch without it.
  const auto epoch = [&] { return client->GetStatus(kRoundNever)->epoch; };
  EXPECT_EQ(epoch(), 1u);
  // The limit is three seconds, unless a step of this machine took a tenth of them.
  while (epoch() == 1 && MonotonicNow() < began + absl::Seconds(60))
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(epoch(), 2u) << "it hangs and is still in the run";
  EXPECT_GE(MonotonicNow() - began, absl::Milliseconds(2500));  // the step began a moment before
  thawed.count_down();
  running.get();
  EXPECT_EQ(node.ended[0].code(), absl::StatusCode::kUnavailable) << node.ended[0];
  EndRun(false);
}

TEST_F(NodeTest, KeepsItsLastCheckpointWhereARankIsKilledInTheNext) {
  const TestFolder folder;
  StartRun(1, {}, folder.path());
  Process node{.config = config_, .ranks = 2, .state_dir = folder.path() + "/worker"};
  int saves = 0;
  node.at_save = [&](uint32_t rank, ThreadNode& ranks) {
    if (rank == 1 && ++saves == 3) ranks.End(rank);
  };
  node.Run();
  EXPECT_THAT(std::string(node.ended[0].message()), HasSubstr("rank 1 has ended"));
  EXPECT_TRUE(std::filesystem::exists(node.state_dir + "/checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(node.state_dir + "/checkpoint.stale"));
  Process back{.config = config_, .ranks = 2, .state_dir = node.state_dir};
  back.Run();
  EXPECT_THAT(back.ended, Each(absl::OkStatus()));
  EXPECT_EQ(back.first_step, 16u);
  EndRun(true);
}

TEST_F(NodeTest, WaitsForTheDiskOfARankAsLongAsItsCheckpointMayTake) {
  const TestFolder folder;
  StartRun(1, {"run.steps=16", "cluster.heartbeat_timeout_s=3"}, folder.path());
  Process node{.config = config_, .ranks = 2, .state_dir = folder.path() + "/worker"};
  node.kept_bytes = 30'000'000;
  node.at_save = [saves = 0](uint32_t rank, ThreadNode&) mutable {
    if (rank == 1 && ++saves == 1) absl::SleepFor(absl::Milliseconds(3500));
  };
  node.Run();
  EXPECT_THAT(node.ended, Each(absl::OkStatus()));
  EndRun(node.ended[0].ok());
}

TEST_F(NodeTest, EndsWhereARankHasEnded) {
  StartRun(1);
  Process node{.config = config_, .ranks = 2};
  node.config.cluster.heartbeat_timeout_s = 3600;
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (rank == 1 && step == 9) node.ends_now = true;
  };
  node.Run();
  EXPECT_THAT(std::string(node.ended[0].message()), HasSubstr("rank 1 has ended"));
  EndRun(false);
}

}  // namespace
}  // namespace longwave

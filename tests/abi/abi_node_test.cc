// A node's ranks as a program with longwave.h has them, each in a thread.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longwave.h"
#include "tests/abi/test_run.h"
#include "tests/support/thread_node_link.h"

namespace longwave {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kRanks = 2;
constexpr int64_t kRow = 4096;
constexpr size_t kParameters = 7 * kRow;

int Gather(void* context, const void* mine, size_t bytes, void* all, double seconds) {
  const auto gathered = static_cast<NodeLink*>(context)->AllGather(
      {static_cast<const char*>(mine), bytes}, absl::Seconds(seconds));
  if (!gathered.ok()) return 1;
  for (size_t r = 0; r < gathered->size(); ++r)
    std::memcpy(static_cast<char*>(all) + r * bytes, (*gathered)[r].data(), bytes);
  return 0;
}

struct Rank {
  uint32_t rank = 0;
  lw_member* member = nullptr;
  int joined = LW_INTERNAL;
  std::string error;  // of lw_join
  std::vector<float> theta, gradient;

  int Begin() {
    lw_run run{.size = sizeof run};
    EXPECT_EQ(lw_describe(member, &run), LW_OK) << lw_error();
    const lw_arrays arrays{.size = sizeof arrays,
                           .theta = theta.data(),
                           .gradient = run.sends_gradient ? gradient.data() : nullptr,
                           .device = LW_CPU};
    return lw_begin(member, &arrays);
  }
  std::vector<lw_range> Owned(uint32_t of) const {
    std::vector<lw_range> ranges(kParameters);
    const int64_t count = lw_owned(member, of, ranges.data(), ranges.size());
    EXPECT_GE(count, 0) << lw_error();
    ranges.resize(static_cast<size_t>(std::max<int64_t>(count, 0)));
    return ranges;
  }
};

class AbiNode : public testing::Test {
 protected:
  // Each rank joins and then does its part.
  void Run(const std::string& address, const std::function<void(Rank&)>& part) {
    ThreadNode node(ranks_);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks_; ++r) {
      threads.emplace_back([&, r] {
        const std::unique_ptr<NodeLink> link = node.Link(r);
        Rank rank{.rank = r,
                  .theta = std::vector<float>(rows_ * kRow),
                  .gradient = std::vector<float>(rows_ * kRow)};
        Join(address, link.get(), &rank);
        part(rank);
        lw_close(rank.member);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::string state_dir_;
  uint32_t ranks_ = kRanks;
  int64_t rows_ = kParameters / kRow;

 private:
  void Join(const std::string& address, NodeLink* link, Rank* rank) const {
    const lw_node node{.size = sizeof node,
                       .rank = rank->rank,
                       .ranks = ranks_,
                       .context = link,
                       .all_gather = &Gather};
    const lw_callbacks callbacks{.size = sizeof callbacks, .gradient_ready = [](void*) {
                                   return 1;  // as where it lacks another rank
                                 }};
    const char* const settings[] = {"cluster.start_timeout_s=0.2"};
    const lw_options options{.size = sizeof options,
                             .coordinator = address.c_str(),
                             .name = "node",
                             .state_dir = state_dir_.empty() ? nullptr : state_dir_.c_str(),
                             .settings = settings,
                             .setting_count = address == "127.0.0.1:1" ? 1u : 0u,
                             .callbacks = &callbacks,
                             .node = &node};
    const int64_t shape[] = {rows_, kRow};
    const lw_tensor tensor{.name = "weights", .shape = shape, .dimensions = 2};
    rank->joined = lw_join(&options, &tensor, 1, &rank->member);
    rank->error = lw_error();
  }
};

TEST_F(AbiNode, SyncsAtEachRankTheElementsThatItOwns) {
  TestRun run({"run.workers=1", "run.steps=25", "sync.segment_tiles=1"});
  Run(run.address(), [](Rank& rank) {
    ASSERT_EQ(rank.joined, LW_OK) << rank.error;
    std::vector<int> owners(kParameters);
    for (uint32_t of = 0; of < kRanks; ++of) {
      const std::vector<lw_range> ranges = rank.Owned(of);
      EXPECT_FALSE(ranges.empty());
      EXPECT_EQ(lw_owned(rank.member, of, nullptr, 0), static_cast<int64_t>(ranges.size()));
      for (const lw_range& range : ranges) {
        for (uint64_t i = range.begin; i < range.end; ++i) ++owners[i];
      }
    }
    EXPECT_THAT(owners, Each(1));
    EXPECT_EQ(lw_owned(rank.member, kRanks, nullptr, 0), LW_INVALID);
    int events = rank.Begin();
    while (events >= 0 && (events & LW_OVER) == 0) {
      for (float& value : rank.theta) value += 1;
      events = lw_step(rank.member, /*loss=*/1, /*tokens=*/0);
    }
    ASSERT_GE(events, 0) << lw_error();
    // The outer optimizer makes another number of the steps, at the owner alone.
    const std::vector<lw_range> others = rank.Owned(1 - rank.rank);
    for (const lw_range& range : others) EXPECT_EQ(rank.theta[range.begin], 25);
    EXPECT_NE(rank.theta[rank.Owned(rank.rank)[0].begin], 25);
    EXPECT_EQ(lw_finish(rank.member), LW_OK) << lw_error();
  });
  EXPECT_EQ(run.status().phase, RunPhase::kFinished);
}

TEST_F(AbiNode, HearsAtAllRanksOfARunThatWasFinishedBeforeAsOver) {
  TestRun run({"run.workers=1", "run.steps=25", "sync.segment_tiles=1"});
  for (const int begun : {0, static_cast<int>(LW_OVER)}) {
    Run(run.address(), [begun](Rank& rank) {
      ASSERT_EQ(rank.joined, LW_OK) << rank.error;
      int events = rank.Begin();
      EXPECT_EQ(events, begun) << lw_error();
      while (events >= 0 && (events & LW_OVER) == 0) events = lw_step(rank.member, 1, 0);
      EXPECT_EQ(lw_finish(rank.member), LW_OK) << lw_error();
    });
  }
}

TEST_F(AbiNode, HasRankZerosReasonAtAllRanksWhereItGetsNoConfiguration) {
  std::string errors[kRanks];
  Run("127.0.0.1:1", [&](Rank& rank) {
    EXPECT_EQ(rank.joined, LW_UNAVAILABLE) << rank.error;
    errors[rank.rank] = rank.error;
  });
  EXPECT_THAT(errors[0], HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(errors[1], "rank 0 of this node got no configuration: " + errors[0]);
}

TEST_F(AbiNode, LeavesWithoutAFailureWhereItsRanksAreAtDifferentSteps) {
  state_dir_ = absl::StrCat(testing::TempDir(), "/abi_node_", getpid());
  for (const uint32_t first : {0, 1}) {
    std::filesystem::remove_all(state_dir_);
    TestRun run({"run.workers=1", "run.steps=25", "sync.segment_tiles=1"});
    Run(run.address(), [&](Rank& rank) {
      ASSERT_EQ(rank.joined, LW_OK) << rank.error;
      ASSERT_GE(rank.Begin(), 0) << lw_error();
      for (int i = 0; i < 15; ++i) ASSERT_GE(lw_step(rank.member, 1, 0), 0) << lw_error();
      if (rank.rank != first) {
        EXPECT_EQ(lw_step(rank.member, 1, 0), LW_UNAVAILABLE) << lw_error();
        EXPECT_THAT(lw_error(), HasSubstr("the ranks are not at the same point"));
      }
      EXPECT_EQ(lw_leave(rank.member, nullptr), LW_UNAVAILABLE) << lw_error();
    });
    EXPECT_EQ(run.status().failure, "");
    EXPECT_FALSE(IsOver(run.status().phase)) << run.status().failure;
  }
  std::filesystem::remove_all(state_dir_);
}

// As where a step hangs for longer than the heartbeat timeout: rank 0 leaves, and the others go on.
TEST_F(AbiNode, HasTheCoordinatorsReasonAtAllRanksWhereTheRunGoesOnWithoutIt) {
  TestRun run(
      {"run.workers=1", "run.steps=25", "sync.segment_tiles=1", "cluster.heartbeat_timeout_s=4"});
  std::string errors[kRanks];
  Run(run.address(), [&](Rank& rank) {
    ASSERT_EQ(rank.joined, LW_OK) << rank.error;
    ASSERT_GE(rank.Begin(), 0) << lw_error();
    int events = lw_step(rank.member, 1, 0);
    ASSERT_GE(events, 0) << lw_error();
    while (run.status().epoch == 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    while (events >= 0) events = lw_step(rank.member, 1, 0);
    EXPECT_EQ(events, LW_STOPPED) << lw_error();
    EXPECT_EQ(lw_finish(rank.member), LW_ENDED);
    errors[rank.rank] = lw_error();
  });
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_NE(errors[0], "");
}

// The members' bytes: first weights, residual, anchor and velocity. All ranks together have what a
// single device has.
TEST_F(AbiNode, KeepsOfTheFirstWeightsItsOwnElements) {
  rows_ = 1024;
  const double model = static_cast<double>(rows_ * kRow * sizeof(float));
  const auto in_use = [] {
    const auto info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
  };
  if (in_use() == 0) GTEST_SKIP() << "a sanitizer's allocator counts nothing";
  const auto bytes_of = [&](uint32_t ranks) {
    ranks_ = ranks;
    TestRun run({"run.workers=1", "run.steps=25"});
    std::barrier meeting(ranks);
    double open = 0;
    Run(run.address(), [&](Rank& rank) {
      EXPECT_EQ(rank.joined, LW_OK) << rank.error;
      EXPECT_GE(rank.Begin(), 0) << lw_error();
      EXPECT_EQ(lw_leave(rank.member, nullptr), LW_OK) << lw_error();
      meeting.arrive_and_wait();
      if (rank.rank == 0) open = in_use();
      meeting.arrive_and_wait();
    });
    // θ and the gradient are the loops' own.
    return (open - in_use()) / model - 2 * ranks;
  };
  const double single = bytes_of(1);
  const double node = bytes_of(4);
  std::printf("%.2f models at one device, %.2f at four ranks\n", single, node);
  EXPECT_GT(single, 2);
  EXPECT_NEAR(node, single, 0.5);
}

TEST_F(AbiNode, LeavesWithoutAFailureWhereItsInnerOptimizerLacksARank) {
  TestRun run({"run.preset=ddp", "run.workers=1", "run.steps=25", "sync.inner_steps=1",
               "sync.segment_tiles=1"});
  Run(run.address(), [](Rank& rank) {
    ASSERT_EQ(rank.joined, LW_OK) << rank.error;
    ASSERT_GE(rank.Begin(), 0) << lw_error();
    int events = 0;
    for (int i = 0; i < 25 && events >= 0; ++i) events = lw_step(rank.member, 1, 0);
    EXPECT_LT(events, 0);
    EXPECT_EQ(lw_leave(rank.member, nullptr), LW_UNAVAILABLE) << lw_error();
  });
  EXPECT_THAT(run.status().failure, Not(HasSubstr("gradient_ready")));
}

}  // namespace
}  // namespace longwave

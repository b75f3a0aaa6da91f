// Nodes of several ranks in runs with a real coordinator and real shards.
#include "worker/member/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/coordinator_client.h"
#include "tests/support/shard_client.h"
#include "tests/support/test_folder.h"
#include "tests/unit/worker/member/node_testing.h"

namespace longwave {
namespace {

using ::testing::Each;
using ::testing::Not;

TEST_F(NodeTest, GivesTheBitsOfOneDeviceWhateverItsRanks) {
  const std::vector<float> alone = ThetaOf(1);
  EXPECT_EQ(ThetaOf(2), alone);
  EXPECT_EQ(ThetaOf(3), alone);
  EXPECT_EQ(ThetaOf(9), alone);  // two ranks have no segment
}

TEST_F(NodeTest, GivesTheBitsOfOneDeviceWithFragmentsAndAnOverlap) {
  const std::vector<std::string> settings = {"sync.fragments=3", "sync.overlap=1"};
  EXPECT_EQ(ThetaOf(2, settings), ThetaOf(1, settings));
}

TEST_F(NodeTest, IsInARunWithASingleDevice) {
  StartRun(2);
  Process node{.config = config_, .ranks = 3};
  Process single{.config = config_, .name = "single"};
  auto other = std::async([&] { single.Run(); });
  node.Run();
  other.get();
  EXPECT_THAT(node.ended, Each(absl::OkStatus()));
  EXPECT_THAT(single.ended, Each(absl::OkStatus()));
  EndRun(node.ended[0].ok() && single.ended[0].ok());
  EXPECT_EQ(node.theta, single.theta);
  EXPECT_NE(node.theta, std::vector<float>(kParameters));
}

TEST_F(NodeTest, TellsTheWarningsOfAllRanksAndTheMeanOfTheLossesThatThereAre) {
  StartRun(1);
  Process node{.config = config_,
               .ranks = 3,
               .losses = {std::nullopt, 2.0, 3.0},
               .warnings = {"of rank 0", "of rank 1", "of rank 1"}};
  RunStatus status;
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (rank != 0 || step != 79) return;
    while (status.warnings.size() < 2 || !status.members[0].state.train_loss)
      status = *CoordinatorClient::Connect(config_.cluster.coordinator)->GetStatus();
  };
  node.Run();
  EXPECT_THAT(node.ended, Each(absl::OkStatus()));
  EndRun(node.ended[0].ok());
  ASSERT_EQ(status.warnings.size(), 2u);
  EXPECT_EQ(SentenceOf(status.warnings[0]), "node: of rank 0");
  EXPECT_EQ(SentenceOf(status.warnings[1]), "node: of rank 1");
  EXPECT_EQ(status.members[0].state.train_loss, 2.5);
}

TEST_F(NodeTest, TheMetricsOfRank0AreTheWholeWorkers) {
  std::map<std::string, std::vector<double>> shown;
  for (const uint32_t ranks : {1, 3}) {
    StartRun(1, {"metrics.peak_tflops=2"});
    Metrics metrics(MetricPart::kWorker);
    Process node{.config = config_, .ranks = ranks, .metrics = &metrics};
    // Before the last step the figures of the last sync but one have been told.
    node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
      if (rank != 0 || step != 79) return;
      for (const char* name : {"compression_ratio", "signal_norm", "momentum_norm", "sent_norm"})
        shown[name].push_back(metrics.gauge(absl::StrCat("longwave_worker_", name)).value());
    };
    node.Run();
    EXPECT_THAT(node.ended, Each(absl::OkStatus()));
    EndRun(true);
    EXPECT_EQ(metrics.gauge("longwave_worker_ranks").value(), ranks);
    EXPECT_EQ(metrics.gauge("longwave_worker_peak_flops").value(), ranks * 2e12);
    EXPECT_EQ(metrics.counter("longwave_worker_tokens_total").value(), 80.0 * 8 * ranks);
    uint64_t meetings = 0;
    for (const uint64_t count : metrics.histogram("longwave_worker_meeting_seconds").Read().counts)
      meetings += count;
    EXPECT_TRUE(ranks == 1 ? meetings == 0 : meetings >= 80) << meetings;
  }
  for (const auto& [name, values] : shown) {
    EXPECT_GT(values.at(0), 0) << name;
    EXPECT_NEAR(values.at(1), values.at(0), 1e-6 * values.at(0)) << name;
  }
}

// A stop is requested at one rank. All of them write their parts, and another number of ranks goes
// on, whose first checkpoint removes the parts of the ranks before.
TEST_F(NodeTest, ComesBackFromACheckpointWithOtherRanks) {
  const TestFolder folder;
  StartRun(1, {}, folder.path());
  const auto run_until = [&](uint32_t ranks, uint64_t last_step) {
    Process node{.config = config_, .ranks = ranks, .state_dir = folder.path() + "/worker"};
    node.before_step = [=](uint32_t rank, uint64_t step, StopSignal& stop) {
      if (rank + 1 == ranks && step == last_step) stop.Request();
    };
    node.Run();
    EXPECT_THAT(node.ended, Each(absl::OkStatus()));
    uint32_t parts = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path() + "/worker"))
      parts += file.path().filename().string().starts_with("part.") ? 1 : 0;
    EXPECT_EQ(parts, ranks - 1);  // rank 0's is the checkpoint
    return std::pair(node.first_step, node.tokens);
  };
  EXPECT_EQ(run_until(2, 37).first, 0u);
  EXPECT_EQ(run_until(3, 60).first, 32u);
  EXPECT_EQ(run_until(1, 70).first, 56u);
  const auto [first_step, tokens] = run_until(2, 1000);
  EXPECT_EQ(first_step, 64u);
  // The checkpoints have the totals of the earlier processes: 38 steps of two ranks, 29 of three,
  // 15 of one.
  EXPECT_EQ(tokens, 8u * (2 * 38 + 3 * 29 + 15 + 2 * 16));
  EndRun(true);
}

// Bytes beyond the burst, and beyond a frame of each rank that may start in debt, take their time.
TEST_F(NodeTest, KeepsTheUploadLimitWithAllItsRanks) {
  constexpr double kBytesPerSecond = 25e3;
  StartRun(1, {absl::StrCat("cluster.max_upload_mbit=", kBytesPerSecond * 8e-6)});
  Metrics metrics(MetricPart::kWorker);
  Process node{.config = config_, .ranks = 4, .metrics = &metrics};
  absl::Time began;
  node.before_step = [&](uint32_t rank, uint64_t step, StopSignal&) {
    if (rank == 0 && step == 0) began = MonotonicNow();
  };
  node.Run();
  const double seconds = absl::ToDoubleSeconds(MonotonicNow() - began);
  EXPECT_THAT(node.ended, Each(absl::OkStatus()));
  EndRun(node.ended[0].ok());
  const double pushed = metrics.counter("longwave_worker_bytes_total", {"pushed"}).value();
  const double frame = pushed / (10 * 7);  // of ten rounds of seven segments
  EXPECT_GT(pushed, 8 * 4 * frame);
  EXPECT_GE(seconds, (pushed - 4 * frame) / kBytesPerSecond - 0.05) << pushed;
}

// As many connections as a worker may have. A shard knows all of them, and still the ones of before
// when the worker comes back (WorkerConnections).
TEST_F(NodeTest, HasAsManyConnectionsToAShardAsAWorkerMay) {
  const TestFolder folder;
  StartRun(1, {"cluster.connections=16"}, folder.path());
  const auto client = ShardClient::Connect(shards_[0]->control_address());
  for (const uint64_t last_step : {37, 1000}) {
    uint32_t most = 0;
    Process node{.config = config_, .ranks = 4, .state_dir = folder.path() + "/worker"};
    node.before_step = [&](uint32_t rank, uint64_t step, StopSignal& stop) {
      if (rank != 0) return;
      const absl::StatusOr<ShardReport> report = client->GetStatus();
      ASSERT_TRUE(report.ok()) << report.status();
      if (!report->workers.empty()) most = std::max(most, report->workers[0].connections);
      if (step == last_step) stop.Request();
    };
    node.Run();
    EXPECT_THAT(node.ended, Each(absl::OkStatus()));
    EXPECT_GE(most, 64u);
    EXPECT_LE(most, last_step == 37 ? 64u : 128u);
  }
  EndRun(true);
}

TEST_F(NodeTest, IsRefusedWithMoreConnectionsThanAWorkerMayHave) {
  StartRun(1, {"cluster.connections=13"});
  Process node{.config = config_, .ranks = 5};
  node.Run();
  EXPECT_THAT(node.ended,
              Each(absl::InvalidArgumentError(
                  "node: got 5 ranks with 13 connections to a shard each (cluster.connections), "
                  "wanted at most 64 together")));
  EndRun(false);
}

// A process ends when round 5 is merged in the segments of rank 0 alone. The next one has to fill
// the round's other segments, with a gradient that is cleared in each rank's own elements.
TEST_F(NodeTest, ClearsTheGradientOfARanksOwnElements) {
  const TestFolder folder;
  StartRun(1, {"run.preset=demo", "run.steps=12", "sync.inner_steps=1"}, folder.path());
  Process first{.config = config_, .ranks = 2};
  first.gradients.assign(2, std::vector<float>(kParameters));
  std::atomic<int> settled = 0;
  first.watch = [&](uint32_t rank, WatchedExchange* exchange) {
    exchange->post = [=](const SegmentPush& push) { return rank == 0 || push.round < 5; };
    exchange->next = [=, &settled](const std::optional<Settled>& event) {
      if (rank == 0 && event.has_value() && event->round == 5) ++settled;
      return rank == 1 && settled == 3 ? absl::UnavailableError("as a process that was killed")
                                       : absl::OkStatus();
    };
  };
  first.Run();
  EXPECT_THAT(first.ended, Each(Not(absl::OkStatus())));

  Process back{.config = config_, .ranks = 2};
  back.gradients.assign(2, std::vector<float>(kParameters, 7));
  const Layout layout = *Layout::Create(kManifest, LayoutOptionsFor(config_, kManifest));
  std::atomic<int> filled = 0;
  back.watch = [&](uint32_t rank, WatchedExchange* exchange) {
    exchange->post = [&, rank](const SegmentPush& push) {
      if (push.round > 5) return true;
      ++filled;
      std::vector<float> wanted(kParameters, 7);
      for (const auto& [begin, end] :
           FragmentElements(layout, 0, 1, SegmentsOfRank(layout, rank, 2)))
        std::fill(wanted.begin() + static_cast<ptrdiff_t>(begin),
                  wanted.begin() + static_cast<ptrdiff_t>(end), 0.0f);
      EXPECT_EQ(back.gradients[rank], wanted) << "rank " << rank;
      return true;
    };
    exchange->next = [](const std::optional<Settled>&) { return absl::OkStatus(); };
  };
  back.Run();
  EXPECT_THAT(back.ended, Each(absl::OkStatus()));
  EXPECT_EQ(filled, 4);
  EndRun(true);
}

}  // namespace
}  // namespace longwave

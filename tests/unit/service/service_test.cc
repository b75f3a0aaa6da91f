// The services around the pure cores, in one process: a coordinator, a shard, and a worker that is
// this test.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/link/link.h"
#include "common/rpc/coordinator_client.h"
#include "common/wire/payload.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/coordinator_service.h"
#include "server/service/metrics_file.h"
#include "server/service/shard_service.h"
#include "tests/support/shard_client.h"
#include "tests/support/test_folder.h"
#include "tests/unit/service/shard_worker.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

TEST(MetricsLine, HasEveryFieldAndNullsForWhatIsNoNumber) {
  const RoundRecord record{
      .round = 3,
      .step = 90,
      .train_loss = std::numeric_limits<double>::quiet_NaN(),
      .tokens = 1000,
      .bytes = {.pushed = 1, .pulled = 2, .payload_pushed = 3, .payload_pulled = 4},
      .seconds = 1.5,
      .tokens_per_second = 20,
      .replicas_equal = true,
      .state_hash = 0xabc,
      .members = 4,
      .compute_share = 0.5};
  EXPECT_EQ(MetricsLine(record),
            R"({"round":3,"step":90,"train_loss":null,"validation_loss":null,"tokens":1000,)"
            R"("tokens_per_second":20.0,"seconds":1.5,"bytes_pushed":1,"bytes_pulled":2,)"
            R"("payload_bytes_pushed":3,"payload_bytes_pulled":4,"replicas_equal":true,)"
            R"("state_hash":"0000000000000abc","members":4,"compute_share":0.5})");
}

class ServiceTest : public ::testing::Test {
 protected:
  explicit ServiceTest(RunConfig config = OneRoundConfig())
      : config_(std::move(config)),
        manifest_(*GptManifest(config_.model)),
        layout_(LayoutOf(config_, manifest_)) {}
  ~ServiceTest() override {
    stop_.request_stop();
    coordinator_stop_.request_stop();
    if (shard_running_.valid()) shard_running_.wait();
    if (coordinator_running_.valid()) coordinator_running_.wait();
  }

  void StartCoordinator(bool exit_when_done) {
    auto coordinator = CoordinatorService::Start({.config = config_,
                                                  .address = "127.0.0.1:0",
                                                  .run_dir = run_dir_.string(),
                                                  .exit_when_done = exit_when_done});
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    coordinator_running_ = std::async(
        std::launch::async, [this] { return coordinator_->Run(coordinator_stop_.get_token()); });
    client_ = CoordinatorClient::Connect(coordinator_->address(), kWait);
  }

  absl::StatusOr<std::unique_ptr<ShardService>> NewShard(const RunConfig& config) const {
    return ShardService::Start({.config = config,
                                .coordinator = coordinator_->address(),
                                .data_endpoint = "tcp://127.0.0.1:0",
                                .control_address = "127.0.0.1:0",
                                .state_dir = state_dir_});
  }
  void StartShard() {
    auto shard = NewShard(config_);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
    std::promise<void> ready;
    shard_running_ = std::async(std::launch::async, [this, &ready] {
      return shard_->Run(stop_.get_token(), [&ready] { ready.set_value(); });
    });
    ready.get_future().wait();
  }

  // Ends the shard like a signal.
  void StopShard() {
    stop_.request_stop();
    EXPECT_TRUE(shard_running_.get().ok());
    shard_ = nullptr;
    stop_ = std::stop_source();
  }

  // Heartbeats until the reply satisfies `done`.
  template <typename Done>
  WorkerHeartbeatReply HeartbeatUntil(WorkerHeartbeat heartbeat, const Done& done) {
    const absl::Time deadline = absl::Now() + kWait;
    while (absl::Now() < deadline) {
      const auto reply = client_->Heartbeat(heartbeat);
      EXPECT_TRUE(reply.ok()) << reply.status();
      if (!reply.ok() || done(*reply)) return reply.value_or(WorkerHeartbeatReply());
      heartbeat.rounds.clear();  // reported once
    }
    ADD_FAILURE() << "the coordinator never said what was waited for";
    return {};
  }

  RegisterWorker FirstWorker() const {
    return {.name = "w",
            .manifest = manifest_,
            .layout_hash = layout_.hash(),
            .incarnation = 1,
            .settings = BindingSettings(config_),
            .start_hashes = std::vector<uint64_t>(layout_.segments().size())};
  }
  // Registers this test as the worker, and waits for the membership.
  WorkerHeartbeatReply JoinAsWorker() {
    const auto worker = client_->Register(FirstWorker());
    EXPECT_TRUE(worker.ok()) << worker.status();
    heartbeat_ = {.worker = worker.value_or(0), .incarnation = 1};
    WorkerHeartbeatReply reply =
        HeartbeatUntil(heartbeat_, [](const auto& reply) { return reply.membership.has_value(); });
    heartbeat_.known_epoch = reply.membership.has_value() ? reply.membership->epoch : 0;
    return reply;
  }

  // A connection of the worker to the shard, as at a run's beginning.
  std::unique_ptr<Dealer> Greet(uint64_t run) {
    auto dealer = Dealer::Connect(shard_->data_endpoint());
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    SayHello(**dealer, run, heartbeat_.worker);
    return *std::move(dealer);
  }
  // The push of round 0, and what is said to it.
  Outcome Push(Dealer& dealer, uint64_t run, uint32_t segment = 0) {
    PushFrame header = Header<PushFrame>(run, heartbeat_.worker);
    header.segment = segment;
    EXPECT_TRUE(dealer.Send(header, ZeroPayload(config_, layout_, segment)).ok());
    return OutcomeOf(MustReceive(dealer));
  }

  // Reports the one round and the sealing round, and sees both services end.
  void EndRun() {
    heartbeat_.state.phase = WorkerPhase::kDone;
    const std::vector<uint64_t> hashes(layout_.segments().size(), 0x77);
    heartbeat_.rounds = {{.round = 0,
                          .step = 1,
                          .train_loss = 2.5,
                          .validation_loss = 2.25,
                          .segment_hashes = hashes,
                          .tokens = 100},
                         {.round = 1, .step = 1, .segment_hashes = hashes, .tokens = 100}};
    heartbeat_.final = FinalReport{.validation_loss = 2.25, .model_file = "model.safetensors"};
    HeartbeatUntil(heartbeat_,
                   [](const auto& reply) { return reply.instruction == Instruction::kStop; });
    EXPECT_TRUE(shard_running_.get().ok());
    EXPECT_TRUE(coordinator_running_.get().ok());
  }

  const RunConfig config_;
  const Manifest manifest_;
  const Layout layout_;
  const TestFolder temporary_;
  const std::filesystem::path run_dir_ = temporary_.path() + "/run";
  std::string state_dir_;  // of the shard
  std::stop_source stop_;
  std::stop_source coordinator_stop_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::unique_ptr<ShardService> shard_;
  std::unique_ptr<CoordinatorClient> client_;
  std::future<absl::Status> coordinator_running_;
  std::future<absl::Status> shard_running_;
  WorkerHeartbeat heartbeat_;
};

TEST_F(ServiceTest, ARunOfOneRoundEndsByItself) {
  StartCoordinator(/*exit_when_done=*/true);
  StartShard();
  const WorkerHeartbeatReply joined = JoinAsWorker();
  ASSERT_EQ(joined.shards.size(), 1u);
  EXPECT_EQ(joined.shards[0].data_endpoint, shard_->data_endpoint());

  const auto dealer = Greet(joined.run);
  EXPECT_EQ(Push(*dealer, joined.run), Outcome::kAccepted);
  EXPECT_EQ(MustReceive(*dealer).header.kind(), FrameKind::kMerged);
  const auto report = ShardClient::Connect(joined.shards[0].control_endpoint, kWait)->GetStatus();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->state.segments_closed, 1u);

  EndRun();

  std::ifstream metrics(run_dir_ / "metrics.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  const auto round = nlohmann::json::parse(line);
  EXPECT_EQ(round["train_loss"], 2.5);
  EXPECT_EQ(round["validation_loss"], 2.25);
  EXPECT_EQ(round["replicas_equal"], true);
  EXPECT_FALSE(std::getline(metrics, line));
}

TEST_F(ServiceTest, AShardStartedAgainWithItsFolderGoesOnWhereItWas) {
  state_dir_ = (run_dir_ / "state").string();
  StartCoordinator(/*exit_when_done=*/true);
  StartShard();
  const WorkerHeartbeatReply joined = JoinAsWorker();
  ASSERT_EQ(joined.shards.size(), 1u);
  auto dealer = Greet(joined.run);
  EXPECT_EQ(Push(*dealer, joined.run), Outcome::kAccepted);
  const FrameHeader merged = MustReceive(*dealer).header;

  StopShard();
  StartShard();
  const WorkerHeartbeatReply moved = HeartbeatUntil(heartbeat_, [&](const auto& reply) {
    return reply.membership.has_value() && !reply.shards.empty() &&
           reply.shards[0].data_endpoint == shard_->data_endpoint();
  });
  heartbeat_.known_epoch = moved.membership->epoch;
  dealer = Greet(joined.run);
  EXPECT_EQ(Push(*dealer, joined.run), Outcome::kDuplicate);
  EXPECT_EQ(MustReceive(*dealer).header, merged) << "as it was told before, to the bit";
  EndRun();
}

// A log of many gigabytes takes longer to read than the coordinator waits for a heartbeat.
TEST_F(ServiceTest, AShardThatTakesLongToOpenItsFolderIsHeardMeanwhile) {
  state_dir_ = (run_dir_ / "state").string();
  StartCoordinator(/*exit_when_done=*/true);
  StartShard();
  // Opening a pipe waits for its other end.
  const std::string pipe = state_dir_ + "/shard.db";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_TRUE(client_->Register(FirstWorker()).ok());
  const auto shard = [this] { return client_->GetStatus(0)->shards.at(0); };
  const absl::Time deadline = absl::Now() + kWait;
  while (shard().trouble.empty() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_THAT(shard().trouble, HasSubstr("opens its folder"));
  EXPECT_LT(shard().heartbeat_age_s, 10);
  const int other_end = open(pipe.c_str(), O_RDWR);
  unlink(pipe.c_str());
  JoinAsWorker();
  while (!shard().trouble.empty() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(shard().trouble, "");
  close(other_end);
}

TEST_F(ServiceTest, AFolderThatAnotherProcessHasIsRefusedAtOnce) {
  state_dir_ = (run_dir_ / "state").string();
  StartCoordinator(/*exit_when_done=*/false);
  StartShard();
  JoinAsWorker();
  const auto second = NewShard(config_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
}

// A shard that may keep a megabyte, and two segments whose pushes are larger than that.
class SmallShardTest : public ServiceTest {
 protected:
  SmallShardTest() : ServiceTest(SmallConfig()) {}
  static RunConfig SmallConfig() {
    RunConfig config = OneRoundConfig();
    config.model = {.kind = "gpt", .d_model = 128, .layers = 3, .heads = 1, .context = 64};
    config.sync.segment_tiles = 80;
    config.cluster.shard_memory_mb = 1;
    return config;
  }
};

TEST_F(SmallShardTest, AnswersBusyUntilTheOldestSegmentIsClosedAndTheRunEnds) {
  StartCoordinator(/*exit_when_done=*/true);
  StartShard();
  const WorkerHeartbeatReply joined = JoinAsWorker();
  ASSERT_EQ(joined.shards.size(), 1u);
  ASSERT_EQ(layout_.segments().size(), 2u);
  const auto dealer = Greet(joined.run);
  EXPECT_EQ(Push(*dealer, joined.run, 1), Outcome::kBusy);
  for (const uint32_t segment : {0, 1}) {
    EXPECT_EQ(Push(*dealer, joined.run, segment), Outcome::kAccepted);
    EXPECT_EQ(MustReceive(*dealer).header.segment(), segment);
  }
  const auto report = ShardClient::Connect(joined.shards[0].control_endpoint, kWait)->GetStatus();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->state.pushes_busy, 1u);
  EXPECT_EQ(report->state.segments_closed, 2u);
  EndRun();
}

TEST_F(ServiceTest, AFailedRunIsTheCoordinatorsFailure) {
  StartCoordinator(/*exit_when_done=*/true);
  StartShard();
  JoinAsWorker();
  heartbeat_.failure = "the loss is not a number";
  HeartbeatUntil(heartbeat_,
                 [](const auto& reply) { return reply.instruction == Instruction::kStop; });
  EXPECT_TRUE(shard_running_.get().ok());
  const absl::Status ended = coordinator_running_.get();
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("the loss is not a number"));
}

TEST_F(ServiceTest, StopRunEndsShardAndCoordinator) {
  StartCoordinator(/*exit_when_done=*/false);
  StartShard();
  ASSERT_TRUE(client_->StopRun("enough").ok());
  EXPECT_TRUE(shard_running_.get().ok());
  EXPECT_TRUE(coordinator_running_.get().ok());
}

TEST_F(ServiceTest, AStopRequestEndsEach) {
  StartCoordinator(/*exit_when_done=*/false);
  StartShard();
  stop_.request_stop();
  EXPECT_TRUE(shard_running_.get().ok());
  coordinator_stop_.request_stop();
  EXPECT_TRUE(coordinator_running_.get().ok());
}

TEST_F(ServiceTest, AShardOfAnotherConfigurationSaysWhatDiffers) {
  StartCoordinator(/*exit_when_done=*/false);
  RunConfig config = config_;
  config.sync.rho = 0.5;
  auto shard = NewShard(config);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const absl::Status ended =
      (*shard)->Run(stop_.get_token(), [] { ADD_FAILURE() << "it is not ready"; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("shard 0: sync.rho: got 0.5, wanted 1 as"));
}

TEST_F(ServiceTest, AShardWhosePlaceALiveOneHasWaitsForItAndThenSaysWhy) {
  StartCoordinator(/*exit_when_done=*/false);
  StartShard();
  RunConfig config = config_;
  config.cluster.start_timeout_s = 1;
  // On a machine that stalls the last attempt may not be answered in time, which is another reason.
  const absl::Time deadline = absl::Now() + kWait;
  absl::Status ended;
  do {
    auto second = NewShard(config);
    ASSERT_TRUE(second.ok()) << second.status();
    ended = (*second)->Run(stop_.get_token(), [] { ADD_FAILURE() << "it is not ready"; });
  } while (absl::StrContains(ended.message(), "no answer from") && absl::Now() < deadline);
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("asks for the place of one at tcp://"));
}

}  // namespace
}  // namespace longwave

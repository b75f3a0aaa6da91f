// The services around the pure cores, in one process: a coordinator, a shard, and a worker that is
// this test.
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

#include "absl/strings/str_cat.h"
#include "common/config/config.h"
#include "common/link/link.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/shard_client.h"
#include "common/wire/payload.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/coordinator_service.h"
#include "server/service/metrics_file.h"
#include "server/service/shard_data_plane.h"
#include "server/service/shard_service.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(60);
constexpr uint64_t kRun = 0x1234;

Manifest OneMatrix() { return Manifest{{{"w", {64, 64}}}}; }

// The plain average of one tile of fp32.
RunConfig OneRoundConfig() {
  auto config = ParseConfig(
      "run: {preset: ddp, steps: 1, workers: 1, shards: 1}\n"
      "train: {warmup_steps: 0}\n"
      "sync: {up: {codec: fp32}, down: {codec: fp32}}\n",
      "test.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

Layout LayoutOf(const RunConfig& config) {
  auto layout = Layout::Create(OneMatrix(), LayoutOptionsFor(config, OneMatrix()));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// A segment's worth of zeros in the form that `config` asks for.
Buffer ZeroPayload(const RunConfig& config, const Layout& layout) {
  const auto form = PayloadLayout::Create(config.sync.up, layout.TileSizes(0));
  EXPECT_TRUE(form.ok()) << form.status();
  std::vector<std::byte> payload(form->bytes());
  BeginPayload(*form, payload);
  return Buffer(std::move(payload));
}

FrameHeader Header(FrameKind kind, uint64_t run, uint32_t worker) {
  FrameHeader header;
  header.kind = kind;
  header.run = run;
  header.epoch = 1;
  header.worker = worker;
  header.weight = kind == FrameKind::kPush ? 100 : 0;
  return header;
}

Frame MustReceive(Dealer& dealer) {
  auto received = dealer.Receive(kWait);
  EXPECT_TRUE(received.ok() && received->has_value()) << "nothing came";
  if (!received.ok() || !received->has_value()) return {};
  return **std::move(received);
}

std::string Text(const Buffer& payload) {
  return std::string(reinterpret_cast<const char*>(payload.bytes().data()), payload.size());
}

class DataPlaneTest : public ::testing::Test {
 protected:
  DataPlaneTest() : config_(OneRoundConfig()), layout_(LayoutOf(config_)) {}

  void SetUp() override {
    auto router = Router::Bind("tcp://127.0.0.1:0");
    ASSERT_TRUE(router.ok()) << router.status();
    plane_ = std::make_unique<ShardDataPlane>(*std::move(router));
    serving_ = std::async(std::launch::async, [this] { return plane_->Serve(); });
    dealer_ = NewDealer();
  }
  void TearDown() override {
    plane_->Stop();
    EXPECT_TRUE(serving_.get().ok());
  }

  std::unique_ptr<Dealer> NewDealer() {
    auto dealer = Dealer::Connect(plane_->endpoint());
    EXPECT_TRUE(dealer.ok()) << dealer.status();
    return *std::move(dealer);
  }

  void Begin(std::vector<Member> members) {
    auto aggregator = Aggregator::Create(
        {.run = kRun, .up = config_.sync.up, .rho = config_.sync.rho, .down = config_.sync.down},
        layout_);
    ASSERT_TRUE(aggregator.ok()) << aggregator.status();
    plane_->Begin(kRun, *std::move(aggregator));
    plane_->SetMembership({.epoch = 1, .members = std::move(members)});
  }

  const RunConfig config_;
  const Layout layout_;
  std::unique_ptr<ShardDataPlane> plane_;
  std::future<absl::Status> serving_;
  std::unique_ptr<Dealer> dealer_;
};

TEST_F(DataPlaneTest, FramesThatComeBeforeTheMembershipWait) {
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  // Nothing can be answered yet; what was sent has time to arrive, or arrives later: both are well.
  EXPECT_FALSE(dealer_->Receive(absl::Milliseconds(20))->has_value());
  Begin({{0, "a", 0}});
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
  EXPECT_EQ(plane_->state().pushes_accepted, 1u);
  EXPECT_EQ(plane_->segments().at(0).open_round, 1u);
}

TEST_F(DataPlaneTest, MergedUpdateGoesToEveryMember) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  const auto other = NewDealer();
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(plane_->segments().at(0).waiting_for, std::vector<uint32_t>{1});
  ASSERT_TRUE(other->Send(Header(FrameKind::kPush, kRun, 1), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*other).header.outcome, Outcome::kAccepted);
  const Frame here = MustReceive(*dealer_);
  const Frame there = MustReceive(*other);
  EXPECT_EQ(here.header.kind, FrameKind::kMerged);
  EXPECT_EQ(here.header.weight, 200u);
  EXPECT_EQ(here.header, there.header);
}

TEST_F(DataPlaneTest, AMemberThatLeavesIsNotWaitedFor) {
  Begin({{0, "a", 0}, {1, "b", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  // The thread that serves waits for frames; the membership alone must wake it.
  plane_->SetMembership({.epoch = 2, .members = {{0, "a", 0}}});
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
}

TEST_F(DataPlaneTest, AnswersFollowAWorkerToItsNewConnection) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPush, kRun, 0), ZeroPayload(config_, layout_)).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  dealer_ = NewDealer();
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kPull, kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.kind, FrameKind::kMerged);
}

TEST_F(DataPlaneTest, HelloIsAcceptedFromMembersOfThisRunAlone) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun, 0), Buffer()).ok());
  EXPECT_EQ(MustReceive(*dealer_).header.outcome, Outcome::kAccepted);
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun + 1, 0), Buffer()).ok());
  Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload),
            "hello of run 0000000000001235, this shard serves run 0000000000001234");
  ASSERT_TRUE(dealer_->Send(Header(FrameKind::kHello, kRun, 7), Buffer()).ok());
  answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_EQ(Text(answer.payload), "worker 7 is not a member of epoch 1");
}

TEST_F(DataPlaneTest, RejectedPushSaysWhy) {
  Begin({{0, "a", 0}});
  ASSERT_TRUE(
      dealer_->Send(Header(FrameKind::kPush, kRun, 0), Buffer(std::vector<std::byte>(7))).ok());
  const Frame answer = MustReceive(*dealer_);
  EXPECT_EQ(answer.header.outcome, Outcome::kRejected);
  EXPECT_FALSE(answer.payload.empty());
}

TEST_F(DataPlaneTest, StopsWithoutEverKnowingAMembership) {}

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
  ServiceTest()
      : config_(OneRoundConfig()),
        layout_(LayoutOf(config_)),
        run_dir_(std::filesystem::path(::testing::TempDir()) /
                 absl::StrCat("longwave-service-test-", getpid())) {}
  ~ServiceTest() override {
    stop_.request_stop();
    coordinator_stop_.request_stop();
    if (shard_running_.valid()) shard_running_.wait();
    if (coordinator_running_.valid()) coordinator_running_.wait();
    std::filesystem::remove_all(run_dir_);
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

  void StartShard() {
    auto shard = ShardService::Start({.config = config_,
                                      .shard = 0,
                                      .coordinator = coordinator_->address(),
                                      .data_endpoint = "tcp://127.0.0.1:0",
                                      .control_address = "127.0.0.1:0"});
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
    std::promise<void> ready;
    shard_running_ = std::async(std::launch::async, [this, &ready] {
      return shard_->Run(stop_.get_token(), [&ready] { ready.set_value(); });
    });
    ready.get_future().wait();
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

  // Registers this test as the worker, and waits for the membership.
  WorkerHeartbeatReply JoinAsWorker() {
    const auto worker = client_->Register(RegisterWorker{.name = "w",
                                                         .manifest = OneMatrix(),
                                                         .layout_hash = layout_.hash(),
                                                         .incarnation = 1,
                                                         .settings = BindingSettings(config_)});
    EXPECT_TRUE(worker.ok()) << worker.status();
    heartbeat_ = {.worker = worker.value_or(0), .incarnation = 1};
    WorkerHeartbeatReply reply =
        HeartbeatUntil(heartbeat_, [](const auto& reply) { return reply.membership.has_value(); });
    heartbeat_.known_epoch = reply.membership.has_value() ? reply.membership->epoch : 0;
    return reply;
  }

  const RunConfig config_;
  const Layout layout_;
  const std::filesystem::path run_dir_;
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

  auto dealer = Dealer::Connect(joined.shards[0].data_endpoint);
  ASSERT_TRUE(dealer.ok());
  ASSERT_TRUE((*dealer)
                  ->Send(Header(FrameKind::kPush, joined.run, heartbeat_.worker),
                         ZeroPayload(config_, layout_))
                  .ok());
  EXPECT_EQ(MustReceive(**dealer).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(MustReceive(**dealer).header.kind, FrameKind::kMerged);
  const auto report = ShardClient::Connect(joined.shards[0].control_endpoint, kWait)->GetStatus();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->state.segments_closed, 1u);

  heartbeat_.state.phase = WorkerPhase::kDone;
  heartbeat_.rounds = {{.round = 0,
                        .step = 1,
                        .train_loss = 2.5,
                        .validation_loss = 2.25,
                        .segment_hashes = {0x77},
                        .tokens = 100}};
  heartbeat_.final = FinalReport{.validation_loss = 2.25, .model_file = "model.safetensors"};
  HeartbeatUntil(heartbeat_,
                 [](const auto& reply) { return reply.instruction == Instruction::kStop; });
  EXPECT_TRUE(shard_running_.get().ok());
  EXPECT_TRUE(coordinator_running_.get().ok());

  std::ifstream metrics(run_dir_ / "metrics.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  const auto round = nlohmann::json::parse(line);
  EXPECT_EQ(round["train_loss"], 2.5);
  EXPECT_EQ(round["validation_loss"], 2.25);
  EXPECT_EQ(round["replicas_equal"], true);
  EXPECT_FALSE(std::getline(metrics, line));
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
  auto shard = ShardService::Start({.config = config,
                                    .shard = 0,
                                    .coordinator = coordinator_->address(),
                                    .data_endpoint = "tcp://127.0.0.1:0",
                                    .control_address = "127.0.0.1:0"});
  ASSERT_TRUE(shard.ok()) << shard.status();
  const absl::Status ended =
      (*shard)->Run(stop_.get_token(), [] { ADD_FAILURE() << "it is not ready"; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("shard 0: sync.rho: got 0.5, wanted 1 as"));
}

TEST_F(ServiceTest, AShardThatIsNotWantedSaysWhy) {
  StartCoordinator(/*exit_when_done=*/false);
  StartShard();
  auto second = ShardService::Start({.config = config_,
                                     .shard = 0,
                                     .coordinator = coordinator_->address(),
                                     .data_endpoint = "tcp://127.0.0.1:0",
                                     .control_address = "127.0.0.1:0"});
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status ended =
      (*second)->Run(stop_.get_token(), [] { ADD_FAILURE() << "it is not ready"; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace longwave

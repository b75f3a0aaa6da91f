// A shard as a pod of a cluster runs it: it announces other addresses than it binds, is probed, and
// is started again when it ends.
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/health_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"
#include "tests/support/raw_call.h"
#include "tests/unit/service/shard_worker.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr int kServing = 1;
constexpr int kNotServing = 2;

class ShardInAPod : public ::testing::Test {
 protected:
  ShardInAPod() : config_(OneRoundConfig()) {
    config_.security.mode = "off";  // addresses of pods are announced, without certificates
  }
  ~ShardInAPod() override {
    stop_.request_stop();
    if (running_.valid()) running_.wait();
    coordinator_stop_.request_stop();
    if (coordinator_running_.valid()) coordinator_running_.wait();
  }

  void StartCoordinator() {
    auto coordinator = CoordinatorService::Start(
        {.config = config_, .address = "127.0.0.1:0", .health_address = "127.0.0.1:0"});
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    coordinator_running_ = std::async(
        std::launch::async, [this] { return coordinator_->Run(coordinator_stop_.get_token()); });
    client_ = CoordinatorClient::Connect(coordinator_->address(), kWait);
  }

  ShardServiceOptions Options() const {
    return {.config = config_,
            .shard = 0,
            .coordinator = coordinator_ != nullptr ? coordinator_->address() : "127.0.0.1:1",
            .data_endpoint = "tcp://127.0.0.1:0",
            .control_address = "127.0.0.1:0",
            .health_address = "127.0.0.1:0"};
  }

  void Start(const ShardServiceOptions& options) {
    auto shard = ShardService::Start(options);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
  }
  // Returns once the shard is ready.
  void RunUntilReady() {
    std::promise<void> ready;
    running_ = std::async(std::launch::async, [this, &ready] {
      return shard_->Run(stop_.get_token(), [&ready] { ready.set_value(); });
    });
    ready.get_future().wait();
  }
  // Probes again and again, as a kubelet does.
  bool BecomesReady() {
    const absl::Time deadline = absl::Now() + kWait;
    while (absl::Now() < deadline) {
      if (ProbeReady() == kServing) return true;
    }
    return false;
  }
  int ProbeReady() { return ProbeHealth(shard_->health_address(), HealthServer::kReadyService); }

  RunConfig config_;
  std::stop_source stop_;
  std::stop_source coordinator_stop_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::unique_ptr<ShardService> shard_;
  std::unique_ptr<CoordinatorClient> client_;
  std::future<absl::Status> coordinator_running_;
  std::future<absl::Status> running_;
};

TEST_F(ShardInAPod, AnnouncesWhereItIsToldThatOthersReachIt) {
  StartCoordinator();
  ShardServiceOptions options = Options();
  options.advertised_data = "shard-0.example:7072";
  options.advertised_control = "shard-0.example:7073";
  Start(options);
  EXPECT_EQ(shard_->advertised_data(), "tcp://shard-0.example:7072");
  EXPECT_EQ(shard_->advertised_control(), "shard-0.example:7073");
  EXPECT_THAT(shard_->data_endpoint(), HasSubstr("127.0.0.1"));
  RunUntilReady();
  const auto status = client_->GetStatus(0);
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->shards.size(), 1u);
  EXPECT_EQ(status->shards[0].shard.data_endpoint, "tcp://shard-0.example:7072");
  EXPECT_EQ(status->shards[0].shard.control_endpoint, "shard-0.example:7073");
}

TEST_F(ShardInAPod, TakesItsOwnOfTheAddressesOfAll) {
  ShardServiceOptions options = Options();
  options.shard = 1;
  options.advertised_data = "tcp://a:1,tcp://b:2";
  Start(options);
  EXPECT_EQ(shard_->advertised_data(), "tcp://b:2");
  options.shard = 2;
  const auto third = ShardService::Start(options);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(third.status().message()),
            "--advertise: got 2 addresses, wanted one for shard 2 too, or one alone");
}

TEST_F(ShardInAPod, RefusesAnAddressThatNobodyCanConnectTo) {
  for (const char* address : {"0.0.0.0:7072", "tcp://host:0", "host"}) {
    ShardServiceOptions options = Options();
    options.advertised_data = address;
    const auto shard = ShardService::Start(options);
    EXPECT_EQ(shard.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(shard.status().message()), HasSubstr("--advertise: endpoint"));
  }
  ShardServiceOptions options = Options();
  options.advertised_control = "host:port";
  EXPECT_THAT(std::string(ShardService::Start(options).status().message()),
              HasSubstr("--control-advertise: endpoint"));
}

TEST_F(ShardInAPod, IsReadyOnceTheCoordinatorKnowsIt) {
  Start(Options());  // of a coordinator that is not there
  EXPECT_EQ(ProbeHealth(shard_->health_address(), ""), kServing);
  EXPECT_EQ(ProbeReady(), kNotServing);
  StartCoordinator();
  Start(Options());
  EXPECT_EQ(ProbeReady(), kNotServing);
  RunUntilReady();
  EXPECT_TRUE(BecomesReady());
}

TEST_F(ShardInAPod, ACoordinatorIsReadyAtOnce) {
  StartCoordinator();
  EXPECT_EQ(ProbeHealth(coordinator_->health_address(), HealthServer::kReadyService), kServing);
}

TEST_F(ShardInAPod, StaysWhenTheRunIsOverUntilItIsToldToEnd) {
  StartCoordinator();
  ShardServiceOptions options = Options();
  options.stay_when_done = true;
  Start(options);
  RunUntilReady();
  ASSERT_TRUE(client_->StopRun("enough").ok());
  // The coordinator goes home once the shard has heard it.
  ASSERT_TRUE(coordinator_running_.get().ok());
  EXPECT_TRUE(BecomesReady());
  stop_.request_stop();
  EXPECT_TRUE(running_.get().ok());
}

}  // namespace
}  // namespace longwave

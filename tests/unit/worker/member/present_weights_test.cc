#include "worker/member/present_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/rpc/coordinator_client.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

// Stops a run of two workers once it is in `phase`, while the weights are awaited there.
absl::Status StoppedIn(RunPhase phase) {
  RunConfig config =
      *ParseConfig("{}", "present_weights",
                   {"run.preset=diloco", "run.workers=2", "run.shards=1", "run.steps=1000",
                    "model.kind=external", "cluster.heartbeat_interval_s=0.05"});
  const auto coordinator = *CoordinatorService::Start(
      {.config = config, .address = "127.0.0.1:0", .exit_when_done = true});
  config.cluster.coordinator = coordinator->address();
  std::stop_source stop;
  auto coordinated = std::async([&] { return coordinator->Run(stop.get_token()); });
  // At the advertised port nobody answers: what is fetched does not come before the run's end.
  const auto shard = *ShardService::Start({.config = config,
                                           .coordinator = config.cluster.coordinator,
                                           .data_endpoint = "tcp://127.0.0.1:0",
                                           .control_address = "127.0.0.1:0",
                                           .advertised_data = "127.0.0.1:1"});
  auto sharded = std::async([&] { return shard->Run(stop.get_token(), [] {}); });
  const auto fetch = [&](const std::string& name, std::vector<float> start) {
    return FetchPresentWeights(config, name, {{{"theta", {256}}}}, std::move(start),
                               absl::Minutes(1));
  };
  // The first worker has the run's first weights; the other one fetches them.
  std::future<absl::StatusOr<PresentWeights>> first;
  if (phase == RunPhase::kTraining)
    first = std::async([&] { return fetch("first", std::vector<float>(256)); });
  auto fetched = std::async([&] { return fetch("weights", {}); });
  const auto client =
      CoordinatorClient::Connect(config.cluster.coordinator, absl::Seconds(10), /*credentials=*/"");
  absl::StatusOr<RunStatus> run = client->GetStatus(kRoundNever);
  while (run.ok() && (run->phase != phase || run->members.empty() || run->shards.empty())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run = client->GetStatus(kRoundNever);
  }
  EXPECT_EQ(client->StopRun("the test's reason"), absl::OkStatus());
  const absl::Status ended = fetched.get().status();
  stop.request_stop();
  EXPECT_EQ(sharded.get(), absl::OkStatus());
  coordinated.get().IgnoreError();
  return ended;
}

TEST(PresentWeights, OfARunThatEndsMeanwhileAreRefusedWithThatReason) {
  for (const RunPhase phase : {RunPhase::kWaiting, RunPhase::kTraining}) {
    const absl::Status ended = StoppedIn(phase);
    EXPECT_TRUE(absl::IsAborted(ended)) << ended;
    EXPECT_THAT(ended.message(), HasSubstr("the run has ended meanwhile"));
  }
}

}  // namespace
}  // namespace longwave

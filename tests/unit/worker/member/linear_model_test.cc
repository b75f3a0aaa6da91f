// A worker of one's own: a linear model, fitted by two members of a real run.
#include <filesystem>
#include <future>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "gtest/gtest.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"
#include "worker/member/member.h"
#include "worker/member/member_place.h"

namespace longwave {
namespace {

constexpr size_t kFeatures = 256;
constexpr int kRows = 32;

double TruthOf(size_t feature) { return feature % 3 == 0 ? 1 : -0.5; }

absl::StatusOr<std::vector<float>> Fit(const RunConfig& config, const std::string& name) {
  std::vector<float> theta(kFeatures);
  StopSignal stop;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MemberPlace> place,
      MemberPlace::Open({.config = config, .name = name, .manifest = {{{"weights", {kFeatures}}}}},
                        &stop));
  LONGWAVE_ASSIGN_OR_RETURN(const uint32_t worker, place->Join(theta));
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* const ops, OpsFor(BackendKind::kCpu));
  LONGWAVE_ASSIGN_OR_RETURN(const MemberParts parts,
                            place->Begin({.theta = theta.data(), .ops = ops, .initial_weights = [] {
                                            return std::vector<float>(kFeatures);
                                          }}));
  TrainingMember member(parts);
  uint64_t moves = 0;
  absl::StatusOr<bool> trains = member.Begin();
  while (trains.ok() && *trains) {
    Rng rng(member.step(), worker);  // no two workers see the same rows
    std::vector<float> gradient(kFeatures), x(kFeatures);
    double loss = 0;
    for (int row = 0; row < kRows; ++row) {
      double error = 0;
      for (size_t i = 0; i < kFeatures; ++i) {
        x[i] = static_cast<float>(rng.Uniform() - 0.5);
        error += x[i] * (theta[i] - TruthOf(i));
      }
      loss += error * error / kRows;
      for (size_t i = 0; i < kFeatures; ++i)
        gradient[i] += static_cast<float>(error * x[i] / kRows);
    }
    for (size_t i = 0; i < kFeatures; ++i)
      theta[i] -= static_cast<float>(member.learning_rate()) * gradient[i];
    trains = member.StepDone(kRows, loss);
    moves += member.has_moved() ? 1 : 0;
  }
  EXPECT_GT(moves, 0u);
  EXPECT_LE(moves, member.rounds());
  LONGWAVE_RETURN_IF_ERROR(place->End(trains.status()));
  return theta;
}

TEST(LinearModel, IsFittedByTwoMembersWhoseReplicasAreEqual) {
  RunConfig config =
      *ParseConfig("{}", "linear_model",
                   {"run.preset=diloco", "run.workers=2", "run.shards=1", "run.steps=1000",
                    "sync.inner_steps=10", "model.kind=external", "train.learning_rate=0.3",
                    "train.warmup_steps=0", "cluster.heartbeat_interval_s=0.05"});
  const auto coordinator = *CoordinatorService::Start(
      {.config = config, .address = "127.0.0.1:0", .exit_when_done = true});
  config.cluster.coordinator = coordinator->address();
  std::stop_source stop;
  auto coordinated = std::async([&] { return coordinator->Run(stop.get_token()); });
  const auto shard = *ShardService::Start({.config = config,
                                           .coordinator = config.cluster.coordinator,
                                           .data_endpoint = "tcp://127.0.0.1:0",
                                           .control_address = "127.0.0.1:0"});
  auto sharded = std::async([&] { return shard->Run(stop.get_token(), [] {}); });
  auto other = std::async([&] { return Fit(config, "other"); });
  const absl::StatusOr<std::vector<float>> theta = Fit(config, "one");
  const absl::StatusOr<std::vector<float>> theirs = other.get();
  EXPECT_TRUE(theta.ok()) << theta.status();
  EXPECT_TRUE(theirs.ok()) << theirs.status();
  if (!theta.ok() || !theirs.ok()) stop.request_stop();
  EXPECT_EQ(sharded.get(), absl::OkStatus());
  EXPECT_EQ(coordinated.get(), absl::OkStatus());
  ASSERT_TRUE(theta.ok() && theirs.ok());
  EXPECT_EQ(*theta, *theirs);
  for (size_t i = 0; i < kFeatures; ++i) EXPECT_NEAR((*theta)[i], TruthOf(i), 0.05) << i;
}

}  // namespace
}  // namespace longwave

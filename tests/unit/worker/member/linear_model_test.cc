// A worker of one's own: a linear model, fitted by two members of a real run.
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
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

// The servers of a run.
class Servers {
 public:
  explicit Servers(const std::string& workers)
      : config_(
            *ParseConfig("{}", "linear_model",
                         {"run.preset=diloco", workers, "run.shards=1", "run.steps=1000",
                          "sync.inner_steps=10", "model.kind=external", "train.learning_rate=0.3",
                          "train.warmup_steps=0", "cluster.heartbeat_interval_s=0.05"})),
        coordinator_(*CoordinatorService::Start(
            {.config = config_, .address = "127.0.0.1:0", .exit_when_done = true})) {
    config_.cluster.coordinator = coordinator_->address();
    coordinated_ = std::async([this] { return coordinator_->Run(stop_.get_token()); });
    shard_ = *ShardService::Start({.config = config_,
                                   .coordinator = config_.cluster.coordinator,
                                   .data_endpoint = "tcp://127.0.0.1:0",
                                   .control_address = "127.0.0.1:0"});
    sharded_ = std::async([this] { return shard_->Run(stop_.get_token(), [] {}); });
  }
  const RunConfig& config() const { return config_; }
  // ended: the run has ended by itself.
  void End(bool ended) {
    if (!ended) stop_.request_stop();
    EXPECT_EQ(sharded_.get(), absl::OkStatus());
    EXPECT_EQ(coordinated_.get(), absl::OkStatus());
  }

 private:
  RunConfig config_;
  std::stop_source stop_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::unique_ptr<ShardService> shard_;
  std::future<absl::Status> coordinated_, sharded_;
};

// A new thread's current GPU is the first one, whichever the arrays are on.
TEST(LinearModel, TakesMemoryOnTheCallersThreadWhicheverOneWaits) {
  static const KernelOps* const cpu = *OpsFor(BackendKind::kCpu);
  static std::set<std::thread::id> threads;
  KernelOps ops = *cpu;
  ops.allocate = [](size_t bytes) {
    threads.insert(std::this_thread::get_id());
    return cpu->allocate(bytes);
  };
  Servers servers("run.workers=1");
  std::vector<float> theta(kFeatures);
  StopSignal stop;
  const auto place = *MemberPlace::Open(
      {.config = servers.config(), .name = "one", .manifest = {{{"weights", {kFeatures}}}}}, &stop);
  EXPECT_TRUE(place->Join(theta).ok());
  int waits = 0;
  const auto parts =
      place->Begin({.theta = theta.data(),
                    .ops = &ops,
                    .initial_weights = [] { return std::vector<float>(kFeatures); },
                    .wait =
                        [&waits](absl::FunctionRef<absl::Status()> work) {
                          ++waits;
                          return std::async(std::launch::async, [&] { return work(); }).get();
                        }});
  EXPECT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  place->End(absl::CancelledError("enough")).IgnoreError();
  servers.End(false);
}

TEST(LinearModel, IsFittedByTwoMembersWhoseReplicasAreEqual) {
  Servers servers("run.workers=2");
  auto other = std::async([&] { return Fit(servers.config(), "other"); });
  const absl::StatusOr<std::vector<float>> theta = Fit(servers.config(), "one");
  const absl::StatusOr<std::vector<float>> theirs = other.get();
  EXPECT_TRUE(theta.ok()) << theta.status();
  EXPECT_TRUE(theirs.ok()) << theirs.status();
  servers.End(theta.ok() && theirs.ok());
  ASSERT_TRUE(theta.ok() && theirs.ok());
  EXPECT_EQ(*theta, *theirs);
  for (size_t i = 0; i < kFeatures; ++i) EXPECT_NEAR((*theta)[i], TruthOf(i), 0.05) << i;
}

}  // namespace
}  // namespace longwave

// A worker of one's own: a linear model, fitted by two members of a real run.
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"
#include "tests/abi/test_run.h"
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
  // The phases name all of the time that syncs took.
  const double synced = member.stats().seconds_syncing;
  EXPECT_GT(synced, 0);
  EXPECT_NEAR(member.metrics().SyncSeconds(), synced, 0.01 * synced);
  LONGWAVE_RETURN_IF_ERROR(place->End(trains.status()));
  return theta;
}

// A new thread's current GPU is the first one, whichever the arrays are on.
TEST(LinearModel, TakesMemoryOnTheCallersThreadWhicheverOneWaits) {
  static const KernelOps* const cpu = *OpsFor(BackendKind::kCpu);
  static std::set<std::thread::id> threads;
  KernelOps ops = *cpu;
  ops.allocate = [](size_t bytes) {
    threads.insert(std::this_thread::get_id());
    return cpu->allocate(bytes);
  };
  const TestRun run({"run.workers=1", "run.steps=1000"});
  std::vector<float> theta(kFeatures);
  StopSignal stop;
  const auto place = *MemberPlace::Open(
      {.config = run.config(), .name = "one", .manifest = {{{"weights", {kFeatures}}}}}, &stop);
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
}

TEST(LinearModel, IsFittedByTwoMembersWhoseReplicasAreEqual) {
  const TestRun run({"run.workers=2", "run.steps=1000"});
  auto other = std::async([&] { return Fit(run.config(), "other"); });
  const absl::StatusOr<std::vector<float>> theta = Fit(run.config(), "one");
  const absl::StatusOr<std::vector<float>> theirs = other.get();
  EXPECT_TRUE(theta.ok()) << theta.status();
  EXPECT_TRUE(theirs.ok()) << theirs.status();
  ASSERT_TRUE(theta.ok() && theirs.ok());
  EXPECT_EQ(*theta, *theirs);
  for (size_t i = 0; i < kFeatures; ++i) EXPECT_NEAR((*theta)[i], TruthOf(i), 0.05) << i;
}

}  // namespace
}  // namespace longwave

#ifndef LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_
#define LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"

namespace longwave {
inline constexpr uint64_t kLayoutHash = 77;
inline constexpr char kSettings[] = "run.steps: 600\nsync.rho: 0.25\n";

inline Manifest Model(int64_t width = 4) { return {{{"w", {8, width}}, {"b", {8}}}}; }

// A coordinator whose time is `now_`, in seconds since the first event. Workers are named
// worker-<i>, with incarnation 100 + i; shards have incarnation 200 + i.
class CoordinatorTest : public testing::Test {
 protected:
  void Make(const CoordinatorOptions& options) { coordinator_.emplace(options); }

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event) {
    return coordinator_->Step(event, absl::UnixEpoch() + absl::Seconds(now_), rng_);
  }
  RunStatus Status(uint64_t from = 0) {
    return coordinator_->Status(from, absl::UnixEpoch() + absl::Seconds(now_));
  }

  static RegisterWorker Worker(uint32_t i) {
    return {"worker-" + std::to_string(i), Model(), kLayoutHash, 100 + i, kSettings};
  }
  static RegisterShard Shard(uint32_t i) {
    return {i, "tcp://host:" + std::to_string(i), "host:" + std::to_string(i), 200 + i, kSettings};
  }
  static WorkerHeartbeat Beat(uint32_t worker, std::vector<RoundReport> rounds = {},
                              uint32_t known_epoch = 0) {
    WorkerHeartbeat heartbeat;
    heartbeat.worker = worker;
    heartbeat.incarnation = 100 + worker;
    heartbeat.state.phase = WorkerPhase::kTraining;
    heartbeat.rounds = std::move(rounds);
    heartbeat.known_epoch = known_epoch;
    return heartbeat;
  }
  static WorkerHeartbeat FinalBeat(uint32_t worker) {
    WorkerHeartbeat heartbeat = Beat(worker);
    heartbeat.final = FinalReport{};
    if (worker == 0) heartbeat.final->model_file = "model.safetensors";
    return heartbeat;
  }
  static ShardHeartbeat ShardBeat(uint32_t shard, uint32_t known_epoch = 0,
                                  bool knows_manifest = false) {
    return {shard, 200 + shard, known_epoch, knows_manifest, {}, ""};
  }
  static RoundReport Report(uint32_t round, std::vector<uint64_t> hashes = {1, 2}) {
    RoundReport report;
    report.round = round;
    report.step = (round + 1) * 10;
    report.train_loss = 2;
    report.segment_hashes = std::move(hashes);
    report.tokens = (round + 1) * 100;
    return report;
  }

  // Registers everyone.
  void Begin(const CoordinatorOptions& options) {
    Make(options);
    for (uint32_t i = 0; i < options.shards_wanted; ++i) Step(Shard(i));
    for (uint32_t i = 0; i < options.workers_wanted; ++i) Step(Worker(i));
    ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  }
  void ShardsKnow(uint32_t epoch, uint32_t shards = 1) {
    for (uint32_t i = 0; i < shards; ++i) Step(ShardBeat(i, epoch, true));
  }

  template <typename T>
  static std::vector<T> All(const std::vector<CoordinatorEffect>& effects) {
    std::vector<T> found;
    for (const auto& effect : effects) {
      if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
    }
    return found;
  }
  template <typename T>
  static T Only(const std::vector<CoordinatorEffect>& effects) {
    const std::vector<T> all = All<T>(effects);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? T{} : all.front();
  }
  // The refusal must be the only effect.
  static std::string Refusal(const std::vector<CoordinatorEffect>& effects, absl::StatusCode code) {
    EXPECT_EQ(effects.size(), 1u);
    const auto refused = All<Refused>(effects);
    if (refused.empty()) {
      ADD_FAILURE() << "wanted a refusal";
      return "";
    }
    EXPECT_EQ(refused[0].status.code(), code) << refused[0].status;
    return std::string(refused[0].status.message());
  }

  std::optional<Coordinator> coordinator_;
  Rng rng_{1};
  double now_ = 0;
};

inline CoordinatorOptions Options(uint32_t workers, uint32_t shards, uint64_t rounds = 10) {
  CoordinatorOptions options;
  options.workers_wanted = workers;
  options.shards_wanted = shards;
  options.rounds = rounds;
  options.settings = kSettings;
  return options;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_

#ifndef LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_
#define LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
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
// worker-<i>, with incarnation 100 + i and identity 300 + i; shards have incarnation 200 + i.
class CoordinatorTest : public testing::Test {
 protected:
  static RegisterShard Back(uint32_t i, uint64_t incarnation, uint64_t run) {
    RegisterShard request = Shard(i);
    request.incarnation = incarnation;
    request.run = run;
    request.data_endpoint = "tcp://elsewhere:" + std::to_string(i);
    return request;
  }
  uint64_t Run() { return coordinator_->Export(absl::UnixEpoch()).state.run; }

  void Make(const CoordinatorOptions& options) {
    coordinator_.emplace(options);
    rounds_ = static_cast<uint32_t>(options.rounds);
  }

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event) {
    return coordinator_->Step(event, absl::UnixEpoch() + absl::Seconds(now_), rng_);
  }
  RunStatus Status(uint64_t from = 0) {
    return coordinator_->Status(from, absl::UnixEpoch() + absl::Seconds(now_));
  }

  static RegisterWorker Worker(uint32_t i) {
    return {.name = "worker-" + std::to_string(i),
            .identity = 300 + i,
            .manifest = Model(),
            .layout_hash = kLayoutHash,
            .incarnation = 100 + i,
            .settings = kSettings,
            .start_hashes = {51, 52}};
  }
  // Another process of the same name and folder.
  static RegisterWorker Returning(uint32_t i, uint64_t incarnation) {
    RegisterWorker request = Worker(i);
    request.incarnation = incarnation;
    return request;
  }
  static RegisterShard Shard(uint32_t i) {
    return {.shard = i,
            .data_endpoint = "tcp://host:" + std::to_string(i),
            .control_endpoint = "host:" + std::to_string(i),
            .incarnation = 200 + i,
            .settings = kSettings};
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
  // With a report of the first sealing round, or another one.
  WorkerHeartbeat SealBeat(uint32_t worker, std::vector<uint64_t> hashes = {1, 2},
                           uint32_t sealing_round = 0) const {
    return Beat(worker, {Report(rounds_ + sealing_round, std::move(hashes))});
  }
  void Seal(const std::vector<uint32_t>& workers) {
    for (const uint32_t worker : workers) Step(SealBeat(worker));
  }
  static WorkerHeartbeat FinalBeat(uint32_t worker) {
    WorkerHeartbeat heartbeat = Beat(worker);
    heartbeat.final = FinalReport{};
    if (worker == 0) heartbeat.final->model_file = "model.safetensors";
    return heartbeat;
  }
  static ShardHeartbeat ShardBeat(uint32_t shard, uint32_t known_epoch = 0,
                                  bool knows_manifest = false) {
    return {.shard = shard,
            .incarnation = 200 + shard,
            .known_epoch = known_epoch,
            .knows_manifest = knows_manifest};
  }
  // A sign of life from a shard with this newest open round, all of whose segments are there.
  static ShardHeartbeat ShardAt(uint32_t shard, uint32_t newest_round, uint32_t known_epoch = 1) {
    ShardHeartbeat heartbeat = ShardBeat(shard, known_epoch, true);
    heartbeat.state.open_round = heartbeat.state.newest_round = newest_round;
    return heartbeat;
  }
  // A joining member that has caught up, as the process `incarnation`.
  static WorkerHeartbeat Ready(uint32_t worker, uint64_t incarnation, uint32_t ready_round,
                               uint32_t known_epoch) {
    WorkerHeartbeat heartbeat = Beat(worker, {}, known_epoch);
    heartbeat.incarnation = incarnation;
    heartbeat.ready_round = ready_round;
    return heartbeat;
  }
  uint32_t FirstRound(uint32_t worker) { return Status().members.at(worker).member.first_round; }
  static RoundReport Report(uint32_t round, std::vector<uint64_t> hashes = {1, 2}) {
    RoundReport report;
    report.round = round;
    report.step = (round + 1) * 10;
    report.train_loss = 2;
    report.segment_hashes = std::move(hashes);
    report.tokens = (round + 1) * 100;
    return report;
  }

  // Registers everyone. The shards have closed `closed` rounds as far as reports are concerned,
  // while the newest open round is 0, from which first rounds count.
  void Begin(const CoordinatorOptions& options, std::optional<uint32_t> closed = std::nullopt) {
    Make(options);
    for (uint32_t i = 0; i < options.shards_wanted; ++i) Step(Shard(i));
    for (uint32_t i = 0; i < options.workers_wanted; ++i) Step(Worker(i));
    for (uint32_t i = 0; i < options.shards_wanted; ++i) {
      ShardHeartbeat heartbeat = ShardBeat(i);
      heartbeat.state.open_round = closed.value_or(static_cast<uint32_t>(options.rounds));
      Step(heartbeat);
    }
    ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  }
  void ShardsKnow(uint32_t epoch, uint32_t shards = 1) {
    for (uint32_t i = 0; i < shards; ++i) Step(ShardBeat(i, epoch, true));
  }

  // Time passes to `until`; these workers and all shards are heard each second.
  std::vector<CoordinatorEffect> Pass(double until, const std::vector<uint32_t>& workers,
                                      bool shards = true) {
    std::vector<CoordinatorEffect> effects;
    const auto take = [&](std::vector<CoordinatorEffect> more) {
      effects.insert(effects.end(), more.begin(), more.end());
    };
    while (now_ < until) {
      now_ = std::min(now_ + 1, until);
      for (const uint32_t worker : workers) Step(Beat(worker));
      if (shards) {
        for (const ShardStatus& shard : Status().shards) {
          // The answer has the epoch that the shard knows then.
          Step(ShardBeat(shard.shard.shard, 0, true));
          ShardHeartbeat heartbeat = ShardBeat(shard.shard.shard, Status().epoch, true);
          heartbeat.state = shard.state;
          take(Step(heartbeat));
        }
      }
      take(Step(Tick{}));
    }
    return effects;
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
  static std::string Notices(const std::vector<CoordinatorEffect>& effects) {
    std::string text;
    for (const Notice& notice : All<Notice>(effects)) text += notice.text + "\n";
    return text;
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
  uint32_t rounds_ = 0;
  Rng rng_{1};
  double now_ = 0;
};

inline CoordinatorOptions Options(uint32_t workers, uint32_t shards, uint64_t rounds = 10) {
  CoordinatorOptions options;
  options.workers_wanted = workers;
  options.shards_wanted = shards;
  options.rounds = rounds;
  options.settings = kSettings;
  options.segment_count = [](const Manifest&, uint64_t) { return 2; };
  return options;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_COORDINATOR_COORDINATOR_TESTING_H_

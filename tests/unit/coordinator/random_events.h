#ifndef LONGWAVE_TESTS_UNIT_COORDINATOR_RANDOM_EVENTS_H_
#define LONGWAVE_TESTS_UNIT_COORDINATOR_RANDOM_EVENTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/rng.h"
#include "server/coordinator/coordinator.h"
#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {

// Draws the events of a run with all kinds of faults. The draws take the run's status into account,
// so that events are likely to have an effect.
class RandomEvents {
 public:
  static constexpr uint32_t kNames = 5;
  static constexpr uint32_t kShards = 2;

  explicit RandomEvents(uint64_t seed) : rng_(seed) {
    for (uint32_t i = 0; i < kNames; ++i)
      workers_[i] = {.incarnation = 100 + i, .identity = 300 + i};
    for (uint32_t i = 0; i < kShards; ++i) shards_[i] = 200 + i;
  }

  static CoordinatorOptions RunOptions() {
    CoordinatorOptions options = Options(2, kShards, 40);
    options.start_timeout = absl::Hours(1000);
    options.takes_other_starts = true;
    return options;
  }

  bool Chance(double share) { return rng_.Uniform() < share; }
  // Multiples of a quarter: sums of them have no rounding.
  double Seconds() { return static_cast<double>(rng_.Below(Chance(0.02) ? 160 : 6)) / 4; }

  // Only the shards' epochs are tracked.
  void Told(uint32_t shard, uint32_t epoch) { told_[shard] = epoch; }

  CoordinatorEvent Next(const RunStatus& status, uint64_t run) {
    if (Chance(0.0005)) return StopRequested{"by chance"};
    if (Chance(0.15)) return Tick{};
    if (Chance(0.04) || (status.phase == RunPhase::kWaiting && Chance(0.5))) {
      return Chance(0.6) ? CoordinatorEvent(Registration(status))
                         : CoordinatorEvent(ShardRegistrationOf(run));
    }
    if (Chance(0.3)) return BeatOfShard(status);
    return BeatOfWorker(status);
  }

 private:
  struct Process {
    uint64_t incarnation = 0;
    uint64_t identity = 0;
    uint64_t former = 0;  // incarnation
    uint32_t next_round = 0;
  };

  static uint32_t NameOf(const MemberStatus& member) {
    return static_cast<uint32_t>(member.member.name.back() - '0');
  }

  RegisterWorker Registration(const RunStatus& status) {
    const auto name = static_cast<uint32_t>(rng_.Below(status.members.size() < 2 ? 2 : kNames));
    Process& process = workers_[name];
    if (Chance(0.5)) process.former = std::exchange(process.incarnation, rng_.Next());
    if (Chance(0.1)) process.identity = rng_.Next();
    RegisterWorker request{.name = "worker-" + std::to_string(name),
                           .identity = process.identity,
                           .manifest = Model(Chance(0.02) ? 5 : 4),
                           .layout_hash = kLayoutHash,
                           .incarnation = process.incarnation,
                           .settings = kSettings,
                           .start_hashes = {51, Chance(0.02) ? uint64_t{53} : 52}};
    return request;
  }

  RegisterShard ShardRegistrationOf(uint64_t run) {
    const auto shard = static_cast<uint32_t>(rng_.Below(kShards));
    if (Chance(0.5)) shards_[shard] = rng_.Next();
    return {.shard = shard,
            .data_endpoint = "tcp://host:" + std::to_string(rng_.Below(1000)),
            .control_endpoint = "host:1",
            .incarnation = shards_[shard],
            .settings = kSettings,
            .run = Chance(0.5) ? run : 0};
  }

  ShardHeartbeat BeatOfShard(const RunStatus& status) {
    if (status.shards.empty()) return {.shard = 0};
    ShardHeartbeat heartbeat;
    heartbeat.shard = status.shards[rng_.Below(status.shards.size())].shard.shard;
    heartbeat.incarnation = shards_[heartbeat.shard];
    const uint32_t told = told_[heartbeat.shard];
    heartbeat.known_epoch = Chance(0.9) ? told : told / 2;
    heartbeat.knows_manifest = Chance(0.8);
    heartbeat.state.newest_round = newest_round_;
    heartbeat.state.open_round = newest_round_;
    heartbeat.state.log_records = rng_.Below(1000);
    heartbeat.trouble = Chance(0.03) ? "the disk is full" : "";
    if (Chance(0.2)) {
      const auto round = static_cast<uint32_t>(rng_.Below(newest_round_ + 2));
      heartbeat.snapshots = {{0, round, 10 + round - 1}, {1, round, 77}};
    }
    return heartbeat;
  }

  WorkerHeartbeat BeatOfWorker(const RunStatus& status) {
    if (status.members.empty()) return {.worker = 0};
    const MemberStatus& member = status.members[rng_.Below(status.members.size())];
    Process& process = workers_[NameOf(member)];
    WorkerHeartbeat heartbeat;
    heartbeat.worker = member.member.worker;
    heartbeat.incarnation = Chance(0.03) ? process.former : process.incarnation;
    heartbeat.state.phase = WorkerPhase::kTraining;
    heartbeat.state.step = rng_.Below(1000);
    heartbeat.known_epoch = Chance(0.8) ? status.epoch : 0;
    if (status.phase == RunPhase::kWaiting) return heartbeat;
    const bool joins = member.member.first_round == kRoundNever;
    if (joins && Chance(0.5)) heartbeat.ready_round = newest_round_;
    if (joins && Chance(0.03)) heartbeat.failure = "cannot catch up";
    if (Chance(0.01)) heartbeat.leaving = true;
    if (!joins && Chance(0.6)) Report(member, process, &heartbeat);
    return heartbeat;
  }

  void Report(const MemberStatus& member, Process& process, WorkerHeartbeat* heartbeat) {
    const uint32_t rounds = static_cast<uint32_t>(RunOptions().rounds);
    process.next_round = std::max(process.next_round, member.member.first_round);
    if (Chance(0.05)) ++process.next_round;  // skips a round
    // From then on sealing rounds.
    if (process.next_round >= rounds && Chance(0.3)) {
      heartbeat->final = FinalReport{.model_file = "model.safetensors"};
      return;
    }
    RoundReport report;
    report.round = process.next_round++;
    report.step = report.round * 10;
    report.train_loss = 2;
    if (Chance(0.2)) report.validation_loss = 3;
    report.segment_hashes = {10 + report.round, Chance(0.1) ? rng_.Below(3) : 5};
    report.tokens = (report.round + 1) * 100;
    report.seconds_computing = report.round;
    heartbeat->rounds.push_back(report);
    newest_round_ = std::max(newest_round_, std::min(process.next_round, rounds));
  }

  Rng rng_;
  std::array<Process, kNames> workers_;
  std::array<uint64_t, kShards> shards_;
  std::array<uint32_t, kShards> told_ = {};  // the newest epoch of each
  uint32_t newest_round_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_COORDINATOR_RANDOM_EVENTS_H_

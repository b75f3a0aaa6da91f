#ifndef LONGWAVE_TESTS_SIM_SETTINGS_H_
#define LONGWAVE_TESTS_SIM_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/control/round_plan.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"
#include "server/coordinator/coordinator.h"
#include "server/shard_state/durable_shard.h"
#include "tests/sim/canary.h"
#include "tests/sim/network.h"
#include "worker/sync/pipeline.h"

namespace longwave::sim {

// Elements of a segment: one tile.
inline constexpr uint32_t kSegmentElements = 64;

enum class FaultKind : uint8_t {
  kCrash,  // kill -9, and a restart after `duration`
  // Of a shard or the coordinator: the disk keeps synced bytes, and a random part of the others.
  kPowerLoss,
  kWriteCrash,  // likewise, during one of the disk's next operations, number `amount`
  kLoseFolder,  // a shard or worker restarts without its folder
  kFreeze,      // SIGSTOP for `duration`
  kSlow,        // a worker's steps take `amount` times as long
  kCut,         // from all others
  kCutLink,     // from `target` to `other` only
  kClog,
  kClockJump,
  kDiskFull,      // of a shard or the coordinator
  kFailedSync,    // likewise, once
  kFailedAppend,  // likewise, once
  kDamage,        // a number in a worker's replica changes
  kWeather,       // messages are lost, and connections stall
  kDeadLink,      // a worker's connection to a shard dies unnoticed; one way if `amount` is not 0
  kOldFolder,     // a worker restarts after `duration` with a copy of its folder from now
  // Harmful pushes come in a worker's name, before its own. Drawn only if the allowed kinds name
  // it, for one worker of a world. `amount`: see SimShard::Poison.
  kPoison,
  // A shard gets its folder of `amount` seconds before, for `duration`. Drawn separately, so that
  // older seeds keep their other faults.
  kOlderFolder,
  kOlderRecord,  // likewise for the coordinator
  // Likewise: a worker is told to end between two steps, and restarted `duration` later. With a
  // nonzero `amount` the worker tells the coordinator that it leaves.
  kToldToEnd,
  // Likewise: a shard loses power, and its disk all that it has confirmed since the shard's last
  // heartbeat.
  kLostTail,
  // Likewise: the coordinator and all shards get their folders of `amount` seconds before, for
  // `duration`.
  kOlderCluster,
  kCount,
};
std::string_view Name(FaultKind kind);

// Options for drawing a world.
struct WorldOptions {
  uint64_t seed = 0;
  uint32_t workers = 0;  // 0: drawn, likewise the next two
  uint32_t shards = 0;
  uint32_t rounds = 0;
  bool faults = true;
  bool fragments = false;  // several a round, with little memory for their pushes
  // run.start member: workers bring first weights of their own. Shards have disks, and replicas are
  // not damaged: the majority must identify a damaged one, and workers that fetch the start do not
  // count in it at first.
  bool member_start = false;
  // Workers are nodes of one to four ranks, another number after each restart.
  bool nodes = false;
  // sync.inner_steps auto: the coordinator decides the inner steps of rounds.
  bool fits_interval = false;
  std::vector<FaultKind> only;  // the allowed kinds; empty: all
  Canary canary = Canary::kNone;
};

// Parameters of a replica at the start, if all draw the same.
inline constexpr float kStart = 1000;

// Forms of contributions.
enum class Method : uint8_t {
  kDense,      // everything in fp32, up and down
  kTopK,       // top k in fp32; the shard keeps the rest of the merge
  kQuantized,  // top k in one bit up and two bits down
};
std::string_view Name(Method method);

struct Fault {
  absl::Duration at;  // since the beginning
  FaultKind kind = FaultKind::kCrash;
  uint32_t target = 0;  // a node
  uint32_t other = 0;
  absl::Duration duration;
  double amount = 0;
  Weather weather = {};
};

// A world, drawn from its seed.
struct WorldSettings {
  uint64_t seed = 0;
  Canary canary = Canary::kNone;
  uint32_t workers = 0;         // all, including late ones
  uint32_t workers_wanted = 0;  // by the coordinator; other workers join late
  uint32_t shards = 0;
  uint32_t segments = 0;
  uint32_t fragments = 1;
  uint32_t rounds = 0;
  Method method = Method::kDense;
  float beta = 1;  // 1: no signal fades; 0: only returned contributions are kept
  double rho = 0;
  double quorum = 1;
  absl::Duration grace_min;
  absl::Duration grace_max;
  uint32_t state_rounds = 1;
  uint32_t snapshot_rounds = 1;
  bool shards_have_disks = true;
  // run.start member: workers bring first weights of their own, and the first one's are the run's.
  bool start_is_members = false;
  std::vector<float> starts;  // by worker: the value of all its first parameters
  bool coordinator_is_durable = true;
  uint64_t record_bytes_min = 0;      // see CoordinatorStoreOptions
  bool shards_move = false;           // a restarted shard listens elsewhere
  std::vector<bool> worker_has_disk;  // by worker
  uint32_t checkpoint_rounds = 1;     // of all workers
  uint32_t steps = 1;                 // before each fragment's signal
  // The coordinator decides the inner steps; `rounds` and `steps` are those of its first choice.
  std::optional<IntervalOptions> interval;
  std::vector<bool> crashes_after_fill;  // by worker: killed after filling a round
  bool has_nodes = false;
  std::vector<bool> crashes_between_parts;  // by worker: killed once, before rank 0 has written
  std::vector<absl::Duration> worker_starts_at;   // by worker
  std::vector<absl::Duration> round_computation;  // by worker: computation of a round's steps
  uint64_t open_bytes_max = 0;
  uint64_t log_file_bytes = 0;
  absl::Duration heartbeat_interval;
  absl::Duration heartbeat_timeout;
  absl::Duration start_timeout;
  absl::Duration commit_time_max;  // of a shard's disk
  NetworkOptions network;
  std::vector<Fault> faults;  // by time
  absl::Duration calm_after;  // no fault lasts longer
  // Signals are multiples of this number, so the mean over any number of senders is a whole number.
  // (With very many workers it is 1, and means are rounded.)
  uint32_t unit = 1;

  // Node 0 is the coordinator; shards and workers follow.
  uint32_t NodeOfShard(uint32_t shard) const { return 1 + shard; }
  uint32_t NodeOfWorker(uint32_t worker) const { return 1 + shards + worker; }
  uint32_t node_count() const { return 1 + shards + workers; }
  bool IsShard(uint32_t node) const { return node >= 1 && node <= shards; }
  bool IsWorker(uint32_t node) const { return node > shards; }

  // Of the whole run, of each worker.
  uint64_t run_steps() const { return uint64_t{fragments} * steps * rounds; }
  RoundPlan MakeRoundPlan() const;
  PayloadFormat up() const;
  PayloadFormat down() const;
  Manifest MakeManifest() const;
  LayoutOptions MakeLayoutOptions() const;
  SyncOptions MakeSyncOptions() const;
  CoordinatorOptions MakeCoordinatorOptions() const;
  DurableShardOptions MakeShardOptions(uint32_t shard, uint64_t run) const;
  // Limit of the bytes of pushes to open rounds at a shard. was_restored: from replicas, at some
  // time.
  uint64_t OpenBytesBound(bool was_restored) const;
  std::string Describe() const;
  std::string NodeName(uint32_t node) const;
};

WorldSettings DrawSettings(const WorldOptions& options);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SETTINGS_H_

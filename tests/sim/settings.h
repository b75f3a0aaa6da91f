#ifndef LONGWAVE_TESTS_SIM_SETTINGS_H_
#define LONGWAVE_TESTS_SIM_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
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
  // Of a shard or the coordinator: its disk keeps what was synced, and of the rest what it likes.
  kPowerLoss,
  kWriteCrash,  // likewise: in the midst of one of its disk's next operations, number `amount`
  kLoseFolder,  // of a shard or worker: it comes back without its folder
  kFreeze,      // SIGSTOP for `duration`
  kSlow,        // a worker that needs `amount` times as long for its steps
  kCut,         // from all others
  kCutLink,     // from `target` to `other` alone
  kClog,
  kClockJump,
  kDiskFull,      // of a shard or the coordinator
  kFailedSync,    // likewise, once
  kFailedAppend,  // likewise, once
  kDamage,        // a number in a worker's replica changes
  kWeather,       // messages are lost, doubled and overtaken
  kDeadLink,      // a worker's connection to a shard dies unseen; one way if `amount` is not 0
  kOldFolder,     // a worker comes back after `duration` with its folder as it is now
  // Pushes that would harm everybody come in the name of a worker, before its own; only where the
  // kinds that may be drawn name it, and of one worker of a world. `amount`: see SimShard::Poison.
  kPoison,
  // Of a shard: its folder as it was `amount` seconds before, for `duration`. Drawn by itself, so
  // that seeds from before it was there have the other faults that they had.
  kOlderFolder,
  kOlderRecord,  // likewise of the coordinator
  // Likewise: a worker is told to end between two steps, and started again `duration` later. It
  // tells the coordinator that it leaves if `amount` is not 0.
  kToldToEnd,
  kCount,
};
std::string_view Name(FaultKind kind);

// What is asked for.
struct WorldOptions {
  uint64_t seed = 0;
  uint32_t workers = 0;  // 0: drawn, as are the next two
  uint32_t shards = 0;
  uint32_t rounds = 0;
  bool faults = true;
  bool fragments = false;  // several a round, and little memory for their pushes
  // run.start member: workers bring first weights of their own. Shards have disks, and no replica
  // is damaged: the majority knows who is, and those that fetch the start are not in it at first.
  bool member_start = false;
  std::vector<FaultKind> only;  // the kinds that may be drawn; empty: all
  Canary canary = Canary::kNone;
};

// Parameters of a replica at the start, where all draw the same.
inline constexpr float kStart = 1000;

// How contributions travel.
enum class Method : uint8_t {
  kDense,      // everything in fp32, up and down
  kTopK,       // top k in fp32; the shard holds the rest of the merge back
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
  Weather weather;
};

// One world, as its seed draws it.
struct WorldSettings {
  uint64_t seed = 0;
  Canary canary = Canary::kNone;
  uint32_t workers = 0;         // all that ever come
  uint32_t workers_wanted = 0;  // by the coordinator; the others join late
  uint32_t shards = 0;
  uint32_t segments = 0;
  uint32_t fragments = 1;
  uint32_t rounds = 0;
  Method method = Method::kDense;
  float beta = 1;  // 1: nothing of a signal fades; 0: nothing is kept but what was given back
  double rho = 0;
  double quorum = 1;
  absl::Duration grace_min;
  absl::Duration grace_max;
  uint32_t state_rounds = 1;
  uint32_t snapshot_rounds = 1;
  bool shards_have_disks = true;
  // run.start member: workers bring first weights of their own, and the first one's are the run's.
  bool start_is_members = false;
  std::vector<float> starts;  // by worker: every parameter of what its processes begin with
  bool coordinator_is_durable = true;
  uint64_t record_bytes_min = 0;                  // see CoordinatorStoreOptions
  bool shards_move = false;                       // one that comes back listens somewhere else
  std::vector<bool> worker_has_disk;              // by worker
  uint32_t checkpoint_rounds = 1;                 // of all of them
  uint32_t steps = 1;                             // before each fragment's signal
  std::vector<bool> crashes_after_fill;           // by worker: killed once it has filled a round
  std::vector<absl::Duration> worker_starts_at;   // by worker
  std::vector<absl::Duration> round_computation;  // by worker: what its steps of a round take
  uint64_t open_bytes_max = 0;
  uint64_t log_file_bytes = 0;
  absl::Duration heartbeat_interval;
  absl::Duration heartbeat_timeout;
  absl::Duration start_timeout;
  absl::Duration commit_time_max;  // of a shard's disk
  NetworkOptions network;
  std::vector<Fault> faults;  // by time
  absl::Duration calm_after;  // no fault lasts longer
  // Signals are whole multiples of this many, so that the mean over any number of senders is a
  // whole number, too. (With very many workers it is 1, and means are rounded.)
  uint32_t unit = 1;

  // The coordinator is node 0, shards and workers follow.
  uint32_t NodeOfShard(uint32_t shard) const { return 1 + shard; }
  uint32_t NodeOfWorker(uint32_t worker) const { return 1 + shards + worker; }
  uint32_t node_count() const { return 1 + shards + workers; }
  bool IsShard(uint32_t node) const { return node >= 1 && node <= shards; }
  bool IsWorker(uint32_t node) const { return node > shards; }

  PayloadFormat up() const;
  PayloadFormat down() const;
  Manifest MakeManifest() const;
  LayoutOptions MakeLayoutOptions() const;
  SyncOptions MakeSyncOptions() const;
  CoordinatorOptions MakeCoordinatorOptions() const;
  DurableShardOptions MakeShardOptions(uint32_t shard, uint64_t run) const;
  // Of the pushes to open rounds that a shard may hold. was_restored: from replicas, at some time.
  uint64_t OpenBytesBound(bool was_restored) const;
  std::string Describe() const;
  std::string NodeName(uint32_t node) const;
};

WorldSettings DrawSettings(const WorldOptions& options);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SETTINGS_H_

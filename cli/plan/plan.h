#ifndef LONGWAVE_CLI_PLAN_PLAN_H_
#define LONGWAVE_CLI_PLAN_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

// The planner's core: what a run would send, how long its syncs would take and what it would cost,
// computed before there is one. Nothing here reads a clock, a disk or a link.

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Bytes a second, as a link's rate is given: with the headers of packets.
struct PlanLink {
  double up = kUnlimited;
  double down = kUnlimited;
};

// Equal workers.
struct PlanWorkers {
  uint32_t count = 1;
  PlanLink link;
  double round_trip_s = 0;  // to a shard
  double step_s = 0;        // of an inner step
};

// Rates of kernels and disk, of one process: elements of tiles a second, padding included.
struct PlanRates {
  double encode = kUnlimited;
  double decode = kUnlimited;
  double merge = kUnlimited;  // on one thread, counted for each contribution
  double disk = kUnlimited;   // bytes a second
  double disk_sync_s = 0;
};

struct PlanPrices {
  double worker_hour = 0;
  double sent_gigabyte = 0;  // 10⁹ bytes that a worker or a shard sends
};

struct PlanInputs {
  RunConfig config;  // of one method
  Manifest manifest;
  std::vector<PlanWorkers> workers;  // config.run.workers in all
  std::vector<PlanLink> shards;      // of each of config.run.shards; up is what workers pull
  PlanRates rates;
  bool keeps_state = true;  // as `longwave up` without --no-state
  double tokens = 0;        // of all workers; 0: config.run.steps
  PlanPrices prices;
};

// Bytes at the sockets, one way each.
struct PlanBytes {
  double up = 0, down = 0;
};

// Time for which something is busy in a round's syncs.
struct PlanPart {
  enum class Kind : uint8_t {
    kEncode,
    kJournal,
    kWorkerUp,
    kShardIn,
    kMerge,
    kShardOut,
    kWorkerDown,
    kDecode,
    kRoundTrips
  };
  Kind kind;
  uint32_t shard = 0;  // of kShardIn, kMerge and kShardOut: the one that is busy longest
  double seconds = 0;
};
// "encode", "journal", "the workers' links up", "shard 2's link in", …
std::string Name(const PlanPart& part);

struct Plan {
  std::string method;
  double parameters = 0;
  uint64_t segments = 0;
  uint32_t workers = 0;
  double inner_steps = 0;  // with sync.inner_steps auto those that it settles on
  double rounds = 0, steps = 0, tokens = 0;

  PlanBytes round;               // of each worker
  bool down_is_a_bound = false;  // workers may choose the same coefficients: then fewer go down
  PlanBytes run;                 // of all workers; with hellos and snapshots
  double snapshot_bytes = 0;     // of the run's bytes up, before their compression

  std::vector<PlanPart> parts;  // of a round, in PlanPart::Kind's order
  double sync_s = 0;            // from the signal until every worker has the updates
  double hidden_s = 0;          // of it, behind inner steps (sync.overlap)
  double held_s() const { return sync_s - hidden_s; }
  double round_s = 0;
  double compute_share = 0;  // mean over workers
  double run_s = 0;
  // H at which syncs take sync.target_share of the slowest worker's time, however large, and within
  // the bounds of auto; nullopt: the method fixes H.
  std::optional<double> wanted_inner_steps, auto_inner_steps;

  double worker_memory_bytes = 0, worker_gpu_memory_bytes = 0, worker_host_memory_bytes = 0;
  double worker_disk_bytes = 0;
  double shard_memory_bytes = 0, shard_disk_bytes = 0;  // of the largest shard, at least
  std::optional<double> price;

  const PlanPart& Binding() const;  // the longest part
};

// Errors: InvalidArgument (counts that do not fit the configuration, a model that has no layout).
absl::StatusOr<Plan> MakePlan(const PlanInputs& inputs);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_PLAN_H_

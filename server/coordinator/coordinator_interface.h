#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_INTERFACE_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_INTERFACE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/manifest.h"
#include "server/coordinator/interval_control.h"

namespace longwave {

// The Coordinator is made with the options, takes the events, and gives the effects.

struct CoordinatorOptions {
  uint32_t workers_wanted = 1;
  uint32_t workers_max = 1 << 16;  // at once
  uint32_t shards_wanted = 1;
  uint64_t rounds = 1;  // of the run; with `interval` the most that there can be
  // The coordinator decides the inner steps of rounds (sync.inner_steps auto).
  std::optional<IntervalOptions> interval;
  bool promises_equal_replicas = true;
  std::string settings;  // lines "key: value" that every registration must match
  std::vector<std::string> settings_at_most;  // keys of `settings` of which a worker may have less
  bool takes_other_starts = false;  // run.start member: a worker may bring other first weights
  // The number of segments that the run's layout gives the first worker's model, which is valid.
  // InvalidArgument: the run does not train that model, or not with that layout.
  std::function<absl::StatusOr<uint64_t>(const Manifest&, uint64_t layout_hash)> segment_count;
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration start_timeout = absl::Seconds(300);
  absl::Duration away_timeout = absl::InfiniteDuration();  // in start_timeout's place: see below
  bool continues_failed = false;  // a record of a run that has failed goes on where it ended
  bool takes_as_newest = false;   // an operator has decided to go on from the record in any case
  // A new process of a shard gets the place of one without a heartbeat for this long.
  absl::Duration replace_after = absl::Seconds(2);
  // The run waits for no member whose newest report is more rounds than this behind the run's.
  uint32_t rounds_behind_max = 16;
};

struct Tick {};  // time has passed
struct StopRequested {
  std::string reason;
};
// Removes a worker's name from the run. The caller makes sure that the worker's process cannot
// reach the run again. The event has no answer, and changes nothing if the name is unknown or the
// run is over.
struct WorkerExpelled {
  std::string name;
};

using CoordinatorEvent = std::variant<RegisterWorker, RegisterShard, WorkerHeartbeat,
                                      ShardHeartbeat, StopRequested, WorkerExpelled, Tick>;

// Effects, to be performed in order. Every event that wants an answer has exactly one.
struct WorkerRegistered {
  uint32_t worker = 0;
};
// The answer to a call that failed.
struct Refused {
  absl::Status status;
};
// All members that were due have reported or skipped it.
struct RoundFinished {
  RoundRecord record;
};
struct PhaseChanged {
  RunPhase phase;
  std::string reason;
};
// A line for the process's log.
struct Notice {
  std::string text;
  bool is_warning = false;
};

using CoordinatorEffect =
    std::variant<WorkerRegistered, ShardRegistration, WorkerHeartbeatReply, ShardHeartbeatReply,
                 Refused, RoundFinished, PhaseChanged, Notice>;

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_INTERFACE_H_

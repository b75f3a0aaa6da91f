#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "common/wire/control.h"

namespace longwave {

struct CoordinatorOptions {
  uint32_t workers_wanted = 1;
  uint32_t shards_wanted = 1;
  uint64_t rounds = 1;
  bool promises_equal_replicas = true;
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration start_timeout = absl::Seconds(300);
};

struct Tick {};  // time has passed
struct StopRequested {
  std::string reason;
};

using CoordinatorEvent =
    std::variant<RegisterWorker, RegisterShard, WorkerHeartbeat, ShardHeartbeat, StopRequested, Tick>;

// What the coordinator is to do, in order. Exactly one answer for each event that asks for one.
struct WorkerRegistered { uint32_t worker = 0; };
struct ShardRegistered { uint64_t run = 0; };
struct Refused { absl::Status status; };        // the answer of a call that failed
struct RoundFinished { RoundRecord record; };   // all members have reported it
struct PhaseChanged { RunPhase phase; std::string reason; };
struct Notice { std::string text; };            // a line for the log

using CoordinatorEffect = std::variant<WorkerRegistered, ShardRegistered, WorkerHeartbeatReply,
                                       ShardHeartbeatReply, Refused, RoundFinished, PhaseChanged, Notice>;

// Membership and schedule of one run, pure: no socket, thread or clock inside.
//   waiting    until workers_wanted workers (with equal manifests) and shards_wanted shards are
//              registered: then epoch 1 begins and every heartbeat's answer carries the membership
//   training   rounds are finished when every member has reported them; hashes are compared
//   finished   every member has sent its final report
//   failed     a worker or shard reported a failure, or nobody is left, or the start took too long
//   stopped    by StopRequested
// In the last three every heartbeat is answered with kStop and the reason.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event, absl::Time now, Rng& rng);

  RunStatus Status(uint64_t round_records_from, absl::Time now) const;
  RunPhase phase() const;

 private:
  // (the owner of this file completes it)
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

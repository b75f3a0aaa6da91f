#ifndef LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_
#define LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/link/curve.h"
#include "worker/core/session_core.h"

namespace longwave {

// As what a worker begins the run.
struct RunStart {
  uint64_t run = 0;
  uint32_t worker = 0;                       // its index
  uint64_t process = 0;                      // WorkerFolder::process; 0: no folder
  std::vector<std::string> shard_endpoints;  // by shard index
  CurveKeys keys;                            // of its data connections
};

// A member's view of the control plane: the Session, or of a node's rank the Node, which has rank
// 0's.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual Directive directive() const = 0;
  virtual bool stop_requested() const = 0;
  // How the run has ended for this worker, whose own state is then no longer needed (see
  // SessionCore::ended). nullopt: it goes on.
  virtual std::optional<absl::Status> ended() const { return std::nullopt; }
  bool has_ended() const { return ended().has_value(); }
  // Time since the coordinator's last answer. Thread-safe.
  virtual absl::Duration coordinator_silence() const { return absl::ZeroDuration(); }
  // Tells the coordinator a warning for people, whose status shows it once. Thread-safe. By default
  // nobody is told.
  virtual void Warn(const std::string&) {}
  virtual uint64_t warnings() const { return 0; }  // different ones so far; thread-safe
  virtual void SetState(const WorkerState& state) = 0;
  virtual void Report(RoundReport report) = 0;
  // The first round that this worker could push to now; kRoundNever if it cannot. A member that
  // catches up gets its first round once it is ready.
  virtual void SetReadyRound(uint32_t round) = 0;
  // Endpoints by shard index, if a shard's endpoint has changed since the last call.
  virtual std::optional<std::vector<std::string>> TakeNewEndpoints() = 0;

  // Called once the run is sealed: sends the final report.
  virtual void Finish(const FinalReport& report) = 0;
  // True: the run is over for this worker. False: not within `patience`, or the report was answered
  // and work may remain. Cancelled: a stop was requested. Unavailable: the report was never
  // answered.
  virtual absl::StatusOr<bool> AwaitEnd(absl::Duration patience) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

#ifndef LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_
#define LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/control.h"
#include "worker/core/session_core.h"

namespace longwave {

// What a member needs of the control plane; Session is the real one.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual Directive directive() const = 0;
  virtual bool stop_requested() const = 0;
  // The run is over for this worker, so that it need not keep what only it has.
  virtual bool has_ended() const { return false; }
  // Since the coordinator has answered; from any thread.
  virtual absl::Duration coordinator_silence() const { return absl::ZeroDuration(); }
  virtual void SetState(const WorkerState& state) = 0;
  virtual void Report(RoundReport report) = 0;
  // The first round that this worker could push to now; kRoundNever while it can't. A member that
  // catches up gets its first round once it is ready.
  virtual void SetReadyRound(uint32_t round) = 0;
  // By shard index, if some shard has moved since the last call.
  virtual std::optional<std::vector<std::string>> TakeNewEndpoints() = 0;

  // Once the run is sealed: has the report told.
  virtual void Finish(const FinalReport& report) = 0;
  // True: the run is over for this worker. False: not within `patience`, or the report was answered
  // and there may be something left to do. Cancelled: asked to stop. Unavailable: the report was
  // never answered.
  virtual absl::StatusOr<bool> AwaitEnd(absl::Duration patience) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

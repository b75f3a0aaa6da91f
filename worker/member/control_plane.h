#ifndef LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_
#define LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/control.h"

namespace longwave {

// What the trainer needs of the control plane; Session is the real one.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual uint32_t epoch() const = 0;  // of the membership, now
  virtual bool validates() const = 0;  // this worker computes the validation loss, now
  virtual bool stop_requested() const = 0;
  // Since the coordinator has answered; from any thread.
  virtual absl::Duration coordinator_silence() const { return absl::ZeroDuration(); }
  virtual void SetState(const WorkerState& state) = 0;
  virtual void Report(RoundReport report) = 0;

  // The first round that this worker may push to, by the newest membership; kRoundNever while it is
  // no member or is to catch up first (see SetReadyRound).
  virtual uint32_t first_round() const = 0;
  // The first weights of this worker are not the run's (Member::other_start).
  virtual bool other_start() const { return false; }
  // The first round that this worker could push to now; kRoundNever while it can't. A member that
  // catches up gets its first round once it is ready.
  virtual void SetReadyRound(uint32_t round) = 0;
  // By shard index, if some shard has moved since the last call.
  virtual std::optional<std::vector<std::string>> TakeNewEndpoints() = 0;
  // What the coordinator last said is to be fetched anew, if anything.
  virtual std::optional<Repair> repair() const = 0;

  // After round `last_round`, the run's last: tells the final report and waits. True: the run is
  // over for this worker. False: something is left to do, after which this is called again: this
  // worker validates() and the report names no weights, or there is a repair() of the last round,
  // whose hashes are to be reported again. Cancelled: asked to stop.
  virtual absl::StatusOr<bool> Finish(const FinalReport& report, uint32_t last_round) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_CONTROL_PLANE_H_

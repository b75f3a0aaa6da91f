#ifndef LONGWAVE_COMMON_BASE_HEARTBEAT_SCHEDULE_H_
#define LONGWAVE_COMMON_BASE_HEARTBEAT_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longwave {

// Whether a call to the coordinator that failed so may be made again. Unavailable,
// DeadlineExceeded: nobody answered. Unauthenticated: the coordinator does not accept the caller's
// certificate now; a clock that is wrong does that, and a ca.crt that is being exchanged. Whom it
// has shut out it answers with PermissionDenied.
bool MayPass(const absl::Status& status);

// When a worker or a shard calls the coordinator, and what the end of a call means, pure: times and
// statuses go in. A process registers, again and again while nobody answers, and then sends
// heartbeats. Not thread-safe.
class HeartbeatSchedule {
 public:
  enum class Call : uint8_t { kNone, kRegister, kHeartbeat };
  enum class End : uint8_t {
    kAnswered,
    kSilent,     // nobody answered: the call is made again after a back-off
    kLostPlace,  // the place was given up before the run began: the process registers again, after
                 // a back-off
    kRefused,    // for good: nothing is called any more
  };

  // interval: between heartbeats of a process that takes part in the run; others send more.
  HeartbeatSchedule(absl::Duration interval, absl::Time now)
      : interval_(interval), answered_(now) {}

  // The call that is due. It is under way until Ended.
  Call Due(absl::Time now);
  // When Due gives the next one; never while one is under way or after a refusal.
  absl::Time due_at() const;
  // There is something to tell: the next call is due at once, or once the one under way has ended,
  // if that is answered.
  void Urge();

  // The call under way has ended. has_begun: this process has heard of the run's beginning;
  // takes_part: it is a member that pushes, or a shard that knows the members.
  End Ended(const absl::Status& status, bool has_begun, bool takes_part, absl::Time now);

  bool is_registered() const { return is_registered_; }
  bool is_refused() const { return is_refused_; }
  // The last call was answered.
  bool is_reachable() const { return is_reachable_; }
  // Of the last answer, or of when it was made.
  absl::Time answered_at() const { return answered_; }

 private:
  const absl::Duration interval_;
  absl::Time answered_;
  absl::Time due_ = absl::InfinitePast();
  absl::Duration backoff_;
  bool is_registered_ = false;
  bool is_calling_ = false;
  bool is_urgent_ = false;
  bool is_reachable_ = true;
  bool is_refused_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_HEARTBEAT_SCHEDULE_H_

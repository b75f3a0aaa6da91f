#ifndef LONGWAVE_COMMON_BASE_HEARTBEAT_SCHEDULE_H_
#define LONGWAVE_COMMON_BASE_HEARTBEAT_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longwave {

// Whether a failed call to the coordinator may be repeated. Unavailable and DeadlineExceeded mean
// no answer. Unauthenticated may be due to a wrong clock or to a ca.crt that is being exchanged.
// The coordinator answers an expelled caller with PermissionDenied, which is final.
bool MayPass(const absl::Status& status);

// The schedule of a worker's or shard's calls to the coordinator, and the meaning of each call's
// end. Pure: times and statuses are arguments. The process repeats the registration until the
// coordinator answers, then sends heartbeats. Not thread-safe.
class HeartbeatSchedule {
 public:
  enum class Call : uint8_t { kNone, kRegister, kHeartbeat };
  enum class End : uint8_t {
    kAnswered,
    kSilent,     // no answer: the call is repeated after a back-off
    kLostPlace,  // the place was given up before the run began: the process registers again, after
                 // a back-off
    kRefused,    // final: no more calls
  };

  // interval: between heartbeats of a member or a shard; other processes call more often.
  HeartbeatSchedule(absl::Duration interval, absl::Time now)
      : interval_(interval), answered_(now) {}

  // The call that is due. The call is under way until Ended.
  Call TakeDue(absl::Time now);
  // The time of the next call; InfiniteFuture while a call is under way or after a refusal.
  absl::Time due_at() const;
  // Makes the next call due at once, or as soon as the call under way has been answered.
  void Urge();

  // The call under way has ended. has_begun: this process has heard that the run has begun.
  // takes_part: this process is a member that pushes, or a shard that knows the members.
  End Ended(const absl::Status& status, bool has_begun, bool takes_part, absl::Time now);

  bool is_registered() const { return is_registered_; }
  bool is_refused() const { return is_refused_; }
  // Whether the last call was answered.
  bool is_reachable() const { return is_reachable_; }
  // The time of the last answer; the construction's before the first.
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

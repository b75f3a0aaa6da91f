#include "common/base/heartbeat_schedule.h"

#include <algorithm>
#include <utility>

namespace longwave {
namespace {

// The interval until all members take part, so that they begin together.
constexpr absl::Duration kEarlyInterval = absl::Milliseconds(100);
constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(1);

}  // namespace

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnauthenticated(status);
}

HeartbeatSchedule::Call HeartbeatSchedule::TakeDue(absl::Time now) {
  if (now < due_at()) return Call::kNone;
  is_calling_ = true;
  is_urgent_ = false;
  return is_registered_ ? Call::kHeartbeat : Call::kRegister;
}

absl::Time HeartbeatSchedule::due_at() const {
  return is_calling_ || is_refused_ ? absl::InfiniteFuture() : due_;
}

void HeartbeatSchedule::Urge() {
  is_urgent_ = true;
  due_ = absl::InfinitePast();
}

HeartbeatSchedule::End HeartbeatSchedule::Ended(const absl::Status& status, bool has_begun,
                                                bool takes_part, absl::Time now) {
  is_calling_ = false;
  is_reachable_ = !MayPass(status);
  if (is_reachable_) answered_ = now;
  if (!status.ok()) {
    // An urgent process does not call an unreachable coordinator in a tight loop.
    is_urgent_ = false;
    backoff_ = std::clamp(backoff_ * 2, kBackoffMin, kBackoffMax);
    due_ = now + backoff_;
    if (!is_reachable_) return End::kSilent;
    // Another process may have this place now; then that process's registration counts.
    const bool has_lost =
        is_registered_ && !has_begun && (absl::IsNotFound(status) || absl::IsAborted(status));
    is_refused_ = !has_lost;
    is_registered_ = false;
    return has_lost ? End::kLostPlace : End::kRefused;
  }
  const bool is_new = !std::exchange(is_registered_, true);
  if (!is_new) backoff_ = absl::ZeroDuration();
  const absl::Duration pause = takes_part ? interval_ : std::min(interval_, kEarlyInterval);
  due_ = is_new || is_urgent_ ? now : now + pause;
  return End::kAnswered;
}

}  // namespace longwave

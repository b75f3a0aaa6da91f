#ifndef LONGWAVE_COMMON_LINK_WAITER_H_
#define LONGWAVE_COMMON_LINK_WAITER_H_

#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/wake_event.h"
#include "common/link/link.h"

namespace longwave {

// Sleeps until one of several dealers has a frame. Not thread-safe except for Wake.
class Waiter {
 public:
  explicit Waiter(WakeEvent wake) : wake_(std::move(wake)) {}

  // Returns once a frame waits at one of `dealers`, after `timeout`, on a signal or on Wake. The
  // result does not say which: call Receive without a wait to find out.
  absl::Status Wait(std::span<const std::unique_ptr<Dealer>> dealers, absl::Duration timeout);

  // Makes the Wait under way, or else the next one, return at once. From any thread.
  void Wake() { wake_.Wake(); }

 private:
  const WakeEvent wake_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_WAITER_H_

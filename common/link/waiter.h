#ifndef LONGWAVE_COMMON_LINK_WAITER_H_
#define LONGWAVE_COMMON_LINK_WAITER_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/link/link.h"

namespace longwave {

// Sleeps until one of several dealers has a frame. Not thread-safe except for Wake.
class Waiter {
 public:
  // Errors: ResourceExhausted (no file descriptor left).
  static absl::StatusOr<std::unique_ptr<Waiter>> Create();
  virtual ~Waiter() = default;

  // Returns once a frame waits at one of `dealers`, after `timeout`, on a signal or on Wake. The
  // result does not say which: call Receive without a wait to find out.
  virtual absl::Status Wait(std::span<const std::unique_ptr<Dealer>> dealers,
                            absl::Duration timeout) = 0;

  // Makes the Wait under way, or else the next one, return at once. From any thread.
  virtual void Wake() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_WAITER_H_

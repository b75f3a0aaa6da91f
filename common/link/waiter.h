#ifndef LONGWAVE_COMMON_LINK_WAITER_H_
#define LONGWAVE_COMMON_LINK_WAITER_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/link/link.h"

namespace longwave {

// Sleeps until one of several dealers has something to receive. Not thread-safe but for Wake.
class Waiter {
 public:
  // ResourceExhausted: no file descriptor left.
  static absl::StatusOr<std::unique_ptr<Waiter>> Create();
  virtual ~Waiter() = default;

  // Returns once a frame waits at one of `dealers`, after `timeout`, when a signal interrupts, or
  // because of Wake. Nothing says which: a Receive without a wait does.
  virtual absl::Status Wait(std::span<const std::unique_ptr<Dealer>> dealers,
                            absl::Duration timeout) = 0;

  // The Wait under way, or else the next one, returns at once. From any thread.
  virtual void Wake() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_LINK_WAITER_H_

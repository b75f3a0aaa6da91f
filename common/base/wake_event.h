#ifndef LONGWAVE_COMMON_BASE_WAKE_EVENT_H_
#define LONGWAVE_COMMON_BASE_WAKE_EVENT_H_

#include <sys/eventfd.h>

#include <utility>

#include "absl/status/statusor.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"

namespace longwave {

// Wakes a thread that polls descriptors. Thread-safe.
class WakeEvent {
 public:
  // Errors: ResourceExhausted (no file descriptor left).
  static absl::StatusOr<WakeEvent> Create() {
    Descriptor fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fd.get() < 0) return ResourceExhausted("no file descriptor left for a thread's waking");
    return WakeEvent(std::move(fd));
  }

  int fd() const { return fd_.get(); }  // readable from Wake to Take
  // A write fails only if the counter is at its maximum; then a wake-up is pending anyway.
  void Wake() const { static_cast<void>(eventfd_write(fd(), 1)); }
  // Whether Wake was called since the last Take.
  bool Take() const {
    eventfd_t wakes = 0;
    return eventfd_read(fd(), &wakes) == 0;
  }

 private:
  explicit WakeEvent(Descriptor fd) : fd_(std::move(fd)) {}

  Descriptor fd_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_WAKE_EVENT_H_

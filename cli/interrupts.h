#ifndef LONGWAVE_CLI_INTERRUPTS_H_
#define LONGWAVE_CLI_INTERRUPTS_H_

#include <csignal>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace longwave {

// Ctrl-C, SIGTERM and SIGHUP as a file descriptor that becomes readable. Made before any other
// thread, so that no thread takes the signal itself. Termination's handler does not fit: `up` waits
// for its children's output and for signals in one poll, ends its children in order, and needs the
// signal's number at the end.
class Interrupts {
 public:
  static absl::StatusOr<Interrupts> Block();
  Interrupts(Interrupts&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), signals_(other.signals_) {}
  Interrupts& operator=(Interrupts&&) = delete;
  // The signals act again as they did before; one that is pending is dropped.
  ~Interrupts();

  int fd() const { return fd_; }
  // The first pending signal, which is consumed; nullopt if none. A terminal that closes sends
  // SIGHUP twice, by its shell and by the kernel: the second is no second request and is left out.
  std::optional<int> Take();

 private:
  Interrupts(int fd, const sigset_t& signals) : fd_(fd), signals_(signals) {}

  int fd_;
  sigset_t signals_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_INTERRUPTS_H_

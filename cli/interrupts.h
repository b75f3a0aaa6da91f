#ifndef LONGWAVE_CLI_INTERRUPTS_H_
#define LONGWAVE_CLI_INTERRUPTS_H_

#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace longwave {

// Ctrl-C, SIGTERM and SIGHUP as something that can be waited for: a file descriptor that is
// readable once one has come. Made before any other thread, so that no thread takes the signal
// itself. A descriptor rather than Termination's handler, since `up` waits for its children's
// output and for signals in one poll, ends children in order rather than at once, and asks at the
// end which signal it was.
class Interrupts {
 public:
  static absl::StatusOr<Interrupts> Block();
  Interrupts(Interrupts&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Interrupts& operator=(Interrupts&&) = delete;
  ~Interrupts();

  int fd() const { return fd_; }
  // The signal that has come first, if any; it is taken.
  std::optional<int> Take();

 private:
  explicit Interrupts(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_INTERRUPTS_H_

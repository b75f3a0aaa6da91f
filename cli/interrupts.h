#ifndef LONGWAVE_CLI_INTERRUPTS_H_
#define LONGWAVE_CLI_INTERRUPTS_H_

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
  Interrupts(Interrupts&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Interrupts& operator=(Interrupts&&) = delete;
  ~Interrupts();

  int fd() const { return fd_; }
  // The first pending signal, which is consumed; nullopt if none.
  std::optional<int> Take();

 private:
  explicit Interrupts(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_INTERRUPTS_H_

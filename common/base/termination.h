#ifndef LONGWAVE_COMMON_BASE_TERMINATION_H_
#define LONGWAVE_COMMON_BASE_TERMINATION_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"

namespace longwave {

// While it lives, SIGINT and SIGTERM ask for an end instead of being one. A process that is still
// there `grace` later (a long step, a library's wait) is ended then, with `overdue_status`: the end
// was asked for. One at a time.
class Termination {
 public:
  struct Options {
    absl::Duration grace;
    // Both are called on a thread of this object's: at the first signal, to ask the process to end;
    // and just before it is ended, to say so.
    std::function<void()> on_signal;
    std::function<void()> on_overdue;
    int overdue_status = 0;
  };
  explicit Termination(Options options);
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

 private:
  void Watch();

  const Options options_;
  std::thread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_TERMINATION_H_

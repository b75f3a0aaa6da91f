#ifndef LONGWAVE_COMMON_BASE_TERMINATION_H_
#define LONGWAVE_COMMON_BASE_TERMINATION_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"

namespace longwave {

// Returns after `duration`, or as soon as `stop` is requested.
void WaitFor(absl::Duration duration, const std::stop_token& stop);

// Under nohup: a SIGHUP is to stay ignored.
bool IgnoresHangup();

// While this object lives, SIGINT, SIGTERM and SIGHUP (the terminal has closed) request an end
// instead of killing the process; an ignored SIGHUP stays ignored. After `grace` the
// object ends a process that still runs (a long step, a library's wait) with `overdue_status`. One
// object at a time.
class Termination {
 public:
  struct Options {
    absl::Duration grace;
    // Callbacks on a thread of this object: on_signal at the first signal, to request the end;
    // on_overdue just before the process is killed, to report that.
    std::function<void()> on_signal;
    std::function<void()> on_overdue;
    std::optional<int> overdue_status = 0;  // nullopt: 128 + the first signal, as a shell has it
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

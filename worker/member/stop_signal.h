#ifndef LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_
#define LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_

#include <atomic>

namespace longwave {

// Requests the end of the process. A signal or the coordinator's instruction sets it once, and all
// waits and long computations check it. Thread-safe.
class StopSignal {
 public:
  void Request() { requested_.store(true, std::memory_order_release); }
  bool requested() const { return requested_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_

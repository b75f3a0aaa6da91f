#ifndef LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_
#define LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_

#include <atomic>

namespace longwave {

// Asks the process to end: set once, by a signal or by the coordinator's instruction, and looked at
// by everything that waits or runs long. Thread-safe.
class StopSignal {
 public:
  void Request() { requested_.store(true, std::memory_order_release); }
  bool requested() const { return requested_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_STOP_SIGNAL_H_

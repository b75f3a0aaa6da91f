#ifndef LONGWAVE_WORKER_SIGNAL_WATCHER_H_
#define LONGWAVE_WORKER_SIGNAL_WATCHER_H_

#include <thread>

#include "worker/trainer/stop_signal.h"

namespace longwave {

// While it lives, SIGINT and SIGTERM set the stop signal; a process that has not ended a little
// later (a long step, a library's wait) is ended then, with status 0: the stop was asked for. One
// at a time.
class SignalWatcher {
 public:
  explicit SignalWatcher(StopSignal* stop);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Watch();

  StopSignal* const stop_;
  std::thread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SIGNAL_WATCHER_H_

#ifndef LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_
#define LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/stop_signal.h"

namespace longwave {

// Calls the caller's `interrupted` callback, on the caller's thread, while a call waits. A Python
// program notices Ctrl-C only there.
class Interruptible {
 public:
  Interruptible(const lw_callbacks& callbacks, StopSignal* stop)
      : callbacks_(callbacks), stop_(stop) {}

  // Called repeatedly while waiting. Calls back about twenty times a second, or at once, and sets
  // the stop signal if the caller wants the call to end.
  void Ask(bool at_once = false);

  // Runs `work`, which checks the stop signal, on another thread, and calls back meanwhile.
  absl::Status Run(absl::FunctionRef<absl::Status()> work);

 private:
  const lw_callbacks callbacks_;
  StopSignal* const stop_;
  absl::Time asked_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_

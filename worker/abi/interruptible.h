#ifndef LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_
#define LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/abi/include/longwave.h"
#include "worker/member/stop_signal.h"

namespace longwave {

// Asks the caller, through its callback and on its own thread, whether a call that waits is to end:
// a Python program, say, notices Ctrl-C nowhere else.
class Interruptible {
 public:
  Interruptible(const lw_callbacks& callbacks, StopSignal* stop)
      : callbacks_(callbacks), stop_(stop) {}

  // While waiting, as often as one likes: asks some twenty times a second, and sets the stop signal
  // where the caller wants an end.
  void Ask();

  // Runs `work`, which looks at the stop signal, on a thread of its own, and asks meanwhile.
  absl::Status Run(absl::FunctionRef<absl::Status()> work);

 private:
  const lw_callbacks callbacks_;
  StopSignal* const stop_;
  absl::Time asked_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_INTERRUPTIBLE_H_

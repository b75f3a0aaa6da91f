#ifndef LONGWAVE_SERVER_SERVICE_WAITING_H_
#define LONGWAVE_SERVER_SERVICE_WAITING_H_

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "absl/time/time.h"

namespace longwave {

// Returns after `duration`, or as soon as `stop` is requested.
inline void WaitFor(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [] { return false; });
}

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_WAITING_H_

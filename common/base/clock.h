#ifndef LONGWAVE_COMMON_BASE_CLOCK_H_
#define LONGWAVE_COMMON_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace longwave {

// The steady clock as an absl::Time, for timeouts and ages, which must not jump when the machine's
// date is set. Only differences between values of one machine have a meaning.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_CLOCK_H_

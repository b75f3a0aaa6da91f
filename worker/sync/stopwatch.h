#ifndef LONGWAVE_WORKER_SYNC_STOPWATCH_H_
#define LONGWAVE_WORKER_SYNC_STOPWATCH_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace longwave {

// Adds the time it lives to *seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds), begin_(MonotonicNow()) {}
  ~Stopwatch() { *seconds_ += absl::ToDoubleSeconds(MonotonicNow() - begin_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* const seconds_;
  const absl::Time begin_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_STOPWATCH_H_

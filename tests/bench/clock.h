#ifndef LONGWAVE_TESTS_BENCH_CLOCK_H_
#define LONGWAVE_TESTS_BENCH_CLOCK_H_

#include <ctime>

namespace longwave {

// CLOCK_MONOTONIC is time; a processor clock, of this thread or of a process, excludes others.
inline double SecondsOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_CLOCK_H_

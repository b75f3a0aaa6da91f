#ifndef LONGWAVE_TESTS_BENCH_SHARD_MACHINE_H_
#define LONGWAVE_TESTS_BENCH_SHARD_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// Processors and resource use of processes.

// Processors on which this thread may run, ascending.
std::vector<int> AllowedProcessors();

// Binds the calling thread, and its later children, to `processors` until the end of the scope. An
// empty list has no effect.
class ScopedProcessors {
 public:
  explicit ScopedProcessors(const std::vector<int>& processors);
  ~ScopedProcessors();
  ScopedProcessors(const ScopedProcessors&) = delete;
  ScopedProcessors& operator=(const ScopedProcessors&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing was changed
};

// Seconds that all threads of a process have run, in the program and in the kernel on its behalf.
// NotFound: there is no such process.
absl::StatusOr<double> ProcessorSeconds(pid_t pid);

// The most memory that the process has held at any time so far. NotFound: as above.
absl::StatusOr<uint64_t> ResidentBytesMax(pid_t pid);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_SHARD_MACHINE_H_

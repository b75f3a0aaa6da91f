#ifndef LONGWAVE_KERNELS_CPU_PARALLEL_H_
#define LONGWAVE_KERNELS_CPU_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace longwave::cpu {

// Calls body(i) once for each i of 0 … count − 1, on up to `threads` threads, the caller's among
// them. With one thread, or without a free helper, all calls are the caller's. `body` must not
// throw; it may call ParallelFor. Thread-safe.
//
// Helpers start on demand and sleep between calls until the process ends, so that repeated calls
// allocate nothing. Calls of body run under the default floating-point environment whatever the
// caller's, since denormals are values here.
void ParallelFor(uint32_t count, int threads, absl::FunctionRef<void(uint32_t)> body);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_PARALLEL_H_

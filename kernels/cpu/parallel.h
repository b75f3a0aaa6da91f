#ifndef LONGWAVE_KERNELS_CPU_PARALLEL_H_
#define LONGWAVE_KERNELS_CPU_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace longwave::cpu {

// Calls body(i) once for each i of 0 … count − 1, on up to `threads` threads, the caller's among
// them. With one thread, or where no other is free or can be started, all calls are the caller's.
// `body` must not throw; it may call ParallelFor. From any number of threads at a time.
//
// Helpers are started when they are first asked for and kept, asleep, until the process ends: no
// call allocates once as many as it wants have been. Calls of body run under the default
// floating-point environment whatever the caller's: denormals are values here.
void ParallelFor(uint32_t count, int threads, absl::FunctionRef<void(uint32_t)> body);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_PARALLEL_H_

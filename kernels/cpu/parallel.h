#ifndef LONGWAVE_KERNELS_CPU_PARALLEL_H_
#define LONGWAVE_KERNELS_CPU_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace longwave::cpu {

// Calls body(i) once for each i of 0 … count − 1, on up to `threads` threads, the caller's among
// them. With one thread, or where no other can be started, all calls are the caller's. `body` must
// not throw.
void ParallelFor(uint32_t count, int threads, const std::function<void(uint32_t)>& body);

}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_PARALLEL_H_

#ifndef LONGWAVE_COMMON_BASE_THREADS_H_
#define LONGWAVE_COMMON_BASE_THREADS_H_

#include <cstdint>

namespace longwave {

// The cores that this process may use at once: those of its CPU set, and no more than the quota of
// its control groups, rounded up. At least 1.
uint32_t UsableCores();

// The threads of a process that computes beside `processes` - 1 others, unless its configuration
// says: OMP_NUM_THREADS, which others read too, or else its share of the usable cores.
uint32_t DefaultThreads(uint32_t processes = 1);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_THREADS_H_

#ifndef LONGWAVE_TESTS_BENCH_HOST_PART_NULL_DEVICE_H_
#define LONGWAVE_TESTS_BENCH_HOST_PART_NULL_DEVICE_H_

#include <cstdint>

namespace longwave {

// CUDA's runtime without a device: calls return at once and do nothing, but are counted. Memory is
// the host's, and no one writes to it.
struct DriverCalls {
  uint64_t launches = 0;
  uint64_t copies = 0;
  uint64_t events = 0;  // records, waits of streams, queries
};
DriverCalls& driver_calls();

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_HOST_PART_NULL_DEVICE_H_

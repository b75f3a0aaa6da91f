#ifndef LONGWAVE_TESTS_BENCH_KERNELS_ROOFLINE_H_
#define LONGWAVE_TESTS_BENCH_KERNELS_ROOFLINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace longwave::bench {

// The speed of a backend's memory in the plainest code, as the measure of the kernels. Arrays are
// of n floats in the backend's memory and do not overlap. On CUDA these enqueue.
struct Roofline {
  absl::Status (*copy)(const Exec&, float* to, const float* from, uint64_t n);       // to ← from
  absl::Status (*pass)(const Exec&, float* m, const float* g, float b, uint64_t n);  // m ← b·m + g
  absl::Status (*read_write)(const Exec&, float* x, float c, uint64_t n);            // x ← c·x
};

const Roofline& HostRoofline();
// roofline.cu, or roofline_absent.cc in a build without CUDA, where nothing has its memory.
const Roofline& CudaRoofline();

}  // namespace longwave::bench

#endif  // LONGWAVE_TESTS_BENCH_KERNELS_ROOFLINE_H_

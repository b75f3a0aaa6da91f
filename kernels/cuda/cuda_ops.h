#ifndef LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_
#define LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace longwave::cuda {

// OpsFor(kCuda): kernels/cuda/cuda_ops.cc, or kernels/cuda/absent.cc in a build without CUDA.
// Errors: Unavailable, with the reason.
absl::StatusOr<const KernelOps*> Ops();

// The encoder's transform of runs of 4096: by an FFT (fft.h), the default, whose coefficients agree
// with the CPU's within the tolerance, or by the stages of our own kernel, which have the CPU's
// bits. Where no library of the FFT works, or its call fails, the stages serve in its place.
enum class RunTransform : uint8_t { kStages, kFft };
// For tests that compare with the CPU's bits. From any thread, for encodings that begin later.
void SetRunTransform(RunTransform transform);
// OK: a library makes plans on the current device. Unavailable: why none does.
const absl::Status& FftStatus();

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_CUDA_OPS_H_

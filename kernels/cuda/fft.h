#ifndef LONGWAVE_KERNELS_CUDA_FFT_H_
#define LONGWAVE_KERNELS_CUDA_FFT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace longwave::cuda {

// The seam to cuFFT: the forward transform of runs of 4096 by way of an FFT (Makhoul 1980), for the
// encoder alone, whose agreement allows the other rounding; the decoder's bits come from the
// stages. fft_cufft.cc loads cuFFT at run time, so that a program that never asks needs no such
// library; tests/emulation has a plain twin.

// In place, on `stream`: of `count` runs, each of 4096 + 2 floats whose first 4096 are real, to
// 2049 complex numbers each: V[k] = Σ_n v[n] exp(−2πi nk / 4096). Unavailable: there is no cuFFT
// here. Has enqueued its work when it returns; makes what it needs for a count at its first use and
// keeps it. Not thread-safe.
absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream);

// The signal of the tiles, times DctNorm, in Makhoul's order: what FftRuns takes.
struct EncodeJob;
cudaError_t LaunchFftInput(const EncodeJob& job, float* runs, cudaStream_t stream);

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_FFT_H_

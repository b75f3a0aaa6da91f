#ifndef LONGWAVE_KERNELS_CUDA_FFT_H_
#define LONGWAVE_KERNELS_CUDA_FFT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace longwave::cuda {

// The interface to cuFFT: the forward transform of runs of 4096 by an FFT (Makhoul 1980). Only the
// encoder uses it, whose agreement permits another rounding; the decoder's bits come from the
// stages. fft_cufft.cc loads cuFFT at run time, so that a program that does not use it needs no
// such library. tests/emulation has a plain twin.

// Transforms `count` runs in place, on `stream`: each is 4096 + 2 floats whose first 4096 are real,
// and becomes 2049 complex numbers V[k] = Σ_n v[n] exp(−2πi nk / 4096). Enqueues and returns. The
// first call for a count makes a plan, which is kept. Not thread-safe. Requires FftStatus() to be
// OK.
absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream);

// Computes the signal of the only run's tiles, times DctNorm, in Makhoul's order: the input of
// FftRuns.
struct EncodeJob;
cudaError_t LaunchFftInput(const EncodeJob& job, float* runs, cudaStream_t stream);

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_FFT_H_

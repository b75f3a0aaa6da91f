// kernels/cuda/fft.h without cuFFT, in double.
#include <cmath>
#include <complex>
#include <vector>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fft.h"
#include "kernels/cuda/launch.cuh"
#include "tests/emulation/runtime.h"

namespace longwave::cuda {
namespace {

constexpr uint32_t kLength = 4096;

// The transform of x[0], x[stride], …, `count` of them, by halves (Cooley and Tukey 1965).
std::vector<std::complex<double>> TransformOf(const float* x, uint32_t count, uint32_t stride) {
  if (count == 1) return {*x};
  const uint32_t half = count / 2;
  const auto even = TransformOf(x, half, 2 * stride);
  const auto odd = TransformOf(x + stride, half, 2 * stride);
  std::vector<std::complex<double>> all(count);
  for (uint32_t k = 0; k < half; ++k) {
    const auto turned = std::polar(1.0, -2 * M_PI * k / count) * odd[k];
    all[k] = even[k] + turned;
    all[k + half] = even[k] - turned;
  }
  return all;
}

__global__ void FftKernel(float* const runs) {
  float* const run = runs + size_t{blockIdx.x} * (kLength + 2);
  const auto all = TransformOf(run, kLength, 1);
  for (uint32_t k = 0; k <= kLength / 2; ++k) {
    run[2 * k] = static_cast<float>(all[k].real());
    run[2 * k + 1] = static_cast<float>(all[k].imag());
  }
}

}  // namespace

const absl::Status& FftStatus() {
  static const absl::Status& ok = *new absl::Status();
  return ok;
}

absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream) {
  if (emulation::fft_fails) return absl::ResourceExhaustedError("no memory for a plan");
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(FftKernel, count, 1, stream, runs));
  return absl::OkStatus();
}

}  // namespace longwave::cuda

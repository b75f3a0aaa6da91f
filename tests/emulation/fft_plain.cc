// kernels/cuda/fft.h without cuFFT: the definition, in double.
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fft.h"
#include "kernels/cuda/launch.cuh"

namespace longwave::cuda {
namespace {

constexpr uint32_t kLength = 4096;

__global__ void FftKernel(float* const runs) {
  static const std::vector<double> cosine = [] {
    std::vector<double> table(kLength);
    for (uint32_t i = 0; i < kLength; ++i) table[i] = std::cos(2 * M_PI * i / kLength);
    return table;
  }();
  float* const run = runs + size_t{blockIdx.x} * (kLength + 2);
  const std::vector<float> x(run, run + kLength);
  for (uint32_t k = 0; k <= kLength / 2; ++k) {
    double re = 0, im = 0;
    for (uint32_t n = 0; n < kLength; ++n) {
      const uint32_t turn = n * k % kLength;
      re += x[n] * cosine[turn];
      im -= x[n] * cosine[(turn + 3 * kLength / 4) % kLength];  // the sine
    }
    run[2 * k] = static_cast<float>(re);
    run[2 * k + 1] = static_cast<float>(im);
  }
}

}  // namespace

absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream) {
  LONGWAVE_CUDA_RETURN_IF_ERROR(Launch(FftKernel, count, 1, 0, stream, runs));
  return absl::OkStatus();
}

}  // namespace longwave::cuda

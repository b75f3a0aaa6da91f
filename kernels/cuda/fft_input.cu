// The input of the FFT of runs (fft.h); the general encoder reads its output.
#include "kernels/cuda/fft.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/transform.cuh"

namespace longwave::cuda {
inline namespace fft_input_cu {

__global__ void __launch_bounds__(kGeneralThreads)
    FftInputKernel(LONGWAVE_CONSTANT const EncodeJob job, float* const runs) {
  constexpr uint32_t kLength = kTileElementsMax;
  const Tile tile = TileOf(job.tiles);
  float* const run = runs + static_cast<size_t>(blockIdx.x) * kSpectrumFloats;
  for (uint32_t e = threadIdx.x; e < kLength; e += kGeneralThreads) {
    const float s = e < tile.cols_valid ? SignalAt(job.signal, tile.offset + e) : 0.0f;
    // Even elements in ascending order, then odd ones in descending order.
    run[e % 2 == 0 ? e / 2 : kLength - 1 - e / 2] = __fmul_rn(NormOf(kLength), s);
  }
}

}  // namespace fft_input_cu

cudaError_t LaunchFftInput(const EncodeJob& job, float* runs, cudaStream_t stream) {
  return Launch(FftInputKernel, GridOf(job.tiles), kGeneralThreads, stream, job, runs);
}

}  // namespace longwave::cuda

#ifndef LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_
#define LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_

#include "kernels/cuda/block.cuh"

namespace longwave::cuda {

// The transform of dct_plan.h of a tile of any shape, in shared memory by the plans' tables.

inline constexpr uint32_t kGeneralThreads = 256;

// Runs the stages of one axis over the tile from *x to *y and back; *x has the result at the end.
__device__ inline void RunStages(const DctPlanView& plan, bool down, uint32_t cols, uint32_t size,
                                 float** x, float** y) {
  for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
    for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) {
      const uint32_t row = e / cols, col = e % cols;
      (*y)[e] = down ? DctStageOutput(plan, stage, row, *x + col, cols)
                     : DctStageOutput(plan, stage, col, *x + row * cols, 1);
    }
    __syncthreads();
    float* swapped = *x;
    *x = *y;
    *y = swapped;
  }
}

// to[cols, rows] = fromᵀ, then swaps the two.
__device__ inline void TransposeTile(uint32_t rows, uint32_t cols, float** from, float** to) {
  if (rows == 1 || cols == 1) return;
  for (uint32_t e = threadIdx.x; e < rows * cols; e += kGeneralThreads) {
    (*to)[e % cols * rows + e / cols] = (*from)[e];
  }
  __syncthreads();
  float* swapped = *from;
  *from = *to;
  *to = swapped;
}

__device__ inline void ScaleTile(float factor, uint32_t size, float* x) {
  for (uint32_t e = threadIdx.x; e < size; e += kGeneralThreads) x[e] = MulOnce(factor, x[e]);
  __syncthreads();
}

// DctNorm of dct_plan.h.
__device__ inline float NormOf(uint32_t size) {
  return __double2float_rn(__ddiv_rn(1.0, __dsqrt_rn(static_cast<double>(size))));
}

// Transforms elements [rows, cols] to coefficients [cols, rows] and back; needs a barrier before
// and has one after.
__device__ inline void Forward(const Tile& tile, const DctPlanView* plans, float** x, float** y) {
  const uint32_t rows = tile.rows, cols = tile.cols, size = rows * cols;
  ScaleTile(NormOf(size), size, *x);
  RunStages(plans[2 * rows], true, cols, size, x, y);
  RunStages(plans[2 * cols], false, cols, size, x, y);
  TransposeTile(rows, cols, x, y);
}

__device__ inline void Inverse(const Tile& tile, const DctPlanView* plans, float** x, float** y) {
  const uint32_t rows = tile.rows, cols = tile.cols, size = rows * cols;
  ScaleTile(NormOf(size), size, *x);
  TransposeTile(cols, rows, x, y);
  RunStages(plans[2 * cols + 1], false, cols, size, x, y);
  RunStages(plans[2 * rows + 1], true, cols, size, x, y);
}

// An FFT of a run (fft.h) is 2049 complex numbers.
inline constexpr uint32_t kSpectrumFloats = kTileElementsMax + 2;

// Coefficient `number` of a run from the FFT of its elements in Makhoul's order, which are already
// multiplied by DctNorm. Source: Makhoul 1980, "A fast cosine transform in one and two dimensions",
// IEEE Trans. ASSP 28.
__device__ inline float CoefficientOf(const float* spectrum, uint32_t number) {
  constexpr uint32_t kLength = kTileElementsMax;
  if (number == 0) return spectrum[0];
  const bool mirrored = number > kLength / 2;
  const float* v = spectrum + 2 * (mirrored ? kLength - number : number);
  const float re = v[0], im = mirrored ? -v[1] : v[1];
  const float angle =
      static_cast<float>(number) * static_cast<float>(3.14159265358979 / (2 * kLength));
  return 1.41421356f * (re * cosf(angle) + im * sinf(angle));
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_

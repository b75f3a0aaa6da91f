#ifndef LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_
#define LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_

#include "kernels/cuda/block.cuh"

namespace longwave::cuda {

// The stages of one axis over the tile from *x to *y and back; at the end *x is where the result
// is.
__device__ inline void RunStages(const DctPlanView& plan, bool down, uint32_t cols, uint32_t size,
                                 float** x, float** y) {
  for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
    for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) {
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

// to[cols, rows] = fromᵀ, then the two change places.
__device__ inline void TransposeTile(uint32_t rows, uint32_t cols, float** from, float** to) {
  for (uint32_t e = threadIdx.x; e < rows * cols; e += kBlockThreads) {
    (*to)[e % cols * rows + e / cols] = (*from)[e];
  }
  __syncthreads();
  float* swapped = *from;
  *from = *to;
  *to = swapped;
}

__device__ inline void ScaleTile(float factor, uint32_t size, float* x) {
  for (uint32_t e = threadIdx.x; e < size; e += kBlockThreads) x[e] = MulOnce(factor, x[e]);
  __syncthreads();
}

// The transform of dct_plan.h: from elements [rows, cols] to coefficients [cols, rows] and back.
__device__ inline void Forward(const TileJob& job, float** x, float** y) {
  const uint32_t size = job.rows * job.cols;
  if (job.down.length == 0) return;
  ScaleTile(job.norm, size, *x);
  RunStages(job.down, true, job.cols, size, x, y);
  RunStages(job.along, false, job.cols, size, x, y);
  TransposeTile(job.rows, job.cols, x, y);
}

__device__ inline void Inverse(const TileJob& job, float** x, float** y) {
  const uint32_t size = job.rows * job.cols;
  if (job.down.length == 0) return;
  ScaleTile(job.norm, size, *x);
  TransposeTile(job.cols, job.rows, x, y);
  RunStages(job.along, false, job.cols, size, x, y);
  RunStages(job.down, true, job.cols, size, x, y);
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_TRANSFORM_CUH_

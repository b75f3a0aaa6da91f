#ifndef LONGWAVE_KERNELS_CUDA_BLOCK_CUH_
#define LONGWAVE_KERNELS_CUDA_BLOCK_CUH_

#include <cstdint>

#include "kernels/cuda/jobs.h"

namespace longwave::cuda {

inline constexpr uint32_t kBlockThreads = 256;
inline constexpr uint32_t kTileElementsMax = 4096;
// Elias-Fano codes of a tile have at most 8192 bits (k = n = 4096); two words more, so that a field
// may be read and written across a word's end without asking.
inline constexpr uint32_t kIndexWordsMax = 256;

// What a block works in: 43 KiB of shared memory.
struct TileShared {
  float x[kTileElementsMax];
  float y[kTileElementsMax];
  uint16_t indices[kTileElementsMax];
  uint64_t scratch[kBlockThreads];  // of the functions below
  uint32_t words[kIndexWordsMax + 2];
  uint32_t broadcast[4];
};

// Element `at` of an array of fp32, or of bf16.
__device__ inline float LoadElement(const void* array, bool is_bf16, uint64_t at) {
  if (!is_bf16) return static_cast<const float*>(array)[at];
  return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t*>(array)[at]) << 16);
}

// scale · (a − b), or scale · a.
__device__ inline float SignalAt(const void* a, const void* b, bool is_bf16, float scale,
                                 uint64_t at) {
  const float x = LoadElement(a, is_bf16, at);
  return __fmul_rn(scale, b == nullptr ? x : __fsub_rn(x, LoadElement(b, is_bf16, at)));
}

// All threads of the block call these together; each ends in a barrier, so that scratch is free
// again.

// The sum over the block, in an order fixed by the thread numbers.
template <typename T>
__device__ T BlockSum(T value, uint64_t* scratch) {
  static_assert(sizeof(T) == sizeof(uint64_t), "scratch holds words of 64 bits");
  T* partial = reinterpret_cast<T*>(scratch);
  const uint32_t me = threadIdx.x;
  partial[me] = value;
  __syncthreads();
  for (uint32_t step = kBlockThreads / 2; step > 0; step /= 2) {
    if (me < step) partial[me] += partial[me + step];
    __syncthreads();
  }
  const T sum = partial[0];
  __syncthreads();
  return sum;
}

__device__ inline uint32_t BlockMax(uint32_t value, uint64_t* scratch) {
  uint32_t* partial = reinterpret_cast<uint32_t*>(scratch);
  const uint32_t me = threadIdx.x;
  partial[me] = value;
  __syncthreads();
  for (uint32_t step = kBlockThreads / 2; step > 0; step /= 2) {
    if (me < step && partial[me + step] > partial[me]) partial[me] = partial[me + step];
    __syncthreads();
  }
  const uint32_t largest = partial[0];
  __syncthreads();
  return largest;
}

// The sum of `value` over the threads before this one.
__device__ inline uint32_t BlockExclusiveSum(uint32_t value, uint64_t* scratch) {
  uint32_t* partial = reinterpret_cast<uint32_t*>(scratch);
  const uint32_t me = threadIdx.x;
  partial[me] = value;
  __syncthreads();
  for (uint32_t step = 1; step < kBlockThreads; step *= 2) {
    const uint32_t before = me >= step ? partial[me - step] : 0;
    __syncthreads();
    partial[me] += before;
    __syncthreads();
  }
  const uint32_t inclusive = partial[me];
  __syncthreads();
  return inclusive - value;
}

// Sum of squares of x[0 … n) in double.
__device__ inline double BlockSquareSum(const float* x, uint32_t n, uint64_t* scratch) {
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < n; i += kBlockThreads) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return BlockSum(sum, scratch);
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_BLOCK_CUH_

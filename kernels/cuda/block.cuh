#ifndef LONGWAVE_KERNELS_CUDA_BLOCK_CUH_
#define LONGWAVE_KERNELS_CUDA_BLOCK_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/jobs.h"

namespace longwave::cuda {

inline constexpr uint32_t kTileElementsMax = 4096;
inline constexpr uint32_t kWarpThreads = 32;
inline constexpr uint32_t kAllLanes = ~0u;

// A tile's coefficients in shared memory have a gap of one word after each 64, so that both
// neighbours and numbers 64 apart are in different banks.
__device__ inline uint32_t Padded(uint32_t number) { return number + (number >> 6); }
inline constexpr uint32_t kPaddedElementsMax = kTileElementsMax + kTileElementsMax / 64;

__device__ inline uint32_t Lane() { return threadIdx.x % kWarpThreads; }
__device__ inline uint32_t Warp() { return threadIdx.x / kWarpThreads; }

// Prefetches the line of `address` to the second-level cache.
__device__ inline void Prefetch([[maybe_unused]] const void* address) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

__device__ inline uint32_t MagnitudeBits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// The sum over the lanes, in all lanes, in an order fixed by the lanes' numbers.
template <typename T>
__device__ T WarpSum(T value) {
  for (uint32_t step = kWarpThreads / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(step));
  }
  return value;
}

__device__ inline uint32_t WarpCount(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return WarpSum(value);
#else
  return __reduce_add_sync(kAllLanes, value);
#endif
}

__device__ inline uint32_t WarpMax(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  for (uint32_t step = kWarpThreads / 2; step > 0; step /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(step)));
  }
  return value;
#else
  return __reduce_max_sync(kAllLanes, value);
#endif
}

__device__ inline uint32_t WarpMin(uint32_t value) { return ~WarpMax(~value); }

// The exchange of values for the functions of a block below.
template <uint32_t kThreads>
struct Exchange {
  static constexpr uint32_t kWarps = kThreads / kWarpThreads;
  uint64_t values[2][kWarps];
};

// All threads of the block call the functions below together. Each function ends in a barrier, so
// that the exchange is free again and earlier writes to shared memory are visible.

// The sums over the block of two values, in an order fixed by the thread numbers.
template <uint32_t kThreads, typename T>
__device__ void BlockSum(T& first, T& second, Exchange<kThreads>& exchange) {
  static_assert(sizeof(T) == sizeof(uint64_t), "the exchange holds words of 64 bits");
  T* const partial = reinterpret_cast<T*>(exchange.values);
  constexpr uint32_t kWarps = Exchange<kThreads>::kWarps;
  first = WarpSum(first);
  second = WarpSum(second);
  if (Lane() == 0) {
    partial[Warp()] = first;
    partial[kWarps + Warp()] = second;
  }
  __syncthreads();
  first = partial[0];
  second = partial[kWarps];
  for (uint32_t w = 1; w < kWarps; ++w) {
    first += partial[w];
    second += partial[kWarps + w];
  }
  __syncthreads();
}

template <uint32_t kThreads, typename T>
__device__ T BlockSum(T value, Exchange<kThreads>& exchange) {
  T none = 0;
  BlockSum(value, none, exchange);
  return value;
}

template <uint32_t kThreads>
__device__ uint32_t BlockMax(uint32_t value, Exchange<kThreads>& exchange) {
  uint32_t* const partial = reinterpret_cast<uint32_t*>(exchange.values);
  value = WarpMax(value);
  if (Lane() == 0) partial[Warp()] = value;
  __syncthreads();
  for (uint32_t w = 0; w < Exchange<kThreads>::kWarps; ++w) value = max(value, partial[w]);
  __syncthreads();
  return value;
}

// The run of this block, and whether it has a tile for the block: the grid is as wide as the
// longest run. Read again where needed, from constants: in registers it would make the compiler
// spill.
__device__ __forceinline__ const TileRun& RunOf(const TilesJob& job) {
  return job.runs[blockIdx.y];
}
__device__ __forceinline__ bool HasTile(const TilesJob& job) {
  return blockIdx.x < RunOf(job).count;
}
// The number of this block's tile in its segment.
__device__ __forceinline__ uint32_t NumberOf(const TilesJob& job) {
  return RunOf(job).first + blockIdx.x;
}
__device__ __forceinline__ const Tile& TileOf(const TilesJob& job) {
  return job.tiles[RunOf(job).segment_begin + NumberOf(job)];
}

// The grid of a launch over these runs.
inline dim3 GridOf(const TilesJob& job) {
  uint32_t longest = 0;
  for (uint32_t r = 0; r < job.run_count; ++r) longest = std::max(longest, job.runs[r].count);
  return dim3(longest, job.run_count);
}

struct Scan {
  uint32_t before;  // the sum over the threads before this one
  uint32_t total;
};

template <uint32_t kThreads>
__device__ Scan BlockScan(uint32_t value, Exchange<kThreads>& exchange) {
  uint32_t* const partial = reinterpret_cast<uint32_t*>(exchange.values);
  uint32_t inclusive = value;
  for (uint32_t step = 1; step < kWarpThreads; step *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, inclusive, step);
    if (Lane() >= step) inclusive += below;
  }
  if (Lane() == kWarpThreads - 1) partial[Warp()] = inclusive;
  __syncthreads();
  Scan scan = {inclusive - value, 0};
  for (uint32_t w = 0; w < Exchange<kThreads>::kWarps; ++w) {
    if (w < Warp()) scan.before += partial[w];
    scan.total += partial[w];
  }
  __syncthreads();
  return scan;
}

// Counts over the block for a search of many steps: one barrier for each step, since neighbouring
// steps use different places. `step` is the number of earlier calls, the same in all threads. The
// caller has a barrier before the exchange's next other use.
template <uint32_t kThreads>
__device__ uint32_t BlockCount(uint32_t value, uint32_t step, Exchange<kThreads>& exchange) {
  uint32_t* const partial = reinterpret_cast<uint32_t*>(exchange.values[step % 2]);
  value = WarpCount(value);
  if (Lane() == 0) partial[Warp()] = value;
  __syncthreads();
  uint32_t sum = 0;
  for (uint32_t w = 0; w < Exchange<kThreads>::kWarps; ++w) sum += partial[w];
  return sum;
}

// scale · (a − b), or scale · a.
__device__ inline float SignalAt(const Signal& signal, uint64_t at) {
  const float x = signal.a[at];
  return __fmul_rn(signal.scale, signal.b == nullptr ? x : __fsub_rn(x, signal.b[at]));
}

__device__ inline double Square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

// Sums of squares of finite values stay below this limit; a sum with an infinity or a NaN does not.
__device__ inline bool IsFiniteSum(double square_sum) { return square_sum < 1e100; }

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_BLOCK_CUH_

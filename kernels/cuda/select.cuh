#ifndef LONGWAVE_KERNELS_CUDA_SELECT_CUH_
#define LONGWAVE_KERNELS_CUDA_SELECT_CUH_

#include "common/base/rng.h"
#include "common/wire/codec.h"
#include "kernels/cuda/block.cuh"

namespace longwave::cuda {

__device__ inline uint32_t MagnitudeBits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// Indices of the k of x[0 … n) of largest magnitude, ties to the smaller index, in increasing
// order: the radix search of SelectTopK (common/wire/tile_codec.cc), three digits of the
// magnitude's bits. histogram: 2048 words of shared memory.
__device__ inline void SelectLargest(const float* x, uint32_t n, uint32_t k, uint32_t* histogram,
                                     TileShared& shared) {
  constexpr uint32_t kShifts[3] = {20, 10, 0};
  constexpr uint32_t kBits[3] = {11, 10, 10};
  uint32_t threshold = 0, known = 0, wanted = k;
  for (uint32_t digit = 0; digit < 3; ++digit) {
    const uint32_t shift = kShifts[digit], mask = (1u << kBits[digit]) - 1;
    for (uint32_t i = threadIdx.x; i <= mask; i += kBlockThreads) histogram[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += kBlockThreads) {
      const uint32_t magnitude = MagnitudeBits(x[i]);
      if ((magnitude & known) == threshold) atomicAdd(&histogram[(magnitude >> shift) & mask], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t bucket = mask, left = wanted;
      while (histogram[bucket] < left) left -= histogram[bucket--];
      shared.broadcast[0] = bucket;
      shared.broadcast[1] = left;
    }
    __syncthreads();
    threshold |= shared.broadcast[0] << shift;
    wanted = shared.broadcast[1];
    known |= mask << shift;
    __syncthreads();
  }
  // Each thread looks at a run of neighbours, so that running counts give the indices in order.
  const uint32_t run = (n + kBlockThreads - 1) / kBlockThreads;
  const uint32_t begin = min(n, threadIdx.x * run), end = min(n, begin + run);
  uint32_t above = 0, equal = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t magnitude = MagnitudeBits(x[i]);
    above += magnitude > threshold;
    equal += magnitude == threshold;
  }
  const uint32_t equal_before = BlockExclusiveSum(equal, shared.scratch);
  uint32_t equal_left = equal_before < wanted ? min(equal, wanted - equal_before) : 0;
  uint32_t at = BlockExclusiveSum(above + equal_left, shared.scratch);
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t magnitude = MagnitudeBits(x[i]);
    if (magnitude < threshold) continue;
    if (magnitude == threshold) {
      if (equal_left == 0) continue;
      --equal_left;
    }
    shared.indices[at++] = static_cast<uint16_t>(i);
  }
  __syncthreads();
}

// Floyd's sample, as SelectRandom: sequential by nature, so one thread draws and all write.
__device__ inline void SelectDrawn(uint32_t n, uint32_t k, uint64_t draw, TileShared& shared) {
  constexpr uint32_t kWords = kTileElementsMax / 32;
  static_assert(kWords <= kBlockThreads && kWords <= kIndexWordsMax, "one thread a word");
  const uint32_t me = threadIdx.x;
  if (me < kWords) shared.words[me] = 0;
  __syncthreads();
  if (me == 0) {
    Rng rng(draw);
    for (uint32_t j = n - k; j < n; ++j) {
      uint32_t index = static_cast<uint32_t>(rng.Below(uint64_t{j} + 1));
      if ((shared.words[index / 32] >> (index % 32) & 1u) != 0) index = j;
      shared.words[index / 32] |= 1u << (index % 32);
    }
  }
  __syncthreads();
  uint32_t word = me < kWords ? shared.words[me] : 0;
  uint32_t at = BlockExclusiveSum(__popc(word), shared.scratch);
  for (; word != 0; word &= word - 1) {
    shared.indices[at++] = static_cast<uint16_t>(me * 32 + __ffs(static_cast<int>(word)) - 1);
  }
  __syncthreads();
}

// The selections that read no values and send no indices. Leaves shared.indices.
__device__ inline void SelectUnsent(Selection selection, uint32_t n, uint32_t k, uint64_t draw,
                                    TileShared& shared) {
  if (selection == Selection::kRandom) {
    SelectDrawn(n, k, draw, shared);
    return;
  }
  uint32_t start = 0, stride = 1;
  if (selection == Selection::kStride) {
    stride = n / k;
    start = static_cast<uint32_t>(Rng(draw).Below(stride));
  }
  for (uint32_t i = threadIdx.x; i < k; i += kBlockThreads) {
    shared.indices[i] = static_cast<uint16_t>(start + i * stride);
  }
  __syncthreads();
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_SELECT_CUH_

#ifndef LONGWAVE_KERNELS_CUDA_SELECT_CUH_
#define LONGWAVE_KERNELS_CUDA_SELECT_CUH_

#include "common/base/rng.h"
#include "kernels/cuda/block.cuh"

namespace longwave::cuda {

// Selects a tile's coefficients to send, with the same indices as common/wire/tile_codec.cc.
//
// A search finds the magnitude that k coefficients reach; finite floats' magnitudes are ordered as
// their bits without the sign. The search first runs over the maxima of small groups: if k groups
// reach a magnitude, at least k values do. A second search is exact, over the candidates, the few
// values that reach the first result. Ballots and reductions count, so that no two threads share a
// counter.

inline constexpr uint32_t kCandidatesMax = 1024;
inline constexpr uint32_t kBitmapWords = kTileElementsMax / 32;

// The scratch memory for selecting and packing one tile, beside its coefficients.
template <uint32_t kThreadCount, uint32_t kSentMax>
struct TileScratch {
  static constexpr uint32_t kThreads = kThreadCount;
  // Elias-Fano codes have at most 8192 bits (k = n = 4096). One more word permits reading a field
  // across a word's end without a check.
  static constexpr uint32_t kWords = (kSentMax + kTileElementsMax) / 32 + 2;

  union {
    uint16_t indices[kSentMax];           // of the sent coefficients, in increasing order
    uint32_t magnitudes[kCandidatesMax];  // before: of the candidates
  };
  union {
    uint32_t words[kWords];               // bits from or to the payload
    uint16_t candidates[kCandidatesMax];  // before: indices, in increasing order
    uint32_t bitmap[kBitmapWords];        // before: of the candidates or of the draws
  };
  uint16_t ranks[kWords];  // set bits before each word
  Exchange<kThreads> exchange;
};

struct Threshold {
  uint32_t at;
  uint32_t count;  // of the values that reach it
};

// The largest magnitude that at least `k` values reach, or a smaller one that at most `enough` do.
// count(at, step): values that reach `at`, over the block. At least k reach `low`; fewer reach
// `high`.
template <uint32_t kThreads, typename Count>
__device__ Threshold Search(uint32_t low, uint32_t count_low, uint32_t high, uint32_t k,
                            uint32_t enough, const Count& count) {
  for (uint32_t step = 0; high - low > 1 && count_low > enough; ++step) {
    const uint32_t middle = low + (high - low) / 2;
    const uint32_t reached = count(middle, step);
    if (reached >= k) {
      low = middle;
      count_low = reached;
    } else {
      high = middle;
    }
  }
  __syncthreads();
  return {low, count_low};
}

// Writes the indices of the k largest magnitudes of `count` candidates, ties to the first, in the
// candidates' order. magnitude(i), index(i): of candidate i. At least k of them reach `low`, none
// reaches `high`; `magnitude` may read the memory that the indices overwrite.
template <typename Scratch, typename Magnitude, typename Index>
__device__ void SelectAmong(uint32_t count, uint32_t k, uint32_t low, uint32_t high,
                            const Magnitude& magnitude, const Index& index, Scratch& scratch) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  const Threshold threshold =
      Search<kThreads>(low, count, high, k, k, [&](uint32_t at, uint32_t step) {
        uint32_t mine = 0;
        for (uint32_t i = threadIdx.x; i < count; i += kThreads) mine += magnitude(i) >= at;
        return BlockCount<kThreads>(mine, step, scratch.exchange);
      });
  // Each thread takes a run of neighbours, so that running counts give the positions in order.
  const uint32_t run = (count + kThreads - 1) / kThreads;
  static_assert(kTileElementsMax / kThreads <= 64, "a run's flags are one word");
  const uint32_t begin = min(count, threadIdx.x * run), end = min(count, begin + run);
  uint64_t above = 0, equal = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t bits = magnitude(i);
    above |= static_cast<uint64_t>(bits > threshold.at) << (i - begin);
    equal |= static_cast<uint64_t>(bits == threshold.at) << (i - begin);
  }
  const Scan scan = BlockScan<kThreads>(
      static_cast<uint32_t>(__popcll(above) | __popcll(equal) << 16), scratch.exchange);
  const uint32_t wanted = k - (scan.total & 0xffffu);
  const uint32_t equal_before = scan.before >> 16;
  uint32_t left = wanted > equal_before ? wanted - equal_before : 0;
  uint32_t at = (scan.before & 0xffffu) + min(wanted, equal_before);
  for (uint64_t flags = above | equal; flags != 0; flags &= flags - 1) {
    const uint32_t bit = static_cast<uint32_t>(__ffsll(static_cast<long long>(flags))) - 1;
    if ((above >> bit & 1u) == 0) {
      if (left == 0) continue;
      --left;
    }
    scratch.indices[at++] = static_cast<uint16_t>(index(begin + bit));
  }
  __syncthreads();
}

// Selects from x[Padded(0 … n)]; all values may be candidates.
template <typename Scratch>
__device__ void SelectLargest(const float* x, uint32_t n, uint32_t k, Scratch& scratch) {
  SelectAmong(
      n, k, 0, 0x80000000u, [x](uint32_t i) { return MagnitudeBits(x[Padded(i)]); },
      [](uint32_t i) { return i; }, scratch);
}

// Selects from 4096 values, of which thread t of 64 holds x[v], number 64·v + t; shared has them
// too, padded.
template <typename Scratch>
__device__ void SelectLargestInRegisters(const float (&x)[64], const float* shared, uint32_t k,
                                         Scratch& scratch) {
  constexpr uint32_t kThreads = 64, kGroups = 16;  // groups of 4 values in each thread
  static_assert(Scratch::kThreads == kThreads);
  if (k > 6 * kThreads) {  // more than the groups separate well
    SelectLargest(shared, kTileElementsMax, k, scratch);
    return;
  }
  uint32_t group[kGroups];
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) {
    group[g] = MagnitudeBits(
        fmaxf(fmaxf(fabsf(x[g]), fabsf(x[g + 16])), fmaxf(fabsf(x[g + 32]), fabsf(x[g + 48]))));
  }
  // A few candidates too many are cheaper than the steps that would separate them here.
  const uint32_t enough = k + k / 4 + 8;
  const bool coarse = k <= kThreads + kThreads / 2;  // groups of 16 then
  if (coarse) {
#pragma unroll
    for (uint32_t g = 0; g < 4; ++g) {
      group[g] = max(max(group[g], group[g + 4]), max(group[g + 8], group[g + 12]));
    }
  }
  uint32_t largest = 0, smallest = ~0u;
#pragma unroll
  for (uint32_t g = 0; g < kGroups; ++g) {
    if (g >= 4 && coarse) continue;
    largest = max(largest, group[g]);
    smallest = min(smallest, group[g]);
  }
  uint32_t* const bounds = reinterpret_cast<uint32_t*>(scratch.exchange.values);
  largest = WarpMax(largest);
  smallest = WarpMin(smallest);
  if (Lane() == 0) {
    bounds[2 * Warp()] = largest;
    bounds[2 * Warp() + 1] = smallest;
  }
  __syncthreads();
  const uint32_t high = max(bounds[0], bounds[2]) + 1;
  const uint32_t low = min(bounds[1], bounds[3]);
  __syncthreads();
  const auto count_of = [&](uint32_t groups) {
    return Search<kThreads>(low, groups * kThreads, high, k, enough,
                            [&](uint32_t at, uint32_t step) {
                              uint32_t mine = 0;
#pragma unroll
                              for (uint32_t g = 0; g < kGroups; ++g) {
                                if (g < groups) mine += group[g] >= at;
                              }
                              return BlockCount<kThreads>(mine, step, scratch.exchange);
                            });
  };
  const uint32_t at = coarse ? count_of(4).at : count_of(kGroups).at;

  // The candidates as a bitmap in the order of the numbers: warp w's ballot of x[v] is word 2v + w.
  uint32_t words[2] = {};
#pragma unroll
  for (uint32_t v = 0; v < 64; ++v) {
    const uint32_t ballot = __ballot_sync(kAllLanes, MagnitudeBits(x[v]) >= at);
    if (Lane() == v % 32) words[v / 32] = ballot;
  }
  scratch.bitmap[2 * Lane() + Warp()] = words[0];
  scratch.bitmap[2 * (Lane() + 32) + Warp()] = words[1];
  __syncthreads();
  uint64_t mine = scratch.bitmap[2 * threadIdx.x] |
                  static_cast<uint64_t>(scratch.bitmap[2 * threadIdx.x + 1]) << 32;
  // The barrier of BlockScan also ends the bitmap's use.
  const Scan scan = BlockScan<kThreads>(static_cast<uint32_t>(__popcll(mine)), scratch.exchange);
  if (scan.total > kCandidatesMax) {  // many of nearly one magnitude
    SelectLargest(shared, kTileElementsMax, k, scratch);
    return;
  }
  for (uint32_t i = scan.before; mine != 0; mine &= mine - 1, ++i) {
    const uint32_t bit = static_cast<uint32_t>(__ffsll(static_cast<long long>(mine))) - 1;
    scratch.candidates[i] = static_cast<uint16_t>(64 * threadIdx.x + bit);
    scratch.magnitudes[i] = MagnitudeBits(shared[65 * threadIdx.x + bit]);
  }
  __syncthreads();
  SelectAmong(
      scan.total, k, at, high, [&](uint32_t i) { return scratch.magnitudes[i]; },
      [&](uint32_t i) { return scratch.candidates[i]; }, scratch);
}

// Calls f(i, position) for each set bit of scratch.words[0 … words), number i from below, each from
// one thread. The words were written before a barrier; there is none at the end.
template <typename Scratch, typename F>
__device__ void ForEachSetBit(uint32_t words, Scratch& scratch, const F& f) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  const uint32_t run = (words + kThreads - 1) / kThreads;
  const uint32_t begin = min(words, threadIdx.x * run), end = min(words, begin + run);
  uint32_t mine = 0;
  for (uint32_t w = begin; w < end; ++w) mine += static_cast<uint32_t>(__popc(scratch.words[w]));
  uint32_t rank = BlockScan<kThreads>(mine, scratch.exchange).before;
  for (uint32_t w = begin; w < end; ++w) {
    scratch.ranks[w] = static_cast<uint16_t>(rank);
    rank += static_cast<uint32_t>(__popc(scratch.words[w]));
  }
  __syncthreads();
  for (uint32_t position = threadIdx.x; position < 32 * words; position += kThreads) {
    const uint32_t word = scratch.words[position / 32], bit = 1u << (position % 32);
    if ((word & bit) == 0) continue;
    f(scratch.ranks[position / 32] + static_cast<uint32_t>(__popc(word & (bit - 1))), position);
  }
}

// SelectionDraw of tile_codec.h, from PayloadJob's part of it.
__device__ inline uint64_t DrawOf(const PayloadJob& payload, uint64_t tile) {
  return Mix64(payload.draw_key + tile);
}

// Floyd's sample, as SelectRandom, into scratch.words as a bitmap of n bits. All threads draw; one
// thread decides which draws collide, since that is sequential.
template <typename Scratch>
__device__ void DrawBitmap(uint32_t n, uint32_t k, uint64_t draw, Scratch& scratch) {
  constexpr uint32_t kThreads = Scratch::kThreads;
  for (uint32_t w = threadIdx.x; w < kBitmapWords; w += kThreads) scratch.words[w] = 0;
  for (uint32_t i = threadIdx.x; i < k; i += kThreads) {
    Rng rng(draw);
    rng.Skip(i);
    scratch.indices[i] = static_cast<uint16_t>(rng.Below(uint64_t{n - k + i} + 1));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < k; ++i) {
      uint32_t index = scratch.indices[i];
      if ((scratch.words[index / 32] >> (index % 32) & 1u) != 0) index = n - k + i;
      scratch.words[index / 32] |= 1u << (index % 32);
    }
  }
  __syncthreads();
}

// The start and the distance of SelectStride.
struct Stride {
  uint32_t start, stride;
};
__device__ inline Stride StrideOf(uint32_t n, uint32_t k, uint64_t draw) {
  const uint32_t stride = n / k;
  return {static_cast<uint32_t>(Rng(draw).Below(stride)), stride};
}

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_SELECT_CUH_

#ifndef LONGWAVE_KERNELS_CPU_SELECT_H_
#define LONGWAVE_KERNELS_CPU_SELECT_H_

#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_math.h"

// SelectTopK of common/wire/tile_codec.h without a sort or a histogram:
//   1. a threshold that at least k magnitudes reach and few more, by bisection over the maxima of
//      groups of coefficients: k groups whose maximum reaches it have k such coefficients
//   2. one pass that collects the coefficients that reach the threshold
//   3. the exact k among these, by bisection over their magnitudes' bits
// Magnitudes are compared as the bits of the float without its sign, which order finite floats.

namespace longwave::cpu {
namespace {

// The number of v[0 … n) that are at least t; n is a multiple of 4 · kLanes.
LONGWAVE_SIMD uint32_t CountAtLeast(uint32_t n, const uint32_t* v, uint32_t t) {
  const VI threshold = BroadcastI(t);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 4 * kLanes) {
    uint64_t mask = 0;
    Unroll<4>([&](auto k) LONGWAVE_BODY {
      mask |= static_cast<uint64_t>(MaskAtLeast(LoadI(v + i + k.value * kLanes), threshold))
              << (k.value * kLanes);
    });
    count += static_cast<uint32_t>(__builtin_popcountll(mask));
  }
  return count;
}

LONGWAVE_SIMD void ZeroUpTo(uint32_t begin, uint32_t end, uint32_t* v) {
  for (uint32_t i = begin; i < end; ++i) v[i] = 0;
}

// A large threshold, found in few steps, that at least k of v[0 … n) reach; 0 if less than k are
// above zero. n is a multiple of 4 · kLanes.
inline uint32_t ThresholdOf(uint32_t n, const uint32_t* v, uint32_t largest, uint32_t k,
                            TileWork& work) {
  const uint32_t enough = k + k / 8;  // not worth another step
  uint32_t low = 0, high = largest + 1;
  if (work.threshold > 0 && work.threshold <= largest) {
    // Starts at the last threshold and doubles the steps until two of them bracket the new one.
    uint32_t at = work.threshold, step = 1u << 19;
    while (low == 0 || high > largest) {
      FetchSome(4, work.fetcher);
      const uint32_t count = CountAtLeast(n, v, at);
      const bool reached = count >= k;
      low = reached ? at : low;
      high = reached ? high : at;
      if (reached && count <= enough) return low;
      if (reached ? high - at <= step : at <= step) break;
      at = reached ? at + step : at - step;
      step *= 2;
    }
  } else {
    // The k-th magnitude is rarely below a sixteenth of the largest; if it is, low stays.
    constexpr uint32_t kFourOctaves = 4u << 23;
    if (largest > kFourOctaves && CountAtLeast(n, v, largest - kFourOctaves) >= k) {
      low = largest - kFourOctaves;
    }
  }
  while (high - low > 1) {
    FetchSome(4, work.fetcher);
    const uint32_t middle = low + (high - low) / 2;
    const uint32_t count = CountAtLeast(n, v, middle);
    const bool reached = count >= k;
    low = reached ? middle : low;
    high = reached ? high : middle;
    if (reached && count <= enough) break;
  }
  return low;
}

// The bits of those of x[0 … n) that reach the threshold, in words of 64.
inline void Mark(uint32_t n, const float* x, uint32_t t, uint64_t* words, TileWork& work) {
  const VI threshold = BroadcastI(t);
  uint32_t i = 0;
  for (; i + 64 <= n; i += 64) {
    if (i % 128 == 0) FetchSome(1, work.fetcher);
    if constexpr (kLanes >= 8) {
      // Byte stores are less work than composing a word.
      auto* const to = reinterpret_cast<unsigned char*>(words + i / 64);
      Unroll<64 / kLanes>([&](auto k) LONGWAVE_BODY {
        const auto mask = static_cast<LaneMask>(
            MaskAtLeast(Magnitude(Load(x + i + k.value * kLanes)), threshold));
        __builtin_memcpy(to + k.value * sizeof mask, &mask, sizeof mask);
      });
    } else {
      uint64_t word = 0;
      Unroll<64 / kLanes>([&](auto k) LONGWAVE_BODY {
        const VI v = Magnitude(Load(x + i + k.value * kLanes));
        word |= static_cast<uint64_t>(MaskAtLeast(v, threshold)) << (k.value * kLanes);
      });
      words[i / 64] = word;
    }
  }
  if (i == n) return;
  uint64_t word = 0;
  for (uint32_t bit = 0; i + bit < n; bit += kLanes) {
    const uint32_t left = n - i - bit;
    const V v = left < kLanes ? LoadPart(x + i + bit, left) : Load(x + i + bit);
    word |= static_cast<uint64_t>(MaskAtLeast(Magnitude(v), threshold)) << bit;
  }
  words[i / 64] = word & ~uint64_t{0} >> (64 - (n - i));
}

// The positions of the set bits, in order. `out` has room for three more.
inline uint32_t ListBits(uint32_t word_count, const uint64_t* words, uint32_t* out,
                         TileWork& work) {
  uint32_t count = 0;
  Fetcher fetcher = work.fetcher;
  for (uint32_t w = 0; w < word_count; ++w) {
    if (w % 2 == 0) FetchSome(1, fetcher);
    uint64_t word = words[w];
    const uint32_t base = w * 64;
    const auto bits = static_cast<uint32_t>(__builtin_popcountll(word));
    // Four at a time without checks: cheaper than mispredicting the end.
    uint32_t i = 0;
    do {
      uint32_t* to = out + count + i;
      to[0] = base + TrailingZeros(word);
      word &= word - 1;
      to[1] = base + TrailingZeros(word);
      word &= word - 1;
      to[2] = base + TrailingZeros(word);
      word &= word - 1;
      to[3] = base + TrailingZeros(word);
      word &= word - 1;
      i += 4;
    } while (i < bits);
    count += bits;
  }
  work.fetcher = fetcher;
  return count;
}

// Keeps the k largest magnitudes among `count` candidates, in their order.
inline void KeepLargest(uint32_t count, uint32_t k, uint32_t low, uint32_t largest,
                        uint32_t* candidates, uint32_t* magnitudes, Fetcher& fetcher) {
  const uint32_t padded = RoundUp(count, 4 * kLanes);
  ZeroUpTo(count, padded, magnitudes);
  // At least k reach `low`, less than k reach `high`; padding reaches nothing above zero.
  uint32_t high = largest + 1;
  uint32_t reached = count;
  while (reached != k && high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    FetchSome(4, fetcher);
    const uint32_t now = CountAtLeast(padded, magnitudes, middle);
    const bool enough = now >= k;
    low = enough ? middle : low;
    reached = enough ? now : reached;
    high = enough ? high : middle;
  }
  if (reached == k && low > 0) {
    const VI threshold = BroadcastI(low);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i += kLanes) {
      const uint32_t mask = MaskAtLeast(LoadI(magnitudes + i), threshold);
      // Writes only behind the reads: kept <= i.
      StoreCompressed(candidates + kept, LoadI(candidates + i), mask);
      kept += static_cast<uint32_t>(__builtin_popcount(mask));
    }
    return;
  }
  // Ties at `low`: all above it, and the first ones that equal it.
  uint32_t ties = k - CountAtLeast(padded, magnitudes, low + 1);
  uint32_t kept = 0;
  for (uint32_t i = 0; kept < k; ++i) {
    const bool tie = magnitudes[i] == low;
    const bool take = tie ? ties > 0 : magnitudes[i] > low;
    ties -= tie && take ? 1 : 0;
    candidates[kept] = candidates[i];
    kept += take ? 1 : 0;
  }
}

inline void SelectTopK(uint32_t n, uint32_t k, const float* x, TileWork& work) {
  uint64_t words[kTileSizeMax / 64];
  uint32_t* candidates = work.candidates;
  uint32_t* magnitudes = work.magnitudes;
  // Groups of four, and groups of sixteen of these; the coarsest that has k groups is used.
  const uint32_t fine = RoundUp(n, 64) / 4;
  const uint32_t fine_padded = RoundUp(fine, 4 * kLanes);
  ZeroUpTo(fine, fine_padded, work.maxima);
  VI largest = BroadcastI(0);
  for (uint32_t i = 0; i < fine_padded; i += kLanes)
    largest = MaxI(largest, LoadI(work.maxima + i));
  const uint32_t largest_bits = LargestI(largest);

  uint32_t threshold = 0;
  if (k < n && k <= fine / 8) {
    uint32_t coarse = 0;
    for (uint32_t i = 0; i < fine_padded; i += 4 * kLanes, coarse += kLanes) {
      const uint32_t* from = work.maxima + i;
      StoreI(magnitudes + coarse, MaxI(MaxI(LoadI(from), LoadI(from + kLanes)),
                                       MaxI(LoadI(from + 2 * kLanes), LoadI(from + 3 * kLanes))));
    }
    const uint32_t coarse_padded = RoundUp(coarse, 4 * kLanes);
    ZeroUpTo(coarse, coarse_padded, magnitudes);
    threshold = ThresholdOf(coarse_padded, magnitudes, largest_bits, k, work);
  } else if (k < n && k <= fine / 4 * 3) {
    threshold = ThresholdOf(fine_padded, work.maxima, largest_bits, k, work);
  } else if (k < n) {
    const uint32_t padded = RoundUp(n, 64);
    for (uint32_t i = 0; i < padded; i += kLanes) {
      const V v = i + kLanes <= n ? Load(x + i) : i < n ? LoadPart(x + i, n - i) : Broadcast(0);
      StoreI(magnitudes + i, Magnitude(v));
    }
    threshold = ThresholdOf(padded, magnitudes, largest_bits, k, work);
  }

  if (threshold > 0) work.threshold = threshold;

  Mark(n, x, threshold, words, work);
  const uint32_t count = ListBits(RoundUp(n, 64) / 64, words, candidates, work);
  if (count > k) {
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t bits;
      __builtin_memcpy(&bits, x + candidates[i], sizeof bits);
      magnitudes[i] = bits & 0x7fffffffu;
    }
    KeepLargest(count, k, threshold, largest_bits, candidates, magnitudes, work.fetcher);
  }
  for (uint32_t i = 0; i < k; ++i) {
    work.indices[i] = static_cast<uint16_t>(candidates[i]);
    work.values[i] = x[candidates[i]];
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SELECT_H_

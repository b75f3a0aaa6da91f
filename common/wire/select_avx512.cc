#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "common/base/check.h"
#include "common/wire/avx512.h"
#include "common/wire/tile_codec.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave::avx512 {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffff;
constexpr uint32_t kInfinityBits = 0x7f800000;

struct Candidates {
  alignas(64) std::array<uint64_t, kTileSizeMax / 64> words;
  alignas(64) std::array<uint16_t, kTileSizeMax + 32> indices;
  alignas(64) std::array<uint32_t, kTileSizeMax + 32> magnitudes;
};

// Marks those of values[0 … n) whose magnitude's bits are at least t; returns how many.
LONGWAVE_AVX512 uint32_t Mark(const float* values, uint32_t n, uint32_t t, uint64_t* words) {
  const __m512i threshold = _mm512_set1_epi32(static_cast<int>(t));
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  auto* const to = reinterpret_cast<__mmask16*>(words);
  uint32_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (uint32_t j = 0; j < 4; ++j) {
      const __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(values + i + 16 * j), mask);
      _store_mask16(to + i / 16 + j, _mm512_cmpge_epu32_mask(magnitude, threshold));
    }
  }
  for (; i + 16 <= n; i += 16) {
    const __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(values + i), mask);
    _store_mask16(to + i / 16, _mm512_cmpge_epu32_mask(magnitude, threshold));
  }
  const uint32_t word_count = (n + 63) / 64;
  for (uint32_t j = i / 16; j < word_count * 4; ++j) {
    const auto valid = static_cast<__mmask16>(j == i / 16 ? (1u << (n % 16)) - 1 : 0u);
    const __m512i magnitude =
        _mm512_and_si512(_mm512_maskz_loadu_epi32(valid, values + std::min(16 * j, n)), mask);
    _store_mask16(to + j, _mm512_mask_cmpge_epu32_mask(valid, magnitude, threshold));
  }
  uint32_t count = 0;
  for (uint32_t w = 0; w < word_count; ++w) {
    count += static_cast<uint32_t>(std::popcount(words[w]));
  }
  return count;
}

LONGWAVE_AVX512 uint32_t CopyMarks(const TopKMarks& marks, uint32_t n, uint64_t* words) {
  uint32_t count = 0;
  for (uint32_t w = 0; w < (n + 63) / 64; ++w) {
    words[w] = marks.words[w];
    count += static_cast<uint32_t>(std::popcount(words[w]));
  }
  return count;
}

LONGWAVE_AVX512 uint32_t LargestOf(const float* values, uint32_t n) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  __m512i largest = _mm512_setzero_si512();
  for (uint32_t i = 0; i < n; i += 16) {
    const auto valid = static_cast<__mmask16>(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
    largest = _mm512_max_epu32(largest,
                               _mm512_and_si512(_mm512_maskz_loadu_epi32(valid, values + i), mask));
  }
  return _mm512_reduce_max_epu32(largest);
}

// A threshold that at least k magnitudes reach and, unless many are equal, few more; their marks.
// Returns the threshold; *count is how many reach it.
LONGWAVE_AVX512 uint32_t FindThreshold(const float* values, uint32_t n, uint32_t k, uint32_t guess,
                                       const TopKMarks* marks, uint64_t* words, uint32_t* count) {
  // Twice as many candidates cost less than one more pass over all.
  const uint32_t enough = 2 * k + 64;
  uint32_t low = 0, high = kInfinityBits;  // `low` is reached by k or more, `high` by less
  constexpr uint32_t kOctave = 1u << 23;
  uint32_t step = kOctave / 8;
  uint32_t t = guess;
  if (t == 0 || t >= high) {
    high = LargestOf(values, n) + 1;
    t = high > 1 + kOctave ? high - kOctave : high / 2;
  }
  bool is_low_known = false;
  while (true) {
    if (marks != nullptr && t == marks->from) {
      *count = CopyMarks(*marks, n, words);
    } else {
      *count = Mark(values, n, t, words);
    }
    if (*count >= k) {
      low = t;
      is_low_known = true;
      if (*count <= enough) return t;
    } else {
      high = t;
    }
    if (high - low <= 1) break;
    // From the guess in steps that grow, then by halves.
    if (!is_low_known && t > low + step) {
      t -= step;
      step *= 2;
    } else if (high == kInfinityBits && high - t > step) {
      t += step;
      step *= 2;
    } else {
      t = low + (high - low) / 2;
    }
  }
  if (t != low) *count = Mark(values, n, low, words);
  return low;
}

LONGWAVE_AVX512 void IndicesOf(const uint64_t* words, uint32_t n, uint16_t* to) {
  alignas(64) static constexpr std::array<uint16_t, 32> kLanes = [] {
    std::array<uint16_t, 32> lanes{};
    for (uint16_t i = 0; i < 32; ++i) lanes[i] = i;
    return lanes;
  }();
  __m512i index = _mm512_load_si512(kLanes.data());
  const __m512i next = _mm512_set1_epi16(32);
  for (uint32_t w = 0; w < (n + 63) / 64; ++w) {
    for (const auto mask :
         {static_cast<__mmask32>(words[w]), static_cast<__mmask32>(words[w] >> 32)}) {
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi16(mask, index));
      to += std::popcount(static_cast<uint32_t>(mask));
      index = _mm512_add_epi16(index, next);
    }
  }
}

// Magnitudes of `count` candidates, zeros up to a multiple of 32; returns the largest.
LONGWAVE_AVX512 uint32_t GatherMagnitudes(const float* values, const uint16_t* indices,
                                          uint32_t count, uint32_t* to) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(kMagnitudeMask));
  __m512i largest = _mm512_setzero_si512();
  for (uint32_t i = 0; i < (count + 31) / 32 * 32; i += 16) {
    const uint32_t left = count > i ? count - i : 0;
    const auto valid = static_cast<__mmask16>(left >= 16 ? 0xffffu : (1u << left) - 1);
    const __m512i index = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(valid, indices + i));
    const __m512i magnitude = _mm512_and_si512(
        _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), valid, index, values, 4), mask);
    _mm512_store_si512(to + i, magnitude);
    largest = _mm512_max_epu32(largest, magnitude);
  }
  return _mm512_reduce_max_epu32(largest);
}

// count: a multiple of 32.
LONGWAVE_AVX512 uint32_t CountAtLeast(const uint32_t* magnitudes, uint32_t count, uint32_t t) {
  const __m512i threshold = _mm512_set1_epi32(static_cast<int>(t));
  uint32_t reached = 0;
  for (uint32_t i = 0; i < count; i += 32) {
    const __mmask32 mask =
        _mm512_kunpackw(_mm512_cmpge_epu32_mask(_mm512_load_si512(magnitudes + i + 16), threshold),
                        _mm512_cmpge_epu32_mask(_mm512_load_si512(magnitudes + i), threshold));
    reached += static_cast<uint32_t>(std::popcount(static_cast<uint32_t>(mask)));
  }
  return reached;
}

// Writes the candidates of at least `high` and the first `equals` of those in [low, high).
LONGWAVE_AVX512 void Take(const Candidates& from, uint32_t count, uint32_t low, uint32_t high,
                          uint32_t equals, uint16_t* to) {
  const __m512i low_bound = _mm512_set1_epi32(static_cast<int>(low));
  const __m512i high_bound = _mm512_set1_epi32(static_cast<int>(high));
  for (uint32_t i = 0; i < count; i += 32) {
    const __m512i a = _mm512_load_si512(from.magnitudes.data() + i);
    const __m512i b = _mm512_load_si512(from.magnitudes.data() + i + 16);
    const auto above = static_cast<uint32_t>(_mm512_kunpackw(
        _mm512_cmpge_epu32_mask(b, high_bound), _mm512_cmpge_epu32_mask(a, high_bound)));
    auto between = static_cast<uint32_t>(_mm512_kunpackw(_mm512_cmpge_epu32_mask(b, low_bound),
                                                         _mm512_cmpge_epu32_mask(a, low_bound)));
    // Of the last block, those that are there: zeros behind them may reach a `low` of zero.
    if (count - i < 32) between &= (1u << (count - i)) - 1;
    between &= ~above;
    // The lowest `equals` bits that are set.
    const uint32_t first = equals >= 32 ? between : _pdep_u32((uint32_t{1} << equals) - 1, between);
    equals -= static_cast<uint32_t>(std::popcount(first));
    const uint32_t taken = above | first;
    const auto taken_count = static_cast<uint32_t>(std::popcount(taken));
    const __m512i index =
        _mm512_maskz_compress_epi16(taken, _mm512_load_si512(from.indices.data() + i));
    _mm512_mask_storeu_epi16(to, static_cast<__mmask32>((uint64_t{1} << taken_count) - 1), index);
    to += taken_count;
  }
}

}  // namespace

//   1. A threshold that k magnitudes or a few more reach, from the guess on.
//   2. Those that reach it, side by side.
//   3. Among them the k-th, by bisection and interpolation over the bits of their magnitudes.
void SelectTopKNear(std::span<const float> values, std::span<uint16_t> indices, uint32_t* guess,
                    const TopKMarks* marks) {
  const auto n = static_cast<uint32_t>(values.size());
  const auto k = static_cast<uint32_t>(indices.size());
  LONGWAVE_CHECK(1 <= k && k <= n && n <= kTileSizeMax);
  if (k == n) return std::iota(indices.begin(), indices.end(), uint16_t{0});
  Candidates found;
  uint32_t count = 0;
  uint32_t low = FindThreshold(values.data(), n, k, *guess, marks, found.words.data(), &count);
  IndicesOf(found.words.data(), n, found.indices.data());
  uint32_t high =
      1 + GatherMagnitudes(values.data(), found.indices.data(), count, found.magnitudes.data());
  uint32_t low_count = count, high_count = 0;
  const uint32_t padded = (count + 31) / 32 * 32;
  for (bool halve = false; low_count > k && high - low > 1; halve = !halve) {
    uint32_t middle = low + (high - low) / 2;
    if (!halve) {
      const uint64_t share = uint64_t{high - low} * (low_count - k) / (low_count - high_count);
      middle = low + std::clamp<uint32_t>(static_cast<uint32_t>(share), 1, high - low - 1);
    }
    const uint32_t reached = CountAtLeast(found.magnitudes.data(), padded, middle);
    if (reached >= k) {
      low = middle;
      low_count = reached;
    } else {
      high = middle;
      high_count = reached;
    }
  }
  // Either exactly k reach `low`, or those between are equal and the first of them fill up.
  Take(found, count, low, high, k - high_count, indices.data());
  constexpr uint32_t kBelow = 1u << 19;  // a sixteenth of an octave
  *guess = low > kBelow ? low - kBelow : 0;
}

}  // namespace longwave::avx512

#endif  // LONGWAVE_HAS_AVX512

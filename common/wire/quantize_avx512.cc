#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/wire/avx512.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave::avx512 {
namespace {

LONGWAVE_AVX512 inline __mmask16 ValidOf(size_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffffu : (1u << left) - 1);
}

// Fixed-point magnitudes below 2^40, at most 4096 of them, times two at most: sums below 2^53,
// which are exact in double in any order.
LONGWAVE_AVX512 double SumOf(const double* fixed, size_t padded) {
  __m512d sums[4] = {};  // four, so that additions need not wait for each other
  for (size_t i = 0; i < padded; i += 32) {
    for (size_t j = 0; j < 4; ++j) {
      sums[j] = _mm512_add_pd(sums[j], _mm512_load_pd(fixed + i + 8 * j));
    }
  }
  return _mm512_reduce_add_pd(
      _mm512_add_pd(_mm512_add_pd(sums[0], sums[1]), _mm512_add_pd(sums[2], sums[3])));
}

// Three steps of Lloyd's iteration, as FitInt2Scale of tile_codec.cc.
LONGWAVE_AVX512 double FitInt2(const double* fixed, size_t count, size_t padded) {
  static_assert(kInt2Small == 1 && kInt2Large == 2);
  constexpr int kSteps = 3;
  const double sum = SumOf(fixed, padded);
  double scale = sum / (1.5 * static_cast<double>(count));
  for (int step = 0; step < kSteps; ++step) {
    const __m512d threshold = _mm512_set1_pd(1.5 * scale);
    __m512d sums[4] = {};
    uint32_t large = 0;
    for (size_t i = 0; i < padded; i += 32) {
      for (size_t j = 0; j < 4; ++j) {
        const __m512d magnitude = _mm512_load_pd(fixed + i + 8 * j);
        const __mmask8 is_large = _mm512_cmp_pd_mask(magnitude, threshold, _CMP_GT_OQ);
        sums[j] = _mm512_mask_add_pd(sums[j], is_large, sums[j], magnitude);
        large += static_cast<uint32_t>(std::popcount(static_cast<uint32_t>(is_large)));
      }
    }
    // Σ |v|·L and Σ L².
    const double dot = sum + _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(sums[0], sums[1]),
                                                                _mm512_add_pd(sums[2], sums[3])));
    scale = dot / static_cast<double>(count + 3 * size_t{large});
  }
  return scale;
}

}  // namespace

LONGWAVE_AVX512 uint32_t LargestMagnitudeBits(std::span<const float> values) {
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  __m512i largest = _mm512_setzero_si512();
  for (size_t i = 0; i < values.size(); i += 16) {
    const __m512i bits = _mm512_maskz_loadu_epi32(ValidOf(values.size() - i), values.data() + i);
    largest = _mm512_max_epu32(largest, _mm512_and_si512(bits, mask));
  }
  return _mm512_reduce_max_epu32(largest);
}

LONGWAVE_AVX512 uint16_t QuantizeTwoBits(ValueCodec codec, float largest, std::span<float> values,
                                         std::span<uint32_t> codes) {
  const size_t count = values.size();
  const size_t padded = (count + 31) / 32 * 32;
  alignas(64) std::array<double, kTileSizeMax> fixed;
  const int exponent = 39 - std::ilogb(largest);
  const __m512d factor = _mm512_set1_pd(std::ldexp(1.0, exponent));
  const __m512 sign_bit = _mm512_set1_ps(-0.0f);
  constexpr int kTruncate = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
  for (size_t i = 0; i < padded; i += 16) {
    const size_t left = count > i ? count - i : 0;
    const __m512 v = _mm512_maskz_loadu_ps(ValidOf(left), values.data() + std::min(i, count));
    const __m512 magnitude = _mm512_andnot_ps(sign_bit, v);
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(magnitude));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(magnitude, 1));
    _mm512_store_pd(fixed.data() + i, _mm512_roundscale_pd(_mm512_mul_pd(low, factor), kTruncate));
    _mm512_store_pd(fixed.data() + i + 8,
                    _mm512_roundscale_pd(_mm512_mul_pd(high, factor), kTruncate));
  }
  const double fitted = codec == ValueCodec::kSign
                            ? SumOf(fixed.data(), padded) / static_cast<double>(count)
                            : FitInt2(fixed.data(), count, padded);
  const auto scale_float = static_cast<float>(std::ldexp(fitted, -exponent));
  const uint16_t scale_code = std::min(EncodeScale16(scale_float), ScaleCodeMax(codec));
  if (scale_code == 0) return 0;
  const float scale = DecodeScale16(scale_code);
  // 2·|v| > 3·scale, without leaving the floats: 1.5·scale is exact and finite.
  const __m512 middle = _mm512_set1_ps(codec == ValueCodec::kSign ? HUGE_VALF : 1.5f * scale);
  const __m512 small_value = _mm512_set1_ps(scale);
  const __m512 large_value =
      _mm512_set1_ps(codec == ValueCodec::kSign ? scale : static_cast<float>(kInt2Large) * scale);
  const __m512i positive = _mm512_set1_epi32(codec == ValueCodec::kSign ? 1 : 2);
  for (size_t i = 0; i < count; i += 16) {
    const __mmask16 valid = ValidOf(count - i);
    const __m512 v = _mm512_maskz_loadu_ps(valid, values.data() + i);
    const __mmask16 is_negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
    const __mmask16 is_large =
        _mm512_cmp_ps_mask(_mm512_andnot_ps(sign_bit, v), middle, _CMP_GT_OQ);
    // sign: 0 and 1. int2: −2, −1, +1, +2 are 0 … 3: the upper bit says plus, the lower one
    // whether the magnitude is large where it is plus, small where it is minus.
    __m512i code = _mm512_maskz_mov_epi32(static_cast<__mmask16>(~is_negative), positive);
    if (codec == ValueCodec::kInt2) {
      code = _mm512_mask_or_epi32(code, static_cast<__mmask16>(is_large ^ is_negative), code,
                                  _mm512_set1_epi32(1));
    }
    const __m512 magnitude = _mm512_mask_mov_ps(small_value, is_large, large_value);
    _mm512_mask_storeu_ps(values.data() + i, valid,
                          _mm512_mask_or_ps(magnitude, is_negative, magnitude, sign_bit));
    _mm512_mask_storeu_epi32(codes.data() + i, valid, code);
  }
  return scale_code;
}

LONGWAVE_AVX512 void PackCodes(uint32_t bits, std::span<const uint32_t> codes, std::byte* to) {
  const __m128i by_four = _mm_set1_epi16(0x0401);       // the second of two codes, times 4
  const __m128i by_sixteen = _mm_set1_epi32(0x100001);  // the second pair, times 16
  for (size_t i = 0; i < codes.size(); i += 16, to += 2 * bits) {
    const size_t left = codes.size() - i;
    const __m512i of_block = _mm512_maskz_loadu_epi32(ValidOf(left), codes.data() + i);
    uint32_t word = 0;
    if (bits == 1) {
      word = _mm512_test_epi32_mask(of_block, of_block);
    } else {
      const __m128i pairs = _mm_maddubs_epi16(_mm512_cvtepi32_epi8(of_block), by_four);
      word = static_cast<uint32_t>(
          _mm_cvtsi128_si32(_mm_cvtepi32_epi8(_mm_madd_epi16(pairs, by_sixteen))));
    }
    if (left >= 16) {
      std::memcpy(to, &word, bits == 1 ? 2 : 4);
    } else {
      std::memcpy(to, &word, (left * bits + 7) / 8);
    }
  }
}

}  // namespace longwave::avx512

#endif  // LONGWAVE_HAS_AVX512

#ifndef LONGWAVE_KERNELS_CPU_SIMD_AVX2_H_
#define LONGWAVE_KERNELS_CPU_SIMD_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd_operators.h"

// The primitives of simd.h for AVX2 with FMA, BMI and POPCNT.

namespace longwave::cpu {
namespace {

using LaneMask = uint8_t;
constexpr bool kHasFma = true;

LONGWAVE_SIMD VI FirstLanes(uint32_t count) {
  const VI lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}
LONGWAVE_SIMD V LoadPart(const float* from, uint32_t count) {
  return _mm256_maskload_ps(from, FirstLanes(count));
}
LONGWAVE_SIMD void StorePart(float* to, V v, uint32_t count) {
  _mm256_maskstore_ps(to, FirstLanes(count), v);
}
LONGWAVE_SIMD V LoadBf16(const uint16_t* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

LONGWAVE_SIMD V Broadcast(float x) { return _mm256_set1_ps(x); }
LONGWAVE_SIMD V Fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
// Reverses the lanes.
LONGWAVE_SIMD V Reverse(V v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}
LONGWAVE_SIMD V WhereAbove(V a, V b, V yes, V no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

LONGWAVE_SIMD VI BroadcastI(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
LONGWAVE_SIMD V LargerMagnitude(V a, V b) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), Magnitude(b)));
}
LONGWAVE_SIMD VI MaxI(VI a, VI b) { return _mm256_max_epi32(a, b); }
LONGWAVE_SIMD uint32_t MaskAtLeast(VI a, VI b) {
  const int below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a)));
  return static_cast<uint32_t>(below) ^ 0xffu;
}
LONGWAVE_SIMD uint32_t LargestI(VI v) {
  uint32_t lane[kLanes];
  StoreI(lane, v);
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kLanes; ++i) largest = lane[i] > largest ? lane[i] : largest;
  return largest;
}
LONGWAVE_SIMD void StoreLow16(uint16_t* to, VI v) {
  uint32_t lane[kLanes];
  StoreI(lane, v);
  for (uint32_t i = 0; i < kLanes; ++i) to[i] = static_cast<uint16_t>(lane[i]);
}

// Stores the lanes of `v` whose bit is set in `mask`, one after the other; may write kLanes.
LONGWAVE_SIMD void StoreCompressed(uint32_t* to, VI v, uint32_t mask) {
  // The set bits' numbers, a nibble each, by spreading the mask to nibbles and extracting.
  const uint64_t nibbles = _pdep_u64(mask, 0x1111111111111111u) * 0xf;
  const auto order = static_cast<uint32_t>(_pext_u64(0x76543210u, nibbles));
  const VI shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const VI lanes = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(order)), shifts);
  StoreI(to, _mm256_permutevar8x32_epi32(v, lanes));
}

LONGWAVE_SIMD VD BroadcastD(double x) { return _mm256_set1_pd(x); }
LONGWAVE_SIMD VD LoadMagnitudesD(const float* from) {
  const VD v = _mm256_cvtps_pd(_mm_loadu_ps(from));
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v);
}
LONGWAVE_SIMD VD TruncD(VD v) { return _mm256_round_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
// `v` where a > b, else zero.
LONGWAVE_SIMD VD KeepAboveD(VD a, VD b, VD v) {
  return _mm256_and_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ), v);
}
LONGWAVE_SIMD VD MinD(VD a, VD b) { return _mm256_min_pd(a, b); }
LONGWAVE_SIMD VD MaxD(VD a, VD b) { return _mm256_max_pd(a, b); }
LONGWAVE_SIMD void StoreAsU32(uint32_t* to, VD v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvttpd_epi32(v));
}
LONGWAVE_SIMD double SumD(VD v) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

LONGWAVE_SIMD VI LoadBytes(const uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

// 64-bit integers, kLanes / 2 of them.
LONGWAVE_SIMD VL LoadWiden(const uint8_t* from) {
  return _mm256_cvtepu8_epi64(_mm_loadu_si32(from));
}
LONGWAVE_SIMD VL LoadWiden(const uint16_t* from) {
  return _mm256_cvtepu16_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
LONGWAVE_SIMD VL LoadWiden(const uint32_t* from) {
  return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LONGWAVE_SIMD VL LoadWiden(const uint64_t* from) { return LoadL(from); }
LONGWAVE_SIMD VL BroadcastL(uint64_t x) { return _mm256_set1_epi64x(static_cast<int64_t>(x)); }
LONGWAVE_SIMD VL ShiftLeftL(VL v, int bits) { return _mm256_sll_epi64(v, _mm_cvtsi32_si128(bits)); }
LONGWAVE_SIMD VL ShiftRightL(VL v, int bits) {
  return _mm256_srl_epi64(v, _mm_cvtsi32_si128(bits));
}
// Whether any lane of a or b is above the limit's, unsigned.
LONGWAVE_SIMD bool AnyAboveL(VL a, VL b, VL limit) {
  const VL sign = BroadcastL(uint64_t{1} << 63), signed_limit = _mm256_xor_si256(limit, sign);
  const VL above = _mm256_or_si256(_mm256_cmpgt_epi64(_mm256_xor_si256(a, sign), signed_limit),
                                   _mm256_cmpgt_epi64(_mm256_xor_si256(b, sign), signed_limit));
  return !_mm256_testz_si256(above, above);
}
// Signed, to nearest: the two halves become the exact doubles 2^84 + 2^63 + h · 2^32 and 2^52 + l;
// subtraction removes their offsets, and one addition rounds.
LONGWAVE_SIMD VD ToDoubleL(VL v) {
  const VL low = _mm256_blend_epi32(BroadcastL(0x4330000000000000u), v, 0x55);
  const VL high = _mm256_xor_si256(_mm256_srli_epi64(v, 32), BroadcastL(0x4530000080000000u));
  const VD both = _mm256_castsi256_pd(BroadcastL(0x4530000080100000u));
  return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
}
LONGWAVE_SIMD VD FmaD(VD a, VD b, VD c) { return _mm256_fmadd_pd(a, b, c); }
LONGWAVE_SIMD VD NegatedFmaD(VD a, VD b, VD c) { return _mm256_fnmadd_pd(a, b, c); }
// `v` where a is not zero, else zero.
LONGWAVE_SIMD VD KeepNonzeroD(VD a, VD v) {
  return _mm256_and_pd(_mm256_cmp_pd(a, ZeroD(), _CMP_NEQ_OQ), v);
}
LONGWAVE_SIMD V ToFloats(VD low, VD high) {
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}
// `v` with its magnitude limited to `largest`.
LONGWAVE_SIMD V ClampMagnitude(V v, V largest) {
  return _mm256_max_ps(_mm256_min_ps(v, largest), _mm256_sub_ps(Broadcast(0), largest));
}
LONGWAVE_SIMD uint32_t CountNonzero(V v) {
  const V nonzero = _mm256_cmp_ps(v, Broadcast(0), _CMP_NEQ_OQ);
  return static_cast<uint32_t>(
      __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_ps(nonzero))));
}

// out[c] lane r = in[r * stride + c].
LONGWAVE_SIMD void TransposeBlock(const float* in, uint32_t stride, V* out) {
  __m256 a[8], b[8];
  // Rows r and r + 4 share a register from the start, so that no later step crosses its halves.
#pragma GCC unroll 4
  for (uint32_t r = 0; r < 4; ++r) {
    const float* low = in + r * stride;
    const float* high = in + (r + 4) * stride;
    a[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
    a[4 + r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low + 4)),
                                    _mm_loadu_ps(high + 4), 1);
  }
#pragma GCC unroll 2
  for (uint32_t h = 0; h < 8; h += 4) {
    b[h] = _mm256_unpacklo_ps(a[h], a[h + 1]);
    b[h + 1] = _mm256_unpackhi_ps(a[h], a[h + 1]);
    b[h + 2] = _mm256_unpacklo_ps(a[h + 2], a[h + 3]);
    b[h + 3] = _mm256_unpackhi_ps(a[h + 2], a[h + 3]);
    out[h] = _mm256_shuffle_ps(b[h], b[h + 2], 0x44);
    out[h + 1] = _mm256_shuffle_ps(b[h], b[h + 2], 0xee);
    out[h + 2] = _mm256_shuffle_ps(b[h + 1], b[h + 3], 0x44);
    out[h + 3] = _mm256_shuffle_ps(b[h + 1], b[h + 3], 0xee);
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_AVX2_H_

#ifndef LONGWAVE_KERNELS_CPU_SIMD_AVX512_H_
#define LONGWAVE_KERNELS_CPU_SIMD_AVX512_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd_operators.h"

// The primitives of simd.h for AVX-512 F, DQ, BW and VL.

namespace longwave::cpu {
namespace {

using LaneMask = uint16_t;
constexpr bool kHasFma = true;

LONGWAVE_SIMD __mmask16 FirstLanes(uint32_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}
LONGWAVE_SIMD V LoadPart(const float* from, uint32_t count) {
  return _mm512_maskz_loadu_ps(FirstLanes(count), from);
}
LONGWAVE_SIMD void StorePart(float* to, V v, uint32_t count) {
  _mm512_mask_storeu_ps(to, FirstLanes(count), v);
}
LONGWAVE_SIMD V LoadBf16(const uint16_t* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

LONGWAVE_SIMD V Broadcast(float x) { return _mm512_set1_ps(x); }
LONGWAVE_SIMD V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
// Reverses the lanes.
LONGWAVE_SIMD V Reverse(V v) {
  const VI backwards = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_permutexvar_ps(backwards, v);
}
LONGWAVE_SIMD V WhereAbove(V a, V b, V yes, V no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}

LONGWAVE_SIMD VI BroadcastI(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
// The larger magnitude of two; of a number and a NaN, the number.
LONGWAVE_SIMD V LargerMagnitude(V a, V b) { return _mm512_range_ps(a, b, 0xb); }
LONGWAVE_SIMD VI MaxI(VI a, VI b) { return _mm512_max_epi32(a, b); }
LONGWAVE_SIMD uint32_t MaskAtLeast(VI a, VI b) { return _mm512_cmpge_epi32_mask(a, b); }
LONGWAVE_SIMD uint32_t LargestI(VI v) { return static_cast<uint32_t>(_mm512_reduce_max_epi32(v)); }
// The caller stores bf16 bits of 32-bit lanes one vector at a time.
LONGWAVE_SIMD void StoreLow16(uint16_t* to, VI v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(v));
}

// Stores the lanes of `v` whose bit is set in `mask`, one after the other; may write kLanes.
LONGWAVE_SIMD void StoreCompressed(uint32_t* to, VI v, uint32_t mask) {
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), v));
}

LONGWAVE_SIMD VD BroadcastD(double x) { return _mm512_set1_pd(x); }
LONGWAVE_SIMD VD LoadMagnitudesD(const float* from) {
  const VD v = _mm512_cvtps_pd(_mm256_loadu_ps(from));
  return _mm512_andnot_pd(_mm512_set1_pd(-0.0), v);
}
LONGWAVE_SIMD VD TruncD(VD v) {
  return _mm512_roundscale_pd(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
// `v` where a > b, else zero.
LONGWAVE_SIMD VD KeepAboveD(VD a, VD b, VD v) {
  return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ), v);
}
LONGWAVE_SIMD VD MinD(VD a, VD b) { return _mm512_min_pd(a, b); }
LONGWAVE_SIMD VD MaxD(VD a, VD b) { return _mm512_max_pd(a, b); }
LONGWAVE_SIMD void StoreAsU32(uint32_t* to, VD v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvttpd_epi32(v));
}
LONGWAVE_SIMD double SumD(VD v) { return _mm512_reduce_add_pd(v); }

// kLanes bytes, one in each lane.
LONGWAVE_SIMD VI LoadBytes(const uint8_t* from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// 64-bit integers, kLanes / 2 of them.
LONGWAVE_SIMD VL LoadWiden(const uint8_t* from) {
  return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
LONGWAVE_SIMD VL LoadWiden(const uint16_t* from) {
  return _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LONGWAVE_SIMD VL LoadWiden(const uint32_t* from) {
  return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
LONGWAVE_SIMD VL LoadWiden(const uint64_t* from) { return LoadL(from); }
LONGWAVE_SIMD VL BroadcastL(uint64_t x) { return _mm512_set1_epi64(static_cast<int64_t>(x)); }
LONGWAVE_SIMD VL ShiftLeftL(VL v, int bits) {
  return _mm512_sllv_epi64(v, _mm512_set1_epi64(bits));
}
LONGWAVE_SIMD VL ShiftRightL(VL v, int bits) {
  return _mm512_srlv_epi64(v, _mm512_set1_epi64(bits));
}
// Whether any lane of a or b is above the limit's, unsigned.
LONGWAVE_SIMD bool AnyAboveL(VL a, VL b, VL limit) {
  return !_kortestz_mask8_u8(_mm512_cmpgt_epu64_mask(a, limit), _mm512_cmpgt_epu64_mask(b, limit));
}
LONGWAVE_SIMD VD ToDoubleL(VL v) { return _mm512_cvtepi64_pd(v); }  // signed, to nearest
LONGWAVE_SIMD VD FmaD(VD a, VD b, VD c) { return _mm512_fmadd_pd(a, b, c); }
LONGWAVE_SIMD VD NegatedFmaD(VD a, VD b, VD c) { return _mm512_fnmadd_pd(a, b, c); }
// `v` where a is not zero, else zero.
LONGWAVE_SIMD VD KeepNonzeroD(VD a, VD v) {
  return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, ZeroD(), _CMP_NEQ_OQ), v);
}
LONGWAVE_SIMD V ToFloats(VD low, VD high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
// `v` with its magnitude limited to `largest`.
LONGWAVE_SIMD V ClampMagnitude(V v, V largest) { return _mm512_range_ps(v, largest, 0x2); }
LONGWAVE_SIMD uint32_t CountNonzero(V v) {
  return static_cast<uint32_t>(
      __builtin_popcount(_mm512_cmp_ps_mask(v, Broadcast(0), _CMP_NEQ_OQ)));
}

// out[c] lane r = in[r * stride + c]: four steps of exchanging halves, each of pairs twice as far.
// The first step, of halves of rows, uses loads, since only one port of the processor shuffles.
LONGWAVE_SIMD void TransposeBlock(const float* in, uint32_t stride, V* out) {
#pragma GCC unroll 2
  for (uint32_t h = 0; h < 16; h += 8) {
    __m512 a[8], b[8];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < 8; ++r) {
      const float* from = in + (r / 4 * 8 + r % 4) * stride + h;  // and four rows below it
      a[r] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(from)),
                                _mm256_loadu_ps(from + 4 * stride), 1);
    }
#pragma GCC unroll 2
    for (uint32_t r = 0; r < 8; r += 4) {
      const __m512d p = _mm512_castps_pd(_mm512_unpacklo_ps(a[r], a[r + 1]));
      const __m512d q = _mm512_castps_pd(_mm512_unpackhi_ps(a[r], a[r + 1]));
      const __m512d s = _mm512_castps_pd(_mm512_unpacklo_ps(a[r + 2], a[r + 3]));
      const __m512d t = _mm512_castps_pd(_mm512_unpackhi_ps(a[r + 2], a[r + 3]));
      b[r] = _mm512_castpd_ps(_mm512_unpacklo_pd(p, s));
      b[r + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(p, s));
      b[r + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(q, t));
      b[r + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(q, t));
    }
    // b[c] and b[4 + c] have columns h + c and h + 4 + c of eight rows each, in groups of four.
#pragma GCC unroll 4
    for (uint32_t c = 0; c < 4; ++c) {
      out[h + c] = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
      out[h + 4 + c] = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
    }
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_AVX512_H_

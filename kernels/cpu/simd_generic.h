#ifndef LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_
#define LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_

#include <cstdint>

#include "kernels/dct_codelet.h"

// The primitives of simd.h for any processor: vectors of four by the compilers' own extension, and
// loops over lanes for missing operators.

#define LONGWAVE_SIMD LONGWAVE_CODELET

namespace longwave::cpu {
namespace {

constexpr uint32_t kLanes = 4;
using LaneMask = uint8_t;
typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef double VD __attribute__((vector_size(16)));
typedef uint64_t VL __attribute__((vector_size(16)));
constexpr bool kHasFma = false;

LONGWAVE_SIMD V Load(const float* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
LONGWAVE_SIMD void Store(float* to, V v) { __builtin_memcpy(to, &v, sizeof v); }
LONGWAVE_SIMD V LoadPart(const float* from, uint32_t count) {
  V v = {};
  for (uint32_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
}
LONGWAVE_SIMD void StorePart(float* to, V v, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to[i] = v[i];
}
LONGWAVE_SIMD V AsFloat(VI v) { return reinterpret_cast<V>(v); }
LONGWAVE_SIMD VI AsInt(V v) { return reinterpret_cast<VI>(v); }
LONGWAVE_SIMD V LoadBf16(const uint16_t* from) {
  VI bits = {};
  for (uint32_t i = 0; i < kLanes; ++i) {
    bits[i] = static_cast<int32_t>(static_cast<uint32_t>(from[i]) << 16);
  }
  return AsFloat(bits);
}

LONGWAVE_SIMD V Broadcast(float x) { return V{x, x, x, x}; }
LONGWAVE_SIMD V Add(V a, V b) { return a + b; }
LONGWAVE_SIMD V Sub(V a, V b) { return a - b; }
LONGWAVE_SIMD V Mul(V a, V b) { return a * b; }
LONGWAVE_SIMD V Fma(V a, V b, V c) {
  return V{__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]),
           __builtin_fmaf(a[2], b[2], c[2]), __builtin_fmaf(a[3], b[3], c[3])};
}
// Reverses the lanes.
LONGWAVE_SIMD V Reverse(V v) { return V{v[3], v[2], v[1], v[0]}; }
LONGWAVE_SIMD V WhereAbove(V a, V b, V yes, V no) {
  const VI above = a > b;
  return AsFloat((AsInt(yes) & above) | (AsInt(no) & ~above));
}
LONGWAVE_SIMD uint32_t MaskOf(VI v) {  // of lanes that are 0 or −1
  return static_cast<uint32_t>((v[0] & 1) | (v[1] & 2) | (v[2] & 4) | (v[3] & 8));
}

LONGWAVE_SIMD VI LoadI(const uint32_t* from) {
  VI v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
LONGWAVE_SIMD void StoreI(uint32_t* to, VI v) { __builtin_memcpy(to, &v, sizeof v); }
LONGWAVE_SIMD VI BroadcastI(uint32_t x) {
  const auto i = static_cast<int32_t>(x);
  return VI{i, i, i, i};
}
LONGWAVE_SIMD VI Magnitude(V v) { return AsInt(v) & BroadcastI(0x7fffffffu); }
LONGWAVE_SIMD VI MaxI(VI a, VI b) {
  const VI above = a > b;
  return (a & above) | (b & ~above);
}
LONGWAVE_SIMD V LargerMagnitude(V a, V b) { return AsFloat(MaxI(AsInt(a), Magnitude(b))); }
LONGWAVE_SIMD uint32_t MaskAtLeast(VI a, VI b) { return MaskOf(a >= b); }
LONGWAVE_SIMD uint32_t LargestI(VI v) {
  int32_t largest = v[0];
  for (uint32_t i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return static_cast<uint32_t>(largest);
}
LONGWAVE_SIMD void StoreLow16(uint16_t* to, VI v) {
  for (uint32_t i = 0; i < kLanes; ++i) to[i] = static_cast<uint16_t>(v[i]);
}

// Stores the lanes of `v` whose bit is set in `mask`, one after the other; may write kLanes.
LONGWAVE_SIMD void StoreCompressed(uint32_t* to, VI v, uint32_t mask) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    *to = static_cast<uint32_t>(v[i]);
    to += mask >> i & 1;
  }
}

LONGWAVE_SIMD VD BroadcastD(double x) { return VD{x, x}; }
LONGWAVE_SIMD VD ZeroD() { return VD{0, 0}; }
LONGWAVE_SIMD VD LoadMagnitudesD(const float* from) {
  return VD{__builtin_fabs(static_cast<double>(from[0])),
            __builtin_fabs(static_cast<double>(from[1]))};
}
LONGWAVE_SIMD VD MulD(VD a, VD b) { return a * b; }
LONGWAVE_SIMD VD AddD(VD a, VD b) { return a + b; }
// For values from 0 to 2^62.
LONGWAVE_SIMD VD TruncD(VD v) {
  return VD{static_cast<double>(static_cast<int64_t>(v[0])),
            static_cast<double>(static_cast<int64_t>(v[1]))};
}
// `v` where a > b, else zero.
LONGWAVE_SIMD VD KeepAboveD(VD a, VD b, VD v) {
  return VD{a[0] > b[0] ? v[0] : 0, a[1] > b[1] ? v[1] : 0};
}
LONGWAVE_SIMD VD MinD(VD a, VD b) {
  return VD{a[0] < b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1]};
}
LONGWAVE_SIMD VD MaxD(VD a, VD b) {
  return VD{a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1]};
}
LONGWAVE_SIMD void StoreAsU32(uint32_t* to, VD v) {
  to[0] = static_cast<uint32_t>(v[0]);
  to[1] = static_cast<uint32_t>(v[1]);
}
LONGWAVE_SIMD double SumD(VD v) { return v[0] + v[1]; }

LONGWAVE_SIMD V ToFloat(VI v) {
  return V{static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2]),
           static_cast<float>(v[3])};
}
LONGWAVE_SIMD VI AddI(VI a, VI b) { return a + b; }
LONGWAVE_SIMD VI SubI(VI a, VI b) { return a - b; }
LONGWAVE_SIMD VI AndI(VI a, VI b) { return a & b; }
LONGWAVE_SIMD VI OrI(VI a, VI b) { return a | b; }
LONGWAVE_SIMD VI XorI(VI a, VI b) { return a ^ b; }
template <int kBits>
LONGWAVE_SIMD VI ShiftRightI(VI v) {
  typedef uint32_t VU __attribute__((vector_size(16)));
  return reinterpret_cast<VI>(reinterpret_cast<VU>(v) >> kBits);
}
template <int kBits>
LONGWAVE_SIMD VI ShiftLeftI(VI v) {
  typedef uint32_t VU __attribute__((vector_size(16)));
  return reinterpret_cast<VI>(reinterpret_cast<VU>(v) << kBits);
}
LONGWAVE_SIMD VI LoadBytes(const uint8_t* from) { return VI{from[0], from[1], from[2], from[3]}; }

// 64-bit integers, kLanes / 2 of them.
template <typename Word>
LONGWAVE_SIMD VL LoadWiden(const Word* from) {
  return VL{from[0], from[1]};
}
LONGWAVE_SIMD VL LoadL(const uint64_t* from) { return LoadWiden(from); }
LONGWAVE_SIMD void StoreL(uint64_t* to, VL v) { __builtin_memcpy(to, &v, sizeof v); }
LONGWAVE_SIMD VL BroadcastL(uint64_t x) { return VL{x, x}; }
LONGWAVE_SIMD VL AddL(VL a, VL b) { return a + b; }
LONGWAVE_SIMD VL MulL(VL a, VL b) { return VL{a[0] * b[0], a[1] * b[1]}; }
LONGWAVE_SIMD VL ShiftLeftL(VL v, int bits) { return v << static_cast<uint64_t>(bits); }
LONGWAVE_SIMD VL ShiftRightL(VL v, int bits) { return v >> static_cast<uint64_t>(bits); }
// Whether any lane of a or b is above the limit's, unsigned.
LONGWAVE_SIMD bool AnyAboveL(VL a, VL b, VL limit) {
  return a[0] > limit[0] || a[1] > limit[1] || b[0] > limit[0] || b[1] > limit[1];
}
LONGWAVE_SIMD VD ToDoubleL(VL v) {  // signed, to nearest
  return VD{static_cast<double>(static_cast<int64_t>(v[0])),
            static_cast<double>(static_cast<int64_t>(v[1]))};
}
LONGWAVE_SIMD VD FmaD(VD a, VD b, VD c) {
  return VD{__builtin_fma(a[0], b[0], c[0]), __builtin_fma(a[1], b[1], c[1])};
}
LONGWAVE_SIMD VD NegatedFmaD(VD a, VD b, VD c) { return FmaD(-a, b, c); }
LONGWAVE_SIMD VD DivD(VD a, VD b) { return a / b; }
// `v` where a is not zero, else zero.
LONGWAVE_SIMD VD KeepNonzeroD(VD a, VD v) { return VD{a[0] != 0 ? v[0] : 0, a[1] != 0 ? v[1] : 0}; }
LONGWAVE_SIMD V ToFloats(VD low, VD high) {
  return V{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
           static_cast<float>(high[1])};
}
// `v` with its magnitude limited to `largest`.
LONGWAVE_SIMD V ClampMagnitude(V v, V largest) {
  return WhereAbove(v, largest, largest, WhereAbove(-largest, v, -largest, v));
}
LONGWAVE_SIMD uint32_t CountNonzero(V v) {
  return static_cast<uint32_t>((v[0] != 0) + (v[1] != 0) + (v[2] != 0) + (v[3] != 0));
}

LONGWAVE_SIMD void Prefetch(const void* at) { __builtin_prefetch(at, 0, 2); }
// 64 for zero.
LONGWAVE_SIMD uint32_t TrailingZeros(uint64_t word) {
  return word == 0 ? 64 : static_cast<uint32_t>(__builtin_ctzll(word));
}

// out[c] lane r = in[r * stride + c].
LONGWAVE_SIMD void TransposeBlock(const float* in, uint32_t stride, V* out) {
  for (uint32_t c = 0; c < kLanes; ++c) {
    out[c] = V{in[c], in[stride + c], in[2 * stride + c], in[3 * stride + c]};
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_

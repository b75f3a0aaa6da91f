#ifndef LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_
#define LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_

#include <cstdint>

#include "kernels/cpu/simd_operators.h"

// The primitives of simd.h for any processor: vectors of four by the compilers' own extension, and
// loops over lanes for missing operators.

namespace longwave::cpu {
namespace {

using LaneMask = uint8_t;
constexpr bool kHasFma = false;

LONGWAVE_SIMD V LoadPart(const float* from, uint32_t count) {
  V v = {};
  for (uint32_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
}
LONGWAVE_SIMD void StorePart(float* to, V v, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) to[i] = v[i];
}
LONGWAVE_SIMD V LoadBf16(const uint16_t* from) {
  VI bits = {};
  for (uint32_t i = 0; i < kLanes; ++i) {
    bits[i] = static_cast<int32_t>(static_cast<uint32_t>(from[i]) << 16);
  }
  return AsFloat(bits);
}

LONGWAVE_SIMD V Broadcast(float x) { return V{x, x, x, x}; }
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

LONGWAVE_SIMD VI BroadcastI(uint32_t x) {
  const auto i = static_cast<int32_t>(x);
  return VI{i, i, i, i};
}
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
LONGWAVE_SIMD VD LoadMagnitudesD(const float* from) {
  return VD{__builtin_fabs(static_cast<double>(from[0])),
            __builtin_fabs(static_cast<double>(from[1]))};
}
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

LONGWAVE_SIMD VI LoadBytes(const uint8_t* from) { return VI{from[0], from[1], from[2], from[3]}; }

// 64-bit integers, kLanes / 2 of them.
template <typename Word>
LONGWAVE_SIMD VL LoadWiden(const Word* from) {
  return VL{from[0], from[1]};
}
LONGWAVE_SIMD VL BroadcastL(uint64_t x) { return VL{x, x}; }
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

// out[c] lane r = in[r * stride + c].
LONGWAVE_SIMD void TransposeBlock(const float* in, uint32_t stride, V* out) {
  for (uint32_t c = 0; c < kLanes; ++c) {
    out[c] = V{in[c], in[stride + c], in[2 * stride + c], in[3 * stride + c]};
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIMD_GENERIC_H_

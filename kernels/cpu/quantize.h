#ifndef LONGWAVE_KERNELS_CPU_QUANTIZE_H_
#define LONGWAVE_KERNELS_CPU_QUANTIZE_H_

#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_math.h"

// QuantizeTile of tests/support/reference in vectors, to the same bits. Its sums are of integers
// below 2^40, so that sums over a tile, even twice those, stay below 2^53: doubles hold them
// exactly, in any order.

namespace longwave::cpu {
namespace {

inline void ZeroTail(uint32_t n, float* values) {
  for (uint32_t i = n; i < RoundUp(n, kLanes); ++i) values[i] = 0;
}

inline uint32_t Largest(uint32_t n, const float* values) {
  VI largest = BroadcastI(0);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const V v = n - i < kLanes ? LoadPart(values + i, n - i) : Load(values + i);
    largest = MaxI(largest, Magnitude(v));
  }
  return LargestI(largest);
}

// 2^exponent, −1022 … 1023.
inline double PowerOfTwo(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(1023 + exponent) << 52;
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The exponent that maps the largest magnitude to [2^39, 2^40).
inline int FixedExponent(uint32_t largest) {
  const int biased = static_cast<int>(largest >> 23);
  // A denormal's exponent is that of its leading bit, in units of 2^-149.
  const int exponent = biased != 0 ? biased - 127 : -118 - __builtin_clz(largest);
  return 39 - exponent;
}

LONGWAVE_SIMD VD FixedMagnitudes(const float* values, VD factor) {
  return TruncD(MulD(LoadMagnitudesD(values), factor));
}

inline double FixedSum(uint32_t n, const float* values, VD factor) {
  VD sum = ZeroD();
  for (uint32_t i = 0; i < n; i += kLanes / 2) sum = AddD(sum, FixedMagnitudes(values + i, factor));
  return SumD(sum);
}

inline float FitSign(uint32_t n, float* values, uint32_t largest) {
  ZeroTail(n, values);
  const int exponent = FixedExponent(largest);
  const double sum = FixedSum(n, values, BroadcastD(PowerOfTwo(exponent)));
  return static_cast<float>(sum / static_cast<double>(n) * PowerOfTwo(-exponent));
}

// The levels are 1 and 2: Σ|v|·L = Σ|v| + Σ over the large ones, ΣL² = n + 3·(their number).
inline float FitInt2(uint32_t n, float* values, uint32_t largest) {
  ZeroTail(n, values);
  const int exponent = FixedExponent(largest);
  const VD factor = BroadcastD(PowerOfTwo(exponent)), one = BroadcastD(1);
  const double total = FixedSum(n, values, factor);
  double scale = total / (1.5 * static_cast<double>(n));
  for (int step = 0; step < 3; ++step) {
    const VD threshold = BroadcastD(1.5 * scale);
    VD sum = ZeroD(), count = ZeroD();
    for (uint32_t i = 0; i < n; i += kLanes / 2) {
      const VD fixed = FixedMagnitudes(values + i, factor);
      sum = AddD(sum, KeepAboveD(fixed, threshold, fixed));
      count = AddD(count, KeepAboveD(fixed, threshold, one));
    }
    scale = (total + SumD(sum)) / (static_cast<double>(n) + 3 * SumD(count));
  }
  return static_cast<float>(scale * PowerOfTwo(-exponent));
}

// All bits of the negative lanes; −0 is not negative.
LONGWAVE_SIMD VI Negative(V v) {
  return AsInt(WhereAbove(Broadcast(0), v, AsFloat(BroadcastI(~0u)), AsFloat(BroadcastI(0))));
}

// Codes increase with the levels: half − 1 − j for the j-th magnitude below zero, else half + j.
LONGWAVE_SIMD VI CodeOf(VI nearest, VI negative, uint32_t half) {
  const VI above = AddI(nearest, BroadcastI(half));
  return AndI(XorI(above, negative), BroadcastI(2 * half - 1));
}

inline void QuantizeNarrow(uint32_t bits, const NarrowLevels& levels, uint32_t n, float* values,
                           uint32_t* codes) {
  const uint32_t half = 1u << (bits - 1);
  const V threshold = Broadcast(levels.threshold);
  const V small = Broadcast(levels.small), large = Broadcast(levels.large);
  const V one = AsFloat(BroadcastI(1)), zero = AsFloat(BroadcastI(0));
  ZeroTail(n, values);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const V v = Load(values + i);
    const V magnitude = AsFloat(Magnitude(v));
    const VI negative = Negative(v);
    StoreI(codes + i, CodeOf(AsInt(WhereAbove(magnitude, threshold, one, zero)), negative, half));
    const V level = WhereAbove(magnitude, threshold, large, small);
    Store(values + i, AsFloat(XorI(AsInt(level), AndI(negative, BroadcastI(0x80000000u)))));
  }
}

// Magnitudes are 1, 3, 5 … times the scale; the j-th is the nearest between 2j and 2j + 2, a tie
// goes to the smaller. Products of an even number below 2^9 and a scale are exact in double, so
// that a comparison corrects a quotient that is off by one unit.
inline void QuantizeWide(uint32_t bits, float scale, uint32_t n, float* values, uint32_t* codes) {
  const uint32_t half = 1u << (bits - 1);
  const VD width = BroadcastD(2.0 * static_cast<double>(scale));
  const VD inverse = BroadcastD(0.5 / static_cast<double>(scale));
  const VD one = BroadcastD(1), minus_one = BroadcastD(-1), last = BroadcastD(half - 1);
  ZeroTail(n, values);
  for (uint32_t i = 0; i < n; i += kLanes / 2) {
    const VD magnitude = LoadMagnitudesD(values + i);
    const VD guess = TruncD(MulD(magnitude, inverse));
    const VD upper = MulD(AddD(guess, one), width);
    const VD lower = MulD(guess, width);
    VD j = AddD(AddD(guess, minus_one), KeepAboveD(magnitude, lower, one));
    j = AddD(j, KeepAboveD(magnitude, upper, one));
    StoreAsU32(codes + i, MinD(MaxD(j, ZeroD()), last));
  }
  const VI top = BroadcastI(2 * half - 1);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const VI code = CodeOf(LoadI(codes + i), Negative(Load(values + i)), half);
    StoreI(codes + i, code);
    Store(values + i, Lanes::Mul(scale, ToFloat(SubI(AddI(code, code), top))));
  }
}

// EncodeBf16: to nearest, ties to even, saturating at the largest finite value.
inline void QuantizeBf16(uint32_t n, float* values, uint32_t* codes) {
  ZeroTail(n, values);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const V v = Load(values + i);
    const VI magnitude = Magnitude(v);
    const VI even = AndI(ShiftRightI<16>(magnitude), BroadcastI(1));
    const VI rounded = ShiftRightI<16>(AddI(AddI(magnitude, BroadcastI(0x7fff)), even));
    const VI excess = SubI(MaxI(rounded, BroadcastI(0x7f7f)), BroadcastI(0x7f7f));
    const VI sign = AndI(ShiftRightI<16>(AsInt(v)), BroadcastI(0x8000));
    const VI code = OrI(SubI(rounded, excess), sign);
    StoreI(codes + i, code);
    Store(values + i, AsFloat(ShiftLeftI<16>(code)));
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_QUANTIZE_H_

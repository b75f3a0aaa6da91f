#ifndef LONGWAVE_COMMON_BASE_TRIGONOMETRY_H_
#define LONGWAVE_COMMON_BASE_TRIGONOMETRY_H_

#include <cstdint>
#include <numbers>

namespace longwave {

// Sines and cosines with the same bits on every machine; maths libraries differ between versions
// and processors. The functions below use only sums, products and quotients of doubles, each
// rounded as IEEE 754 says (the project is compiled without contraction into fused multiply-adds).
// The results are within 3 units in the last place of the true value.

// For an angle in [0, π/4]: the power series, by Horner's rule. The first term left out is below
// 2^-60 of the sum.
constexpr double SinOfSmallAngle(double angle) {
  const double square = angle * angle;
  double tail = 1;  // 1 − x²/(2·3)·(1 − x²/(4·5)·(…))
  for (int n = 16; n >= 4; n -= 2) tail = 1 - square / (n * (n + 1)) * tail;
  return angle - angle * (square / 6 * tail);
}

constexpr double CosOfSmallAngle(double angle) {
  const double square = angle * angle;
  double tail = 1;  // 1 − x²/(1·2)·(1 − x²/(3·4)·(…))
  for (int n = 17; n >= 3; n -= 2) tail = 1 - square / (n * (n + 1)) * tail;
  return 1 - square / 2 * tail;
}

// sin(π·x/2) for x in [0, 1].
constexpr double SinHalfPi(double x) {
  constexpr double kHalfPi = std::numbers::pi / 2;
  // 1 − x is exact from a half on.
  return x <= 0.5 ? SinOfSmallAngle(x * kHalfPi) : CosOfSmallAngle((1 - x) * kHalfPi);
}

// cos(π·p/q) for q >= 1. p is reduced in integers, so that no rounding precedes the series.
// 8·q and p + q fit 64 bits.
constexpr double CosPi(uint64_t p, uint64_t q) {
  p %= 2 * q;
  if (p > q) p = 2 * q - p;         // cos(2π − a) = cos(a): [0, π] from here on
  const bool negative = 2 * p > q;  // cos(π − a) = −cos(a): [0, π/2]
  if (negative) p = q - p;
  const auto angle_of = [q](uint64_t part, uint64_t of) {
    return std::numbers::pi * static_cast<double>(part) / static_cast<double>(of * q);
  };
  // cos(π·p/q) = sin(π/2 − π·p/q) = sin(π·(q − 2p)/2q)
  const double cosine =
      4 * p <= q ? CosOfSmallAngle(angle_of(p, 1)) : SinOfSmallAngle(angle_of(q - 2 * p, 2));
  return negative ? -cosine : cosine;
}

// sin(π·p/q) = cos(π·(2p − q)/2q), and cosine is even.
constexpr double SinPi(uint64_t p, uint64_t q) {
  p %= 2 * q;
  return 2 * p >= q ? CosPi(2 * p - q, 2 * q) : CosPi(q - 2 * p, 2 * q);
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_TRIGONOMETRY_H_

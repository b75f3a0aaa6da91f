#ifndef LONGWAVE_KERNELS_CPU_SUMS_H_
#define LONGWAVE_KERNELS_CPU_SUMS_H_

#include "kernels/cpu/simd.h"

// Sums of squares for the report.

namespace longwave::cpu {
namespace {

// The sum of squares, in double throughout.
inline double SquareSumInDouble(uint32_t n, const float* x) {
  double partial[8] = {};
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (uint32_t lane = 0; lane < 8; ++lane) {
      const double v = x[i + lane];
      partial[lane] += v * v;
    }
  }
  for (; i < n; ++i) {
    const double v = x[i];
    partial[i % 8] += v * v;
  }
  double sum = 0;
  for (uint32_t lane = 0; lane < 8; ++lane) sum += partial[lane];
  return sum;
}

// Sums in fp32 lanes, four to hide the latency of additions.
struct SquareLanes {
  V lanes[4] = {Broadcast(0), Broadcast(0), Broadcast(0), Broadcast(0)};

  template <uint32_t kWhich>
  LONGWAVE_SIMD void Put(V v) {
    lanes[kWhich % 4] = Fma(v, v, lanes[kWhich % 4]);
  }
  LONGWAVE_SIMD void AddAll(const SquareLanes& more) {
    dct::Unroll<4>([&](auto l) LONGWAVE_CODELET_BODY {
      lanes[l.value] = Add(lanes[l.value], more.lanes[l.value]);
    });
  }
  double Total() const {
    float each[4 * kLanes];
    for (uint32_t l = 0; l < 4; ++l) Store(each + l * kLanes, lanes[l]);
    VD sum = ZeroD();
    for (uint32_t i = 0; i < 4 * kLanes; i += kLanes / 2) {
      sum = AddD(sum, LoadMagnitudesD(each + i));  // squares are their own magnitudes
    }
    return SumD(sum);
  }
};

// Whether an fp32 sum of squares is accurate: no square overflowed, and those that underflowed are
// negligible. False for NaN.
LONGWAVE_SIMD bool IsPlain(double sum) { return sum > 1e-30 && sum < 1e38; }

inline double SquareSum(uint32_t n, const float* x) {
  SquareLanes squares;
  uint32_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    squares.Put<0>(Load(x + i));
    squares.Put<1>(Load(x + i + kLanes));
    squares.Put<2>(Load(x + i + 2 * kLanes));
    squares.Put<3>(Load(x + i + 3 * kLanes));
  }
  for (; i < n; i += kLanes) {
    squares.Put<0>(n - i < kLanes ? LoadPart(x + i, n - i) : Load(x + i));
  }
  const double sum = squares.Total();
  return IsPlain(sum) ? sum : SquareSumInDouble(n, x);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SUMS_H_

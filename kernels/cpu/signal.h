#ifndef LONGWAVE_KERNELS_CPU_SIGNAL_H_
#define LONGWAVE_KERNELS_CPU_SIGNAL_H_

#include "kernels/cpu/simd.h"
#include "kernels/cpu/sums.h"
#include "kernels/cpu/tile_math.h"

// Reading a worker's signal: s = scale · (a − b) or scale · a.

namespace longwave::cpu {
namespace {

// The signal from a flat offset on.
template <bool kDifference>
struct Elements {
  const float* a;
  const float* b;
  V scale;

  Elements(const TileSignal& signal, uint64_t offset)
      : a(signal.a + offset),
        b(kDifference ? signal.b + offset : nullptr),
        scale(Broadcast(signal.scale)) {}

  LONGWAVE_SIMD V At(uint64_t i) const {
    V s = Load(a + i);
    if constexpr (kDifference) s = Sub(s, Load(b + i));
    return Mul(scale, s);
  }
  LONGWAVE_SIMD V PartAt(uint64_t i, uint32_t count) const {
    V s = LoadPart(a + i, count);
    if constexpr (kDifference) s = Sub(s, LoadPart(b + i, count));
    return Mul(scale, s);
  }
  // Prefetches the elements of another tile, `distance` further on.
  LONGWAVE_SIMD void Fetch(int64_t distance) const {
    Prefetch(a + distance);
    if constexpr (kDifference) Prefetch(b + distance);
  }
};

// f(Elements of the signal's kind).
template <class F>
LONGWAVE_SIMD auto WithElements(const TileSignal& signal, uint64_t offset, const F& f) {
  return signal.b == nullptr ? f(Elements<false>(signal, offset))
                             : f(Elements<true>(signal, offset));
}

// out[rows, cols] ← the tile's signal, zero for padding, and zeros up to a multiple of 64. Returns
// the sum of its squares, in fp32.
inline double Gather(const TilePlace& place, const TileSignal& signal, float* out) {
  SquareLanes squares;
  const uint32_t size = SizeOf(place);
  if (!IsFull(place) || size % 64 != 0) {
    for (uint32_t i = 0; i < RoundUp(size, 64); i += kLanes) Store(out + i, Broadcast(0));
  }
  WithElements(signal, place.offset, [&](const auto& elements) {
    for (uint32_t r = 0; r < place.rows_valid; ++r) {
      const uint64_t at = uint64_t{r} * place.row_stride;
      float* to = out + r * place.cols;
      uint32_t c = 0;
      for (; c + 4 * kLanes <= place.cols_valid; c += 4 * kLanes) {
        dct::Unroll<4>([&](auto k) LONGWAVE_CODELET_BODY {
          const V s = elements.At(at + c + k.value * kLanes);
          squares.Put<k.value>(s);
          Store(to + c + k.value * kLanes, s);
        });
      }
      for (; c < place.cols_valid; c += kLanes) {
        const uint32_t count = place.cols_valid - c < kLanes ? place.cols_valid - c : kLanes;
        const V s = elements.PartAt(at + c, count);
        squares.Put<0>(s);
        StorePart(to + c, s, count);
      }
    }
  });
  return squares.Total();
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_SIGNAL_H_

#ifndef LONGWAVE_KERNELS_CPU_SIGNAL_H_
#define LONGWAVE_KERNELS_CPU_SIGNAL_H_

#include "kernels/cpu/simd.h"
#include "kernels/cpu/sums.h"
#include "kernels/cpu/tile_math.h"

// Reading a worker's signal: s = scale · (a − b) or scale · a, of fp32 or bf16 arrays.

namespace longwave::cpu {
namespace {

struct Fp32 {
  using Element = float;
  static LONGWAVE_SIMD V Get(const float* from) { return Load(from); }
  static LONGWAVE_SIMD V GetPart(const float* from, uint32_t count) {
    return LoadPart(from, count);
  }
};

struct Bf16 {
  using Element = uint16_t;
  static LONGWAVE_SIMD V Get(const uint16_t* from) { return LoadBf16(from); }
  static LONGWAVE_SIMD V GetPart(const uint16_t* from, uint32_t count) {
    return LoadBf16Part(from, count);
  }
};

// The signal from a flat offset on.
template <class Type, bool kDifference>
struct Elements {
  using Element = typename Type::Element;
  const Element* a;
  const Element* b;
  V scale;

  Elements(const TileSignal& signal, uint64_t offset)
      : a(static_cast<const Element*>(signal.a) + offset),
        b(kDifference ? static_cast<const Element*>(signal.b) + offset : nullptr),
        scale(Broadcast(signal.scale)) {}

  LONGWAVE_SIMD V At(uint64_t i) const {
    V s = Type::Get(a + i);
    if constexpr (kDifference) s = Sub(s, Type::Get(b + i));
    return Mul(scale, s);
  }
  LONGWAVE_SIMD V PartAt(uint64_t i, uint32_t count) const {
    V s = Type::GetPart(a + i, count);
    if constexpr (kDifference) s = Sub(s, Type::GetPart(b + i, count));
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
  if (signal.is_bf16) {
    return signal.b == nullptr ? f(Elements<Bf16, false>(signal, offset))
                               : f(Elements<Bf16, true>(signal, offset));
  }
  return signal.b == nullptr ? f(Elements<Fp32, false>(signal, offset))
                             : f(Elements<Fp32, true>(signal, offset));
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

#ifndef LONGWAVE_KERNELS_CPU_ACCUMULATE_H_
#define LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

#include "kernels/cpu/dct.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/sums.h"

// m̂ ← β·m̂ + T(s) of one tile, into scratch: m̂ itself is written once it is known to be finite.

namespace longwave::cpu {
namespace {

// work.x ← fma(beta, m, x) and what is to be known of the result. x(Index<k>, i) gives the vector
// at i, the k-th of four. kFetch: the next tile's m is fetched meanwhile.
template <bool kFetch, class From>
LONGWAVE_SIMD TileSums AddMomentum(uint32_t n, float beta, const float* m, const float* next_m,
                                   const From& x, TileWork& work) {
  SquareLanes squares;
  VI largest = BroadcastI(0);
  const V factor = Broadcast(beta);
  const uint32_t padded = RoundUp(n, 64);
  for (uint32_t i = 0; i < padded; i += 4 * kLanes) {
    VI group = BroadcastI(0);
    Unroll<4>([&](auto k) LONGWAVE_BODY {
      const uint32_t at = i + k.value * kLanes;
      V old;
      if (at + kLanes <= n) {
        old = Load(m + at);
      } else {
        old = at < n ? LoadPart(m + at, n - at) : Broadcast(0);
      }
      if (kFetch && at % 16 == 0) Prefetch(next_m + at);
      const V v = Fma(factor, old, x(k, at));
      Store(work.x + at, v);
      squares.Put<k.value>(v);
      group = MaxI(group, Magnitude(v));
    });
    StoreI(work.maxima + i / 4, group);
    largest = MaxI(largest, group);
  }
  TileSums sums;
  const uint32_t largest_bits = LargestI(largest);
  // Infinities and NaNs have the greatest bits of all.
  sums.finite = largest_bits < 0x7f800000u;
  sums.momentum = squares.Total();
  if (!IsPlain(sums.momentum) && largest_bits != 0) sums.momentum = SquareSumInDouble(n, work.x);
  return sums;
}

// A full run without a transform: one pass over signal and momentum.
template <class Source>
__attribute__((noinline)) TileSums AccumulateRun(const AccumulateArgs& args, const Source& elements,
                                                 TileWork& work) {
  const auto ahead = static_cast<int64_t>(args.next.offset - args.place.offset);
  SquareLanes squares;
  const uint32_t n = SizeOf(args.place);
  TileSums sums = AddMomentum<true>(
      n, args.beta, args.momentum, args.next_momentum,
      [&](auto k, uint32_t i) LONGWAVE_BODY {
        const V s = elements.At(i);
        elements.Fetch(ahead + i);
        squares.Put<k.value>(s);
        return s;
      },
      work);
  sums.signal = squares.Total();
  if (!IsPlain(sums.signal)) {
    Gather(args.place, args.signal, work.y);
    sums.signal = SquareSumInDouble(n, work.y);
  }
  return sums;
}

inline TileSums AccumulateAny(const AccumulateArgs& args, TileWork& work) {
  const uint32_t n = SizeOf(args.place);
  double signal = Gather(args.place, args.signal, work.x);
  if (!IsPlain(signal)) signal = SquareSumInDouble(n, work.x);
  const auto sum = [&](auto, uint32_t i) LONGWAVE_BODY { return Load(work.x + i); };
  TileSums sums;
  if (args.plans == nullptr) {
    sums = AddMomentum<true>(n, args.beta, args.momentum, args.next_momentum, sum, work);
  } else {
    const Ahead ahead = WithElements(args.signal, 0, [&](const auto& elements) {
      return AheadOf(args.next, elements.a, elements.b, work.x);
    });
    ForwardAny(*args.plans, ahead, work.x, work.y);
    for (uint32_t i = n; i < RoundUp(n, 64); ++i) work.x[i] = 0;
    sums = AddMomentum<false>(n, args.beta, args.momentum, args.next_momentum, sum, work);
  }
  sums.signal = signal;
  return sums;
}

inline TileSums Accumulate(const AccumulateArgs& args, TileWork& work) {
  if (args.plans == nullptr && IsFull(args.place) && args.place.rows == 1 &&
      args.place.cols % 64 == 0) {
    return WithElements(args.signal, args.place.offset,
                        [&](const auto& elements) { return AccumulateRun(args, elements, work); });
  }
  return AccumulateAny(args, work);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

#ifndef LONGWAVE_KERNELS_CPU_ACCUMULATE_H_
#define LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

#include "kernels/cpu/dct.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/sums.h"

// m̂ ← β·m̂ + T(s) of one tile, into scratch: m̂ itself is written once it is known to be finite.

namespace longwave::cpu {
namespace {

// work.x ← fma(beta, m, x) and what is to be known of the result. x(i) gives the vector at i.
// kFetch: the next tile's m is fetched meanwhile.
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
      const V v = Fma(factor, old, x(at));
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

inline double SignalSum(const SquareLanes& squares, const AccumulateArgs& args, TileWork& work) {
  const double sum = squares.Total();
  if (IsPlain(sum)) return sum;
  Gather(args.place, args.signal, work.y);
  return SquareSumInDouble(SizeOf(args.place), work.y);
}

// A full 64 × 64 tile: the signal goes straight into the columns' transforms.
template <class Source>
__attribute__((noinline)) TileSums AccumulateFull64(const AccumulateArgs& args,
                                                    const Source& elements, TileWork& work) {
  const uint64_t stride = args.place.row_stride;
  // Rows are far apart in memory, where no hardware guesses what comes next.
  const auto ahead = static_cast<int64_t>(args.next.offset - args.place.offset);
  const uint64_t next_stride = args.next.rows == 1 ? 64 : args.next.row_stride;
  SquareLanes squares;
  ForwardColumns<64, 64>(
      args.plans->norm,
      [&](auto r, uint32_t c) LONGWAVE_BODY {
        const V s = elements.At(r.value * stride + c);
        squares.Put<r.value>(s);
        return s;
      },
      work.y,
      [&](auto r, uint32_t c) LONGWAVE_BODY {
        elements.Fetch(ahead + static_cast<int64_t>(r.value * next_stride + c));
      });
  ForwardRows<64, 64>(work.y, args.next_momentum, work.x);
  const double signal = SignalSum(squares, args, work);
  TileSums sums = AddMomentum<false>(
      4096, args.beta, args.momentum, args.next_momentum,
      [&](uint32_t i) LONGWAVE_BODY { return Load(work.x + i); }, work);
  sums.signal = signal;
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
      [&](uint32_t i) LONGWAVE_BODY {
        const V s = elements.At(i);
        elements.Fetch(ahead + i);
        squares.Put<0>(s);
        return s;
      },
      work);
  sums.signal = SignalSum(squares, args, work);
  return sums;
}

inline TileSums AccumulateAny(const AccumulateArgs& args, TileWork& work) {
  const uint32_t n = SizeOf(args.place);
  Gather(args.place, args.signal, work.x);
  const double signal = SquareSum(n, work.x);
  if (args.plans != nullptr) {
    Forward(*args.plans, work.x, work.y);
    for (uint32_t i = n; i < RoundUp(n, 64); ++i) work.x[i] = 0;
  }
  TileSums sums = AddMomentum<true>(
      n, args.beta, args.momentum, args.next_momentum,
      [&](uint32_t i) LONGWAVE_BODY { return Load(work.x + i); }, work);
  sums.signal = signal;
  return sums;
}

inline TileSums Accumulate(const AccumulateArgs& args, TileWork& work) {
  if (!IsFull(args.place)) return AccumulateAny(args, work);
  const uint64_t offset = args.place.offset;
  if (args.plans != nullptr && IsShape(*args.plans, 64, 64)) {
    return WithElements(args.signal, offset, [&](const auto& elements) {
      return AccumulateFull64(args, elements, work);
    });
  }
  if (args.plans == nullptr && args.place.rows == 1 && args.place.cols % 64 == 0) {
    return WithElements(args.signal, offset,
                        [&](const auto& elements) { return AccumulateRun(args, elements, work); });
  }
  return AccumulateAny(args, work);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

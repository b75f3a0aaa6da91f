#ifndef LONGWAVE_KERNELS_CPU_ACCUMULATE_H_
#define LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

#include "kernels/cpu/dct.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/sums.h"

// m̂ ← β·m̂ + T(s) of one tile, in place. work.y keeps the former m̂, which is restored if the
// result is not finite.

namespace longwave::cpu {
namespace {

// Sets the sums of m̂; false if m̂ is not finite.
inline bool SumMomentum(uint32_t n, const float* m, const SquareLanes& squares, TileSums& sums) {
  sums.momentum = squares.Total();
  sums.finite = true;
  if (IsPlain(sums.momentum)) return true;
  // Infinities and NaNs have the largest bits.
  const uint32_t largest = Largest(n, m);
  sums.finite = largest < 0x7f800000u;
  if (largest != 0) sums.momentum = SquareSumInDouble(n, m);
  return sums.finite;
}

// m ← fma(beta, m, x), and the sums of the result. x(Index<k>, i) gives the vector at i, the k-th
// of four. kFetch: prefetches the next tile's m.
template <bool kFetch, class From>
LONGWAVE_SIMD TileSums AddMomentum(uint32_t n, float beta, float* m, const float* next_m,
                                   const From& x, TileWork& work) {
  SquareLanes squares;
  const V factor = Broadcast(beta);
  const uint32_t padded = RoundUp(n, 64);
  for (uint32_t i = 0; i < padded; i += 4 * kLanes) {
    V group = Broadcast(0);
    Unroll<4>([&](auto k) LONGWAVE_BODY {
      const uint32_t at = i + k.value * kLanes;
      if (kFetch && at % 16 == 0) Prefetch(next_m + at);
      const V term = x(k, at);
      const auto add = [&](V old) LONGWAVE_BODY {
        const V v = Fma(factor, old, term);
        Store(work.y + at, old);
        squares.Put<k.value>(v);
        group = LargerMagnitude(group, v);
        return v;
      };
      if (at + kLanes <= n) {
        Store(m + at, add(Load(m + at)));
      } else if (at < n) {
        StorePart(m + at, add(LoadPart(m + at, n - at)), n - at);
      }
    });
    StoreI(work.maxima + i / 4, AsInt(group));
  }
  TileSums sums;
  if (!SumMomentum(n, m, squares, sums)) __builtin_memcpy(m, work.y, n * sizeof(float));
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

// Receives the coefficients of a 64 × 64 tile from the transform.
struct AddTo64 {
  float* m;
  float beta;
  float* kept;
  uint32_t* maxima;
  Fetcher fetcher;
  SquareLanes squares = {};

  // The approximate order in which a transform of 64 gives its results: neighbours form a group of
  // four.
  static constexpr uint32_t OrderOf(uint32_t j) {
    if (j % 2 == 0) return j % 4 / 2 * 16 + j / 4;
    return j == 1 ? 32 : 64 - j / 2;
  }
  struct Group {
    float* m;
    V beta;
    float* kept;
    uint32_t* maxima;
    Fetcher fetcher;
    SquareLanes squares = {};
    V largest[16];

    LONGWAVE_SIMD Group(const AddTo64& to, uint32_t i)
        : m(to.m + i),
          beta(Broadcast(to.beta)),
          kept(to.kept + i * 64),
          maxima(to.maxima + i),
          fetcher(to.fetcher) {
      Unroll<16>([&](auto g) LONGWAVE_BODY { largest[g.value] = Broadcast(0); });
    }
    template <class J>
    LONGWAVE_SIMD void Put(J, V x) {
      constexpr uint32_t j = J::value, kGroup = OrderOf(j) / 4;
      const V old = Load(m + j * 64), v = Fma(beta, old, x);
      Store(m + j * 64, v);
      if (j % (64 / kLanes) == 1) FetchSome(1, fetcher);  // a quarter of the next tile
      Store(kept + j * kLanes, old);                      // over rows that were read
      squares.Put<j>(v);
      largest[kGroup] = LargerMagnitude(largest[kGroup], v);
    }
    LONGWAVE_SIMD void End(AddTo64& to) {
      Unroll<16>([&](auto g)
                     LONGWAVE_BODY { StoreI(maxima + g.value * 64, AsInt(largest[g.value])); });
      to.squares.AddAll(squares);
      to.fetcher = fetcher;
    }
  };
};

// The signal of a 64 × 64 tile times the norm, and its squares.
template <class Source>
struct SignalTimes {
  Source elements;
  float norm;
  uint64_t stride;
  SquareLanes squares = {};

  struct Group {
    Source elements;
    V norm;
    uint64_t stride;
    uint32_t c;
    SquareLanes squares = {};
    LONGWAVE_SIMD Group(const SignalTimes& from, uint32_t at)
        : elements(from.elements), norm(Broadcast(from.norm)), stride(from.stride), c(at) {}
    template <class R>
    LONGWAVE_SIMD V Get(R) {
      const V s = elements.At(R::value * stride + c);
      squares.Put<R::value / 16>(s);
      return Mul(norm, s);
    }
    LONGWAVE_SIMD void End(SignalTimes& from) { from.squares.AddAll(squares); }
  };
};

// A full tile of 64 × 64: the transform's first pass reads the signal, and its second pass adds to
// m̂, so that nothing goes through memory in between.
template <class Source>
__attribute__((noinline)) TileSums Accumulate64(const AccumulateArgs& args, const Source& elements,
                                                const Ahead& ahead, TileWork& work) {
  SignalTimes<Source> from = {elements, args.plans->norm, args.place.row_stride};
  ForwardColumns<64, 64>(from, ahead, work.y);
  AddTo64 to = {args.momentum, args.beta, work.y, work.maxima, work.fetcher};
  ForwardRows<64, 64>(work.y, ahead, to);
  work.fetcher = to.fetcher;
  TileSums sums;
  sums.signal = from.squares.Total();
  if (!SumMomentum(kTileSizeMax, args.momentum, to.squares, sums)) {
    for (uint32_t j = 0; j < 64; ++j) {
      for (uint32_t i = 0; i < 64; i += kLanes) {
        Store(args.momentum + j * 64 + i, Load(work.y + i * 64 + j * kLanes));
      }
    }
  }
  if (!IsPlain(sums.signal)) {
    Gather(args.place, args.signal, work.y);
    sums.signal = SquareSumInDouble(kTileSizeMax, work.y);
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
    const Ahead ahead = AheadOf(args.next, args.signal.a, args.signal.b, work.x);
    Forward(*args.plans, ahead, work.x, work.y);
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
  if (args.plans != nullptr && IsFull(args.place) && IsShape(*args.plans, 64, 64)) {
    const Ahead ahead = AheadOf(args.next, args.signal.a, args.signal.b, work.x);
    return WithElements(args.signal, args.place.offset, [&](const auto& elements) {
      return Accumulate64(args, elements, ahead, work);
    });
  }
  return AccumulateAny(args, work);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_ACCUMULATE_H_

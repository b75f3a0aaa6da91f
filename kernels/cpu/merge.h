#ifndef LONGWAVE_KERNELS_CPU_MERGE_H_
#define LONGWAVE_KERNELS_CPU_MERGE_H_

#include "kernels/cpu/quantize.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_math.h"

// The loops of a shard's merge (server/shard/tile_merger.h).

namespace longwave::cpu {
namespace {

// The layout of a tile's sums of shares. Here: in an array of their own.
template <typename Share>
struct SharesBeside {
  static constexpr bool kOnTop = false;
  Share* of;

  LONGWAVE_SIMD VL Take(uint32_t i, VL) const {
    const VL taken = LoadWiden(of + i);
    for (uint32_t lane = 0; lane < kLanes / 2; ++lane) of[i + lane] = 0;
    return taken;
  }
  LONGWAVE_SIMD VL ValuesOf(VL words) const { return words; }
  LONGWAVE_SIMD VL SharesOf(VL shares) const { return shares; }
  uint64_t LimitOf(uint64_t floor_shares) const { return floor_shares; }
  int bits() const { return 0; }
};

// Here: in the high bits of the sums. A sum may borrow one share, but no more than half of it.
struct SharesOnTop {
  static constexpr bool kOnTop = true;
  int of_bits;  // 1 … 62

  LONGWAVE_SIMD VL Take(uint32_t, VL words) const { return words; }
  // Times 2^bits.
  LONGWAVE_SIMD VL ValuesOf(VL words) const { return ShiftLeftL(words, of_bits); }
  LONGWAVE_SIMD VL SharesOf(VL words) const {
    return ShiftRightL(AddL(words, BroadcastL(uint64_t{1} << (63 - of_bits))), 64 - of_bits);
  }
  uint64_t LimitOf(uint64_t floor_shares) const {
    return ((floor_shares + 1) << (64 - of_bits)) - (uint64_t{1} << (63 - of_bits)) - 1;
  }
  int bits() const { return of_bits; }
};

// Division by one number with the division's rounding: from y = RN(1/d) and its error. Their sum q
// deviates by less than 2^−104 of a/d before rounding. A d of at most kShortBits bits has no
// quotient in the middle between two doubles (a would have more than 53 bits), nor one nearer to it
// than 2^(−54−kShortBits), so that q is a/d, rounded. For other d, q is within one unit of the last
// place, and one exact remainder corrects it (Markstein 1990; Handbook of Floating-Point
// Arithmetic, theorem 4.8). d and y are scaled by powers of two, which changes no rounding.
constexpr int kShortBits = 40;
inline bool IsShort(double divisor) {
  uint64_t bits;
  __builtin_memcpy(&bits, &divisor, sizeof bits);
  return TrailingZeros(bits) >= 53 - kShortBits;
}

template <bool kShort>
struct Divider {
  VD divisor, inverse, lacking;

  // a · 2^−exponent / by; `by` at least 1 and below 2^62.
  LONGWAVE_SIMD Divider(double by, int exponent) {
    const double scale = PowerOfTwo(-exponent), y = 1 / by;
    divisor = BroadcastD(by * PowerOfTwo(exponent));
    inverse = BroadcastD(y * scale);
    lacking = BroadcastD(kHasFma ? __builtin_fma(-by, y, 1.0) * y * scale : 0);
  }
  LONGWAVE_SIMD VD Divide(VD a) const {
    if (!kHasFma) return DivD(a, divisor);
    const VD q = FmaD(a, inverse, MulD(a, lacking));
    return kShort ? q : FmaD(NegatedFmaD(q, divisor, a), inverse, q);
  }
};

// With an effective ρ, few coefficients have more than ρ of all weights behind them, so most share
// one divisor. out + G in float equals the sum by way of double, which has more than twice the
// digits.
template <bool kShort, bool kAdd, class Shares>
inline uint32_t FinishBy(const MergedTile& tile, const Shares& shares, uint32_t* maxima) {
  const int exponent = tile.exponent + shares.bits();
  // Without a floor every sent coefficient is above it, and the others are zero by any divisor.
  const Divider<kShort> divider(tile.floor_shares > 0 ? tile.floor : 1, exponent);
  const VD quantum = BroadcastD(PowerOfTwo(-exponent)), floor = BroadcastD(tile.floor);
  const VL limit = BroadcastL(shares.LimitOf(tile.floor_shares)), unit = BroadcastL(tile.unit);
  const V zero = Broadcast(0), largest = Broadcast(tile.largest);
  const uint32_t n = tile.n, padded = RoundUp(n, 64);
  uint64_t* const sums = tile.sums;
  float* const out = tile.out;
  // The quotients by individual divisors; 0 for coefficients without shares.
  const auto divide_each = [&](VD values, VL taken) LONGWAVE_BODY {
    const VD divisor = MaxD(ToDoubleL(MulL(shares.SharesOf(taken), unit)), floor);
    return KeepNonzeroD(values, DivD(values, divisor));
  };
  uint32_t nonzero = 0;
  for (uint32_t i = 0; i < padded; i += 4 * kLanes) {
    V group = zero;
    Unroll<4>([&](auto k) LONGWAVE_BODY {
      const uint32_t at = i + k.value * kLanes;
      if (at >= n) return;
      const VL low_words = LoadL(sums + at), high_words = LoadL(sums + at + kLanes / 2);
      StoreL(sums + at, BroadcastL(0));
      StoreL(sums + at + kLanes / 2, BroadcastL(0));
      const VL low = shares.Take(at, low_words), high = shares.Take(at + kLanes / 2, high_words);
      const VD low_values = ToDoubleL(shares.ValuesOf(low_words));
      const VD high_values = ToDoubleL(shares.ValuesOf(high_words));
      VD low_quotients = divider.Divide(low_values), high_quotients = divider.Divide(high_values);
      if (AnyAboveL(low, high, limit)) [[unlikely]] {
        low_quotients = divide_each(MulD(low_values, quantum), low);
        high_quotients = divide_each(MulD(high_values, quantum), high);
      }
      V g = ToFloats(low_quotients, high_quotients);
      if (!Shares::kOnTop) g = ClampMagnitude(g, largest);
      if (!kAdd) g = Add(g, zero);  // −0 becomes +0
      nonzero += CountNonzero(g);
      if (at + kLanes <= n) {
        if (kAdd) {
          g = ClampMagnitude(Add(Load(out + at), g), largest);
          // The next tile's `out`, which follows this one: the array is larger than caches.
          __builtin_prefetch(out + at + 1024, 1);
        }
        Store(out + at, g);
      } else {
        if (kAdd) g = ClampMagnitude(Add(LoadPart(out + at, n - at), g), largest);
        StorePart(out + at, g, n - at);
      }
      group = LargerMagnitude(group, g);
    });
    StoreI(maxima + i / 4, AsInt(group));
  }
  return nonzero;
}

template <class Shares>
inline uint32_t FinishWith(const MergedTile& tile, const Shares& shares, uint32_t* maxima) {
  if (IsShort(tile.floor)) {
    return tile.add ? FinishBy<true, true>(tile, shares, maxima)
                    : FinishBy<true, false>(tile, shares, maxima);
  }
  return tile.add ? FinishBy<false, true>(tile, shares, maxima)
                  : FinishBy<false, false>(tile, shares, maxima);
}

inline uint32_t FinishMerge(const MergedTile& tile, uint32_t* maxima) {
  switch (tile.share_bytes) {
    case 0:
      return FinishWith(tile, SharesOnTop{tile.share_bits}, maxima);
    case 1:
      return FinishWith(tile, SharesBeside<uint8_t>{static_cast<uint8_t*>(tile.shares)}, maxima);
    case 2:
      return FinishWith(tile, SharesBeside<uint16_t>{static_cast<uint16_t*>(tile.shares)}, maxima);
    case 4:
      return FinishWith(tile, SharesBeside<uint32_t>{static_cast<uint32_t*>(tile.shares)}, maxima);
    default:
      return FinishWith(tile, SharesBeside<uint64_t>{static_cast<uint64_t*>(tile.shares)}, maxima);
  }
}

inline void Maxima(uint32_t n, const float* x, uint32_t* maxima) {
  for (uint32_t i = 0; i < RoundUp(n, 64); i += 4 * kLanes) {
    V group = Broadcast(0);
    Unroll<4>([&](auto k) LONGWAVE_BODY {
      const uint32_t at = i + k.value * kLanes;
      if (at >= n) return;
      group = LargerMagnitude(group, at + kLanes <= n ? Load(x + at) : LoadPart(x + at, n - at));
    });
    StoreI(maxima + i / 4, AsInt(group));
  }
}

#if defined(__AVX512F__)
// Eight at a time: as fast as one after the other from the first-level cache, with so few
// instructions that the processor looks far ahead during cache misses.
template <uint32_t kBits>
LONGWAVE_SIMD void AddWord(uint64_t word, const uint64_t* addends, uint32_t count,
                           const uint16_t* indices, uint64_t* sums) {
  // Codes in three bits: the lowest are a code, the others are ignored.
  constexpr uint32_t kLast = (1u << kBits) - 1;
  const auto of = [&](uint32_t code) { return static_cast<int64_t>(addends[code & kLast]); };
  const VL table = _mm512_setr_epi64(of(0), of(1), of(2), of(3), of(0), of(1), of(2), of(3));
  const VL lane_bits =
      _mm512_setr_epi64(0, kBits, 2 * kBits, 3 * kBits, 4 * kBits, 5 * kBits, 6 * kBits, 7 * kBits);
  for (uint32_t j = 0; j < count; j += 8, word >>= 8 * kBits) {
    const auto lanes = static_cast<__mmask8>(count - j >= 8 ? 0xffu : (1u << (count - j)) - 1);
    const __m256i index = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(lanes, indices + j));
    const VL code = _mm512_srlv_epi64(BroadcastL(word), lane_bits);
    const VL sum = AddL(_mm512_mask_i32gather_epi64(BroadcastL(0), lanes, index, sums, 8),
                        _mm512_permutexvar_epi64(code, table));
    _mm512_mask_i32scatter_epi64(sums, lanes, index, sum, 8);
  }
}
#else
template <uint32_t kBits>
LONGWAVE_SIMD void AddWord(uint64_t word, const uint64_t* addends, uint32_t count,
                           const uint16_t* indices, uint64_t* sums) {
  for (uint32_t j = 0; j < count; ++j, word >>= kBits) {
    sums[indices[j]] += addends[word & ((1u << kBits) - 1)];
  }
}
#endif

template <uint32_t kBits>
inline void AddNarrow(const uint64_t* addends, const uint8_t* codes, uint32_t count,
                      const uint16_t* indices, uint64_t* sums) {
  constexpr uint32_t kPerWord = 64 / kBits;
  uint32_t i = 0;
  for (; i + kPerWord <= count; i += kPerWord) {
    uint64_t word;
    __builtin_memcpy(&word, codes + i * kBits / 8, sizeof word);
    AddWord<kBits>(word, addends, kPerWord, indices + i, sums);
  }
  if (i == count) return;
  uint64_t word = 0;
  __builtin_memcpy(&word, codes + i * kBits / 8, ((count - i) * kBits + 7) / 8);
  AddWord<kBits>(word, addends, count - i, indices + i, sums);
}

inline void AddCodes(uint32_t bits, const uint64_t* addends, const uint8_t* codes, uint32_t count,
                     const uint16_t* indices, uint64_t* sums) {
  bits == 1 ? AddNarrow<1>(addends, codes, count, indices, sums)
            : AddNarrow<2>(addends, codes, count, indices, sums);
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_MERGE_H_

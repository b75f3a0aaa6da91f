#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/wire/isa.h"
#include "server/shard/finish_tile.h"
#include "server/shard/merge.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave {
namespace {

constexpr size_t kFetchAhead = 1024;  // floats

// Division by one number, rounded as the division is: a/d from y = RN(1/d) and what y lacks. Their
// sum q is off by less than 2^−104 of a/d before it is rounded. A d of at most kShortBits bits has
// no quotient in the middle between two doubles (a would have more than 53 bits), nor one nearer to
// it than 2^(−54−kShortBits): q is a/d, rounded. Any other q is within one unit of the last place,
// and corrected by its remainder once, exactly (Markstein 1990; Handbook of Floating-Point
// Arithmetic, theorem 4.8). d and y are scaled by powers of two, which changes no rounding.
constexpr int kShortBits = 40;
bool IsShort(double divisor) {
  return std::countr_zero(std::bit_cast<uint64_t>(divisor)) >= 53 - kShortBits;
}

template <bool kShort>
class Divider {
 public:
  // a · 2^−exponent / divisor; divisor at least 1 and below 2^62.
  LONGWAVE_AVX512 Divider(double divisor, int exponent) {
    const double y = 1 / divisor;
    const double lacking = std::fma(-divisor, y, 1.0) * y;
    divisor_ = _mm512_set1_pd(std::ldexp(divisor, exponent));
    inverse_ = _mm512_set1_pd(std::ldexp(y, -exponent));
    lacking_ = _mm512_set1_pd(std::ldexp(lacking, -exponent));
  }
  LONGWAVE_AVX512 __m512d Divide(__m512d a) const {
    const __m512d q = _mm512_fmadd_pd(a, inverse_, _mm512_mul_pd(a, lacking_));
    if (kShort) return q;
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(q, divisor_, a), inverse_, q);
  }

 private:
  __m512d divisor_, inverse_, lacking_;
};

// Eight sums, their shares where these are beside them, and which of those are above a limit.
struct Sums {
  __m512i values;  // on top: the words
  __m512i shares;
  __mmask8 above;
};

// Takes eight sums, which are zero afterwards. limit: see LimitOf.
LONGWAVE_AVX512 inline Sums Take(uint64_t* sums, SharesOnTop, size_t i, __m512i limit) {
  const __m512i words = _mm512_load_si512(sums + i);
  _mm512_store_si512(sums + i, _mm512_setzero_si512());
  return {words, words, _mm512_cmpgt_epu64_mask(words, limit)};
}
template <typename Share>
LONGWAVE_AVX512 inline Sums Take(uint64_t* sums, SharesBeside<Share> shares, size_t i,
                                 __m512i limit) {
  const __m512i values = _mm512_load_si512(sums + i);
  _mm512_store_si512(sums + i, _mm512_setzero_si512());
  Share* const from = shares.of + i;
  __m512i taken;
  if constexpr (sizeof(Share) == 1) {
    taken = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (sizeof(Share) == 2) {
    taken = _mm512_cvtepu16_epi64(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (sizeof(Share) == 4) {
    taken = _mm512_cvtepu32_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
  } else {
    taken = _mm512_load_si512(from);
  }
  std::memset(from, 0, 8 * sizeof(Share));
  return {values, taken, _mm512_cmpgt_epu64_mask(taken, limit)};
}

// What is compared with Take's words or shares: above it are shares above floor_shares. A sum may
// borrow one share, but no more than half of it.
inline uint64_t LimitOf(const MergePlan& plan, SharesOnTop shares) {
  return ((plan.floor_shares + 1) << (64 - shares.bits)) - (uint64_t{1} << (63 - shares.bits)) - 1;
}
template <typename Share>
uint64_t LimitOf(const MergePlan& plan, SharesBeside<Share>) {
  return plan.floor_shares;
}

// 2^−exponent of what ValuesOf gives is the sum.
int ExponentOf(int exponent, SharesOnTop shares) { return exponent + shares.bits; }
template <typename Share>
int ExponentOf(int exponent, SharesBeside<Share>) {
  return exponent;
}

LONGWAVE_AVX512 inline __m512d ValuesOf(Sums sums, SharesOnTop shares) {
  const __m512i bits = _mm512_set1_epi64(shares.bits);
  return _mm512_cvtepi64_pd(_mm512_sllv_epi64(sums.values, bits));
}
template <typename Share>
LONGWAVE_AVX512 inline __m512d ValuesOf(Sums sums, SharesBeside<Share>) {
  return _mm512_cvtepi64_pd(sums.values);
}

LONGWAVE_AVX512 inline __m512i SharesOf(Sums sums, SharesOnTop shares) {
  const __m512i half = _mm512_set1_epi64(int64_t{1} << (63 - shares.bits));
  return _mm512_srlv_epi64(_mm512_add_epi64(sums.values, half),
                           _mm512_set1_epi64(64 - shares.bits));
}
template <typename Share>
LONGWAVE_AVX512 inline __m512i SharesOf(Sums sums, SharesBeside<Share>) {
  return sums.shares;
}

// The quotients by divisors of their own; of nothing, 0.
LONGWAVE_AVX512 inline __m512d DivideEach(const MergePlan& plan, __m512d values, __m512i shares) {
  const __m512i unit = _mm512_set1_epi64(static_cast<int64_t>(plan.unit));
  const __m512d divisor = _mm512_max_pd(_mm512_cvtepu64_pd(_mm512_mullo_epi64(shares, unit)),
                                        _mm512_set1_pd(plan.floor));
  const __mmask8 nonzero = _mm512_cmp_pd_mask(values, _mm512_setzero_pd(), _CMP_NEQ_OQ);
  return _mm512_maskz_div_pd(nonzero, values, divisor);
}

LONGWAVE_AVX512 inline __m512 Clamp(__m512 v) {
  constexpr int kLesserMagnitude = 2, kSignOfFirst = 0 << 2;
  return _mm512_range_ps(v, _mm512_set1_ps(kMergedMax), kLesserMagnitude | kSignOfFirst);
}

// Where few coefficients have more than ρ of all weights behind them, which is the rule with an ρ
// that matters, most have one divisor. out ← out + G in float is what it is by way of double, which
// has more than twice the digits.
template <bool kShort, FinishKind kKind, typename Shares>
LONGWAVE_AVX512 uint32_t FinishBy(const FinishArgs& args, Shares shares) {
  constexpr bool kOnTop = std::is_same_v<Shares, SharesOnTop>;
  const MergePlan& plan = *args.plan;
  const size_t n = args.out.size();
  float* const out = args.out.data();
  const int exponent = ExponentOf(args.exponent, shares);
  // Without a floor whoever was sent is above it, and the others are zero by any divisor.
  const Divider<kShort> divider(plan.floor_shares > 0 ? plan.floor : 1, exponent);
  const __m512d quantum = _mm512_set1_pd(std::ldexp(1.0, -exponent));
  const __m512i limit = _mm512_set1_epi64(static_cast<int64_t>(LimitOf(plan, shares)));
  const __m512i magnitude_mask = _mm512_set1_epi32(0x7fffffff);
  const __m512i mark_from =
      _mm512_set1_epi32(args.marks != nullptr ? static_cast<int>(args.marks->from) : 0);
  uint64_t* const from = args.sums;
  auto* const marks =
      args.marks != nullptr ? reinterpret_cast<__mmask16*>(args.marks->words.data()) : nullptr;
  if (kKind == FinishKind::kAddAndMark) args.marks->words[(n - 1) / 64] = 0;
  uint32_t nonzero = 0;
  __mmask16 lanes = 0xffff;
  for (size_t i = 0; i < n; i += 16) {
    if (n - i < 16) [[unlikely]]
      lanes = static_cast<__mmask16>((1u << (n - i)) - 1);
    const Sums low = Take(from, shares, i, limit);
    const Sums high = Take(from, shares, i + 8, limit);
    const __m512d low_values = ValuesOf(low, shares);
    const __m512d high_values = ValuesOf(high, shares);
    __m512d low_quotients = divider.Divide(low_values);
    __m512d high_quotients = divider.Divide(high_values);
    if (!_kortestz_mask8_u8(low.above, high.above)) [[unlikely]] {
      low_quotients = DivideEach(plan, _mm512_mul_pd(low_values, quantum), SharesOf(low, shares));
      high_quotients =
          DivideEach(plan, _mm512_mul_pd(high_values, quantum), SharesOf(high, shares));
    }
    __m512 g = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low_quotients)),
                                  _mm512_cvtpd_ps(high_quotients), 1);
    if (!kOnTop) g = Clamp(g);
    if (kKind != FinishKind::kAddAndMark) {
      g = _mm512_add_ps(g, _mm512_setzero_ps());  // −0 becomes +0
      nonzero += static_cast<uint32_t>(
          std::popcount(uint32_t{_mm512_cmp_ps_mask(g, _mm512_setzero_ps(), _CMP_NEQ_OQ)}));
    }
    if (kKind != FinishKind::kWrite) {
      g = Clamp(_mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out + i), g));
    }
    _mm512_mask_storeu_ps(out + i, lanes, g);
    if (kKind == FinishKind::kAddAndMark) {
      // E of the next tile, which is behind this one: it is larger than caches are.
      __builtin_prefetch(out + i + kFetchAhead, 1);
      const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(g), magnitude_mask);
      _store_mask16(marks + i / 16, _mm512_mask_cmpge_epu32_mask(lanes, magnitude, mark_from));
    }
  }
  return nonzero;
}

}  // namespace

template <FinishKind kKind, typename Shares>
LONGWAVE_AVX512 uint32_t FinishTileAvx512(const FinishArgs& args, Shares shares) {
  return IsShort(args.plan->floor) ? FinishBy<true, kKind>(args, shares)
                                   : FinishBy<false, kKind>(args, shares);
}

LONGWAVE_FINISH_TILES(FinishTileAvx512);

}  // namespace longwave

#endif  // LONGWAVE_HAS_AVX512

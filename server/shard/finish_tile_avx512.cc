#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/wire/isa.h"
#include "server/shard/finish_tile.h"
#include "server/shard/merge.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave {
namespace {

// Division by one number, rounded as the division is: a/d from y = RN(1/d) and what y lacks,
// corrected by its remainder once. q is within one unit of the last place of a/d before that, and
// exactly rounded after it (Markstein 1990; Handbook of Floating-Point Arithmetic, theorem 4.8).
// d and y are scaled by powers of two, which changes no rounding.
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
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(q, divisor_, a), inverse_, q);
  }

 private:
  __m512d divisor_, inverse_, lacking_;
};

LONGWAVE_AVX512 inline __m256 Clamp(__m256 v) {
  const __m256 limit = _mm256_set1_ps(kMergedMax);
  return _mm256_max_ps(_mm256_min_ps(v, limit), _mm256_set1_ps(-kMergedMax));
}

// G of quotients, and a bit for each of them that is not zero; out ← out + G in float is what it is
// by way of double, which has more than twice the digits. Sums of floats are never −0 where one of
// them is not.
template <bool kInto>
LONGWAVE_AVX512 inline __m256 Apply(__m512d quotient, __m256 out, uint32_t* nonzero) {
  const __m256 g = _mm256_add_ps(Clamp(_mm512_cvtpd_ps(quotient)), _mm256_setzero_ps());
  *nonzero = _mm256_cmp_ps_mask(g, _mm256_setzero_ps(), _CMP_NEQ_OQ);
  return kInto ? Clamp(_mm256_add_ps(out, g)) : g;
}

LONGWAVE_AVX512 inline uint32_t CountOf(uint32_t bits) {
  return static_cast<uint32_t>(std::popcount(bits));
}

LONGWAVE_AVX512 inline __mmask8 LanesOf(size_t left) {
  return static_cast<__mmask8>(left >= 8 ? 0xffu : (1u << left) - 1);
}

// Every coefficient by the same divisor.
template <bool kInto>
LONGWAVE_AVX512 uint32_t FinishAll(const FinishArgs& args, const Divider& divider) {
  uint32_t nonzero = 0;
  const size_t n = args.out.size();
  float* const out = args.out.data();
  for (size_t i = 0; i < n; i += 8) {
    const __mmask8 lanes = LanesOf(n - i);
    const __m512d sum = _mm512_cvtepi64_pd(_mm512_load_si512(args.sums + i));
    _mm512_store_si512(args.sums + i, _mm512_setzero_si512());
    const __m256 before = kInto ? _mm256_maskz_loadu_ps(lanes, out + i) : _mm256_setzero_ps();
    uint32_t nonzero_lanes;
    _mm256_mask_storeu_ps(out + i, lanes,
                          Apply<kInto>(divider.Divide(sum), before, &nonzero_lanes));
    nonzero += CountOf(nonzero_lanes);
  }
  return nonzero;
}

template <typename Share>
LONGWAVE_AVX512 inline __m512i LoadShares(const Share* from) {
  if constexpr (sizeof(Share) == 1) {
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (sizeof(Share) == 2) {
    return _mm512_cvtepu16_epi64(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (sizeof(Share) == 4) {
    return _mm512_cvtepu32_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
  } else {
    return _mm512_load_si512(from);
  }
}

// The divisors of shares.
LONGWAVE_AVX512 inline __m512d DivisorsOf(const MergePlan& plan, __m512i shares) {
  const __m512i unit = _mm512_set1_epi64(static_cast<int64_t>(plan.unit));
  return _mm512_max_pd(_mm512_cvtepu64_pd(_mm512_mullo_epi64(shares, unit)),
                       _mm512_set1_pd(plan.floor));
}

// Those of the list, by the same divisor, or by their own without a divider. One that is listed
// twice comes out the same twice within a block, and with a sum of zero in a later one. It counts
// when its sum is taken, which happens once.
template <typename Share>
LONGWAVE_AVX512 uint32_t FinishListed(const FinishArgs& args, const Share* shares,
                                      const Divider* divider) {
  uint32_t nonzero = 0;
  float* const out = args.out.data();
  const __m512d quantum = _mm512_set1_pd(std::ldexp(1.0, -args.exponent));
  for (size_t i = 0; i < args.list.size(); i += 8) {
    const size_t left = args.list.size() - i;
    const __mmask8 lanes = LanesOf(left);
    const __m256i index = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(lanes, args.list.data() + i));
    const __m512i zero = _mm512_setzero_si512();
    const __m512i sums = _mm512_mask_i32gather_epi64(zero, lanes, index, args.sums, 8);
    const __mmask8 sent = _mm512_test_epi64_mask(sums, sums);
    __m512d quotient;
    if (divider != nullptr) {
      quotient = divider->Divide(_mm512_cvtepi64_pd(sums));
    } else {
      alignas(64) std::array<uint64_t, 8> of_lanes{};
      for (size_t j = 0; j < std::min<size_t>(left, 8); ++j) {
        of_lanes[j] = shares[args.list[i + j]];
      }
      quotient = _mm512_maskz_div_pd(sent, _mm512_mul_pd(_mm512_cvtepi64_pd(sums), quantum),
                                     DivisorsOf(*args.plan, _mm512_load_si512(of_lanes.data())));
    }
    const __m256 before = _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), lanes, index, out, 4);
    // Eight stores are faster than a scatter. A sum of zero adds zero.
    alignas(32) std::array<float, 8> after;
    uint32_t nonzero_lanes;
    _mm256_store_ps(after.data(), Apply<true>(quotient, before, &nonzero_lanes));
    for (size_t j = 0; j < std::min<size_t>(left, 8); ++j, nonzero_lanes >>= 1) {
      const uint16_t at = args.list[i + j];
      out[at] = after[j];
      nonzero += nonzero_lanes & static_cast<uint32_t>(args.sums[at] != 0);
      args.sums[at] = 0;
    }
  }
  return nonzero;
}

// Every coefficient by a divisor of its own.
template <bool kInto, typename Share>
LONGWAVE_AVX512 uint32_t FinishEach(const FinishArgs& args, const Share* shares) {
  uint32_t nonzero = 0;
  const size_t n = args.out.size();
  float* const out = args.out.data();
  const __m512d quantum = _mm512_set1_pd(std::ldexp(1.0, -args.exponent));
  for (size_t i = 0; i < n; i += 8) {
    const __mmask8 lanes = LanesOf(n - i);
    const __m512i sum = _mm512_load_si512(args.sums + i);
    _mm512_store_si512(args.sums + i, _mm512_setzero_si512());
    const __m512d divisor = DivisorsOf(*args.plan, LoadShares(shares + i));
    const __m512d quotient = _mm512_maskz_div_pd(
        _mm512_test_epi64_mask(sum, sum), _mm512_mul_pd(_mm512_cvtepi64_pd(sum), quantum), divisor);
    const __m256 before = kInto ? _mm256_maskz_loadu_ps(lanes, out + i) : _mm256_setzero_ps();
    uint32_t nonzero_lanes;
    _mm256_mask_storeu_ps(out + i, lanes, Apply<kInto>(quotient, before, &nonzero_lanes));
    nonzero += CountOf(nonzero_lanes);
  }
  return nonzero;
}

// Bit i of the result: whether shares[i] is above the limit, for the 64 / sizeof(Share) of a
// vector.
template <typename Share>
LONGWAVE_AVX512 inline uint64_t AboveOf(const Share* shares, Share limit) {
  const __m512i v = _mm512_load_si512(shares);
  if constexpr (sizeof(Share) == 1) {
    return _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8(static_cast<int8_t>(limit)));
  } else if constexpr (sizeof(Share) == 2) {
    return _mm512_cmpgt_epu16_mask(v, _mm512_set1_epi16(static_cast<int16_t>(limit)));
  } else if constexpr (sizeof(Share) == 4) {
    return _mm512_cmpgt_epu32_mask(v, _mm512_set1_epi32(static_cast<int32_t>(limit)));
  } else {
    return _mm512_cmpgt_epu64_mask(v, _mm512_set1_epi64(static_cast<int64_t>(limit)));
  }
}

template <typename Share>
LONGWAVE_AVX512 uint32_t CountAbove(const Share* shares, size_t n, Share limit) {
  uint32_t count = 0;
  for (size_t i = 0; i < n; i += 64 / sizeof(Share)) {
    count += static_cast<uint32_t>(std::popcount(AboveOf(shares + i, limit)));
  }
  return count;
}

// Those above the limit one by one; their sums are zero afterwards.
template <bool kInto, typename Share>
LONGWAVE_AVX512 uint32_t FinishAbove(const FinishArgs& args, const Share* shares, Share limit) {
  const double quantum = std::ldexp(1.0, -args.exponent);
  uint32_t nonzero = 0;
  for (size_t i = 0; i < args.out.size(); i += 64 / sizeof(Share)) {
    for (uint64_t above = AboveOf(shares + i, limit); above != 0; above &= above - 1) {
      const size_t at = i + static_cast<size_t>(std::countr_zero(above));
      if (args.sums[at] == 0) continue;
      nonzero += FinishOne<kInto>(*args.plan, quantum, args.sums[at], shares[at], &args.out[at]);
      args.sums[at] = 0;
    }
  }
  return nonzero;
}

}  // namespace

// Where few coefficients have more than ρ of all weights behind them, which is the rule with an ρ
// that matters, those few are done one by one and the others have one divisor.
template <bool kInto, typename Share>
LONGWAVE_AVX512 uint32_t FinishTileAvx512(const FinishArgs& args, Share* shares) {
  const MergePlan& plan = *args.plan;
  const size_t n = args.out.size();
  const bool has_floor = plan.floor_shares > 0;
  const bool may_exceed = plan.share_sum > plan.floor_shares;
  const auto limit = static_cast<Share>(plan.floor_shares);
  uint32_t nonzero = 0;
  // What is done one by one has to stay as it is, so that it is added, not written, in the end.
  const uint32_t above = may_exceed && has_floor ? CountAbove(shares, n, limit) : 0;
  const bool is_listed = kInto && !args.list.empty();
  if (!has_floor || above > (kInto ? n / 32 : 0)) {
    nonzero = is_listed ? FinishListed(args, shares, nullptr) : FinishEach<kInto>(args, shares);
  } else {
    if (above > 0) nonzero = FinishAbove<kInto>(args, shares, limit);
    const Divider divider(plan.floor, args.exponent);
    nonzero += is_listed ? FinishListed(args, shares, &divider) : FinishAll<kInto>(args, divider);
  }
  std::memset(shares, 0, n * sizeof(Share));
  return nonzero;
}

template uint32_t FinishTileAvx512<false>(const FinishArgs&, uint8_t*);
template uint32_t FinishTileAvx512<false>(const FinishArgs&, uint16_t*);
template uint32_t FinishTileAvx512<false>(const FinishArgs&, uint32_t*);
template uint32_t FinishTileAvx512<false>(const FinishArgs&, uint64_t*);
template uint32_t FinishTileAvx512<true>(const FinishArgs&, uint8_t*);
template uint32_t FinishTileAvx512<true>(const FinishArgs&, uint16_t*);
template uint32_t FinishTileAvx512<true>(const FinishArgs&, uint32_t*);
template uint32_t FinishTileAvx512<true>(const FinishArgs&, uint64_t*);

}  // namespace longwave

#endif  // LONGWAVE_HAS_AVX512

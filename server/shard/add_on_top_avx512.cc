#include <algorithm>

#include "common/wire/bytes.h"
#include "common/wire/isa.h"
#include "common/wire/tile_codec.h"
#include "server/shard/add_on_top.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave {
namespace {

// The levels of three bits, of which the lowest are a code and the others do not matter.
template <ValueCodec kCodec>
LONGWAVE_AVX512 inline __m512i LevelsOf() {
  constexpr uint32_t kLast = (1u << ValueBits(kCodec)) - 1;
  return _mm512_setr_epi64(LevelOf(kCodec, 0), LevelOf(kCodec, 1), LevelOf(kCodec, 2 & kLast),
                           LevelOf(kCodec, 3 & kLast), LevelOf(kCodec, 0), LevelOf(kCodec, 1),
                           LevelOf(kCodec, 2 & kLast), LevelOf(kCodec, 3 & kLast));
}

// Eight at a time: as fast as one after the other from the first-level cache, and with so few
// instructions that the processor looks far ahead where that has to wait.
template <ValueCodec kCodec>
LONGWAVE_AVX512 void Add(int64_t multiple, uint64_t share, std::span<const std::byte> codes,
                         std::span<const uint16_t> indices, uint64_t* sums) {
  constexpr uint32_t kBits = ValueBits(kCodec);
  constexpr size_t kPerWord = 64 / kBits;
  const __m512i addends =
      _mm512_add_epi64(_mm512_mullo_epi64(LevelsOf<kCodec>(), _mm512_set1_epi64(multiple)),
                       _mm512_set1_epi64(static_cast<int64_t>(share)));
  const __m512i lane_bits =
      _mm512_setr_epi64(0, kBits, 2 * kBits, 3 * kBits, 4 * kBits, 5 * kBits, 6 * kBits, 7 * kBits);
  const size_t count = indices.size();
  for (size_t i = 0; i < count; i += kPerWord) {
    uint64_t word = LoadWordAt(codes, i * kBits / 8);
    const size_t end = std::min(count, i + kPerWord);
    for (size_t j = i; j < end; j += 8, word >>= 8 * kBits) {
      const auto lanes = static_cast<__mmask8>(end - j >= 8 ? 0xffu : (1u << (end - j)) - 1);
      const __m256i index = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(lanes, &indices[j]));
      const __m512i code =
          _mm512_srlv_epi64(_mm512_set1_epi64(static_cast<int64_t>(word)), lane_bits);
      const __m512i sum = _mm512_add_epi64(
          _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), lanes, index, sums, 8),
          _mm512_permutexvar_epi64(code, addends));
      _mm512_mask_i32scatter_epi64(sums, lanes, index, sum, 8);
    }
  }
}

}  // namespace

void AddOnTopAvx512(ValueCodec codec, int64_t multiple, uint64_t share,
                    std::span<const std::byte> codes, std::span<const uint16_t> indices,
                    uint64_t* sums) {
  if (codec == ValueCodec::kSign) {
    return Add<ValueCodec::kSign>(multiple, share, codes, indices, sums);
  }
  Add<ValueCodec::kInt2>(multiple, share, codes, indices, sums);
}

}  // namespace longwave

#endif  // LONGWAVE_HAS_AVX512

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/wire/avx512.h"
#include "common/wire/bytes.h"

#if LONGWAVE_HAS_AVX512

#include <immintrin.h>

namespace longwave::avx512 {
namespace {

alignas(64) constexpr std::array<uint8_t, 64> kBytes = [] {
  std::array<uint8_t, 64> bytes{};
  for (uint8_t i = 0; i < 64; ++i) bytes[i] = i;
  return bytes;
}();
alignas(64) constexpr std::array<uint16_t, 32> kLanes = [] {
  std::array<uint16_t, 32> lanes{};
  for (uint16_t i = 0; i < 32; ++i) lanes[i] = i;
  return lanes;
}();

// 64 bytes from `at` on; those past the end are zero.
LONGWAVE_AVX512 inline __m512i LoadUpTo(std::span<const std::byte> in, size_t at) {
  if (at + 64 <= in.size()) return _mm512_loadu_si512(in.data() + at);
  const size_t left = at < in.size() ? in.size() - at : 0;
  return _mm512_maskz_loadu_epi8((uint64_t{1} << left) - 1, in.data() + std::min(at, in.size()));
}

}  // namespace

// The positions of a word's set bits are its lanes' numbers, compressed by the word as a mask; the
// low bits of 32 indices are fields of the 64 bytes that they start in, each taken from two
// neighbouring words of 16 bits by a funnel shift.
LONGWAVE_AVX512 bool EliasFanoDecode(uint32_t n, uint32_t low_bits, size_t high_size,
                                     size_t total_size, std::span<const std::byte> in,
                                     std::span<uint16_t> indices) {
  const size_t k = indices.size();
  const __m512i bytes = _mm512_load_si512(kBytes.data());
  const __m512i lanes = _mm512_load_si512(kLanes.data());
  const __m512i low_mask = _mm512_set1_epi16(static_cast<int16_t>((1u << low_bits) - 1));
  const __m512i low_at_lane =
      _mm512_mullo_epi16(lanes, _mm512_set1_epi16(static_cast<int16_t>(low_bits)));
  const __m512i one = _mm512_set1_epi16(1);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(low_bits));
  const __m512i before = _mm512_sub_epi16(lanes, one);
  size_t count = 0;
  int last = -1;
  __mmask32 wrong = 0;
  for (size_t at = 0; at < high_size; at += 64) {
    uint64_t word = LoadWordAt(in, at / 8);
    const size_t left = high_size - at;
    if (left < 64) word &= (uint64_t{1} << left) - 1;
    auto found = static_cast<size_t>(std::popcount(word));
    if (count + found > k) return false;
    __m512i positions = _mm512_maskz_compress_epi8(word, bytes);
    while (found > 0) {
      const size_t taken = std::min<size_t>(found, 32);
      const __mmask32 valid = static_cast<__mmask32>((uint64_t{1} << taken) - 1);
      // The i-th index has the upper part position − i.
      const __m512i upper =
          _mm512_sub_epi16(_mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(positions)),
                                            _mm512_set1_epi16(static_cast<int16_t>(at - count))),
                           lanes);
      const size_t low_at = high_size + count * low_bits;
      const __m512i fields = LoadUpTo(in, low_at / 16 * 2);
      const __m512i bit =
          _mm512_add_epi16(low_at_lane, _mm512_set1_epi16(static_cast<int16_t>(low_at % 16)));
      const __m512i place = _mm512_srli_epi16(bit, 4);
      const __m512i low = _mm512_and_si512(
          _mm512_shrdv_epi16(_mm512_permutexvar_epi16(place, fields),
                             _mm512_permutexvar_epi16(_mm512_add_epi16(place, one), fields),
                             _mm512_and_si512(bit, _mm512_set1_epi16(15))),
          low_mask);
      const __m512i index = _mm512_or_si512(_mm512_sll_epi16(upper, shift), low);
      _mm512_mask_storeu_epi16(indices.data() + count, valid, index);
      // Each is above the one before it. Indices are below 2^13, so that −1 is below all.
      const __m512i previous = _mm512_mask_set1_epi16(_mm512_permutexvar_epi16(before, index), 1,
                                                      static_cast<int16_t>(last));
      wrong |= _mm512_mask_cmple_epi16_mask(valid, index, previous);
      count += taken;
      found -= taken;
      last = indices[count - 1];
      positions = _mm512_castsi256_si512(_mm512_extracti64x4_epi64(positions, 1));
    }
  }
  const uint32_t tail_bits = total_size % 8;
  const bool padded = tail_bits != 0 && (std::to_integer<uint32_t>(in.back()) >> tail_bits) != 0;
  return wrong == 0 && count == k && last < static_cast<int>(n) && !padded;
}

// A byte for each bit, which does without reading what was written before.
LONGWAVE_AVX512 void EliasFanoHighWords(std::span<const uint16_t> indices, uint32_t low_bits,
                                        size_t high_size, uint64_t* words) {
  // k + ⌈n / 2^l⌉ is at most twice the tile's size.
  alignas(64) std::array<uint8_t, 2 * kTileSizeMax + 64> bits;
  const size_t word_count = (high_size + 63) / 64;
  for (size_t w = 0; w < word_count; ++w) {
    _mm512_store_si512(bits.data() + 64 * w, _mm512_setzero_si512());
  }
  const size_t k = indices.size();
  for (size_t i = 0; i < k; ++i) bits[(indices[i] >> low_bits) + i] = 1;
  for (size_t w = 0; w < word_count; ++w) {
    const __m512i of_word = _mm512_load_si512(bits.data() + 64 * w);
    words[w] = _mm512_test_epi8_mask(of_word, of_word);
  }
}

}  // namespace longwave::avx512

#endif  // LONGWAVE_HAS_AVX512

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

// Where the 64 bytes to load begin that hold the 32 fields from byte `at` on: no byte past the end
// is touched, and all of a short block is one load.
inline size_t LoadFrom(size_t size, size_t at) { return size >= 64 ? std::min(at, size - 64) : 0; }
LONGWAVE_AVX512 inline __m512i Load(std::span<const std::byte> in, size_t at) {
  if (in.size() >= 64) return _mm512_loadu_si512(in.data() + at);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << in.size()) - 1, in.data());
}

}  // namespace

// First the positions of all set bits: of a word, they are its bytes' numbers compressed by the
// word as a mask. Then 32 indices at a time: their low bits are fields of the 64 bytes that they
// start in, each taken from two neighbouring words of 16 bits by a funnel shift. Neither loop's
// length depends on where the bits are, so that no branch is guessed wrong.
LONGWAVE_AVX512 bool EliasFanoDecode(uint32_t n, uint32_t low_bits, size_t high_size,
                                     size_t total_size, std::span<const std::byte> in,
                                     std::span<uint16_t> indices) {
  const size_t k = indices.size();
  // Two words and 64 positions, as of 64 in 4096, stay in registers.
  const bool is_short = high_size <= 128 && k <= 64;
  __m512i short_positions = _mm512_setzero_si512();
  alignas(64) std::array<uint16_t, kTileSizeMax + 64> positions;
  const __m512i bytes = _mm512_load_si512(kBytes.data());
  size_t count = 0;
  for (size_t at = 0; at < high_size; at += 64) {
    uint64_t word = LoadWordAt(in, at / 8);
    const size_t left = high_size - at;
    if (left < 64) word &= (uint64_t{1} << left) - 1;
    const __m512i found = _mm512_maskz_compress_epi8(word, bytes);
    const size_t found_count = static_cast<size_t>(std::popcount(word));
    if (is_short) {
      if (count + found_count > k) return false;
      if (found_count == 0) continue;
      // Behind those of the first word. `count` is below 64, since more were found.
      short_positions = _mm512_mask_expand_epi8(
          short_positions, ~uint64_t{0} << count,
          _mm512_add_epi8(found, _mm512_set1_epi8(static_cast<int8_t>(at))));
      count += found_count;
      continue;
    }
    const __m512i begin = _mm512_set1_epi16(static_cast<int16_t>(at));
    const __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(found));
    const __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(found, 1));
    _mm512_storeu_si512(positions.data() + count, _mm512_add_epi16(low, begin));
    _mm512_storeu_si512(positions.data() + count + 32, _mm512_add_epi16(high, begin));
    count += found_count;
    if (count > k) return false;
  }
  if (count != k) return false;

  const __m512i lanes = _mm512_load_si512(kLanes.data());
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i low_mask = _mm512_set1_epi16(static_cast<int16_t>((1u << low_bits) - 1));
  const __m512i low_at_lane =
      _mm512_mullo_epi16(lanes, _mm512_set1_epi16(static_cast<int16_t>(low_bits)));
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(low_bits));
  const __m512i before = _mm512_sub_epi16(lanes, one);  // the first lane takes the last one
  __m512i last = _mm512_set1_epi16(-1);                 // of the block before, in its last lane
  __mmask32 wrong = 0;
  for (size_t i = 0; i < k; i += 32) {
    const __m512i position =
        !is_short ? _mm512_load_si512(positions.data() + i)
                  : _mm512_cvtepu8_epi16(i == 0 ? _mm512_castsi512_si256(short_positions)
                                                : _mm512_extracti64x4_epi64(short_positions, 1));
    // The i-th index has the upper part position − i.
    const __m512i upper = _mm512_sub_epi16(
        position, _mm512_add_epi16(lanes, _mm512_set1_epi16(static_cast<int16_t>(i))));
    const size_t low_at = high_size + i * low_bits;
    const size_t load_at = LoadFrom(in.size(), low_at / 8);
    const __m512i fields = Load(in, load_at);
    const __m512i bit = _mm512_add_epi16(
        low_at_lane, _mm512_set1_epi16(static_cast<int16_t>(low_at - 8 * load_at)));
    const __m512i place = _mm512_srli_epi16(bit, 4);
    // A funnel shift takes its count modulo 16.
    const __m512i low = _mm512_and_si512(
        _mm512_shrdv_epi16(_mm512_permutexvar_epi16(place, fields),
                           _mm512_permutexvar_epi16(_mm512_add_epi16(place, one), fields), bit),
        low_mask);
    const __m512i index = _mm512_or_si512(_mm512_sll_epi16(upper, shift), low);
    const __mmask32 valid =
        k - i >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint64_t{1} << (k - i)) - 1);
    _mm512_mask_storeu_epi16(indices.data() + i, valid, index);
    // Each is above the one before it. Indices are below 2^13, so that −1 is below all.
    const __m512i turned = _mm512_permutexvar_epi16(before, index);
    wrong |= _mm512_mask_cmple_epi16_mask(valid, index, _mm512_mask_mov_epi16(turned, 1, last));
    last = turned;  // its first lane is this block's last index
  }
  const uint32_t tail_bits = total_size % 8;
  const bool padded = tail_bits != 0 && (std::to_integer<uint32_t>(in.back()) >> tail_bits) != 0;
  return wrong == 0 && indices[k - 1] < n && !padded;
}

// Eight indices' lowest bits are next to each other after two extractions.
LONGWAVE_AVX512 size_t EliasFanoLowGroups(std::span<const uint16_t> indices, uint32_t low_bits,
                                          uint64_t* groups) {
  const uint64_t mask = ((uint64_t{1} << low_bits) - 1) * 0x0001000100010001u;
  const size_t count = indices.size() / 8;
  for (size_t g = 0; g < count; ++g) {
    groups[g] = _pext_u64(LoadLe<uint64_t>(std::as_bytes(indices).data() + 16 * g), mask) |
                _pext_u64(LoadLe<uint64_t>(std::as_bytes(indices).data() + 16 * g + 8), mask)
                    << (4 * low_bits);
  }
  return count;
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

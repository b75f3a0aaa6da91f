#include "common/wire/elias_fano_avx512.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/wire/bytes.h"
#include "common/wire/codec.h"

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

// The offset of a 64-byte load that contains the 32 fields from byte `at` on, without touching a
// byte past the end. A short block is one load.
inline size_t LoadFrom(size_t size, size_t at) { return size >= 64 ? std::min(at, size - 64) : 0; }
LONGWAVE_AVX512 inline __m512i Load(std::span<const std::byte> in, size_t at) {
  if (in.size() >= 64) return _mm512_loadu_si512(in.data() + at);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << in.size()) - 1, in.data());
}

}  // namespace

// First the positions of all set bits: the byte numbers of a word, compressed with the word as a
// mask. Then 32 indices at a time: their low bits are fields of the 64 bytes in which they start,
// and a funnel shift takes each from two neighbouring words of 16 bits. Neither loop's length
// depends on the bits, so that no branch is mispredicted.
LONGWAVE_AVX512 bool EliasFanoDecode(const EliasFanoShape& shape, std::span<const std::byte> in,
                                     std::span<uint16_t> indices) {
  const auto [n, k, low_bits, high_size, total_size] = shape;
  alignas(64) std::array<uint16_t, kTileSizeMax + 64> positions;
  const __m512i bytes = _mm512_load_si512(kBytes.data());
  size_t count = 0;
  for (size_t at = 0; at < high_size; at += 64) {
    uint64_t word = LoadWordAt(in, at / 8);
    const size_t left = high_size - at;
    if (left < 64) word &= (uint64_t{1} << left) - 1;
    const __m512i found = _mm512_maskz_compress_epi8(word, bytes);
    const size_t found_count = static_cast<size_t>(std::popcount(word));
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
    const __m512i position = _mm512_load_si512(positions.data() + i);
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
    // Each index is above the one before it. Indices are below 2^14, so that −1 is below all.
    const __m512i turned = _mm512_permutexvar_epi16(before, index);
    wrong |= _mm512_mask_cmple_epi16_mask(valid, index, _mm512_mask_mov_epi16(turned, 1, last));
    last = turned;  // its first lane is this block's last index
  }
  const uint32_t tail_bits = total_size % 8;
  const bool padded = tail_bits != 0 && (std::to_integer<uint32_t>(in.back()) >> tail_bits) != 0;
  return wrong == 0 && indices[k - 1] < n && !padded;
}

// For products below 256.
LONGWAVE_AVX512 inline __m512i BytesTimes(__m512i bytes, uint32_t factor) {
  const __m512i by = _mm512_set1_epi16(static_cast<int16_t>(factor));
  const __m512i even = _mm512_and_si512(bytes, _mm512_set1_epi16(0xff));
  const __m512i odd = _mm512_srli_epi16(bytes, 8);
  return _mm512_or_si512(_mm512_mullo_epi16(even, by),
                         _mm512_slli_epi16(_mm512_mullo_epi16(odd, by), 8));
}

// Two words of high bits and 64 indices (as for 64 in 4096) fit registers with a byte each: the
// fields of eight low parts are in one word of 64 bits, wherever they begin in their first byte.
LONGWAVE_AVX512 bool EliasFanoDecodeShort(const EliasFanoShape& shape,
                                          std::span<const std::byte* const> blocks,
                                          uint16_t* indices) {
  const auto [n, k, low_bits, high_size, total_size] = shape;
  const __m512i lanes = _mm512_load_si512(kBytes.data());
  const size_t low_byte = high_size / 8;
  const size_t size = (total_size + 7) / 8;
  const uint64_t low_bytes = _bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(size - low_byte));
  // Byte i of the fields' word j is byte j · low_bits + i; field i begins i · low_bits bits after
  // the first one.
  const __m512i of_word = _mm512_and_si512(lanes, _mm512_set1_epi8(7));
  const __m512i word = _mm512_and_si512(_mm512_srli_epi64(lanes, 3), _mm512_set1_epi8(7));
  const __m512i byte_of = _mm512_add_epi8(BytesTimes(word, low_bits), of_word);
  const __m512i bit_of = _mm512_add_epi8(BytesTimes(of_word, low_bits),
                                         _mm512_set1_epi8(static_cast<int8_t>(high_size % 8)));
  const __m512i low_mask = _mm512_set1_epi8(static_cast<int8_t>((1u << low_bits) - 1));
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(low_bits));
  const __m512i before = _mm512_sub_epi16(_mm512_load_si512(kLanes.data()), _mm512_set1_epi16(1));
  const uint64_t valid = _bzhi_u64(~uint64_t{0}, k);
  const auto valid_low = static_cast<__mmask32>(valid);
  const auto valid_high = static_cast<__mmask32>(valid >> 32);
  const uint32_t first_bits = static_cast<uint32_t>(std::min<size_t>(high_size, 64));
  const uint32_t second_bits = static_cast<uint32_t>(high_size) - first_bits;
  const uint32_t tail_bits = total_size % 8;
  const __m512i end = _mm512_set1_epi16(static_cast<int16_t>(n));
  uint32_t wrong = 0;
  for (const std::byte* const block : blocks) {
    const __m128i high = _mm_maskz_loadu_epi8(
        static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<uint32_t>(size))), block);
    const uint64_t first = _bzhi_u64(static_cast<uint64_t>(_mm_cvtsi128_si64(high)), first_bits);
    const uint64_t second =
        _bzhi_u64(static_cast<uint64_t>(_mm_extract_epi64(high, 1)), second_bits);
    const auto first_count = static_cast<uint32_t>(std::popcount(first));
    wrong |= (first_count + static_cast<uint32_t>(std::popcount(second))) ^ k;
    const __m512i positions = _mm512_mask_expand_epi8(
        _mm512_maskz_compress_epi8(first, lanes), ~_bzhi_u64(~uint64_t{0}, first_count),
        _mm512_maskz_compress_epi8(second, _mm512_add_epi8(lanes, _mm512_set1_epi8(64))));
    const __m512i uppers = _mm512_sub_epi8(positions, lanes);
    const __m512i fields = _mm512_maskz_loadu_epi8(low_bytes, block + low_byte);
    const __m512i lows = _mm512_and_si512(
        _mm512_multishift_epi64_epi8(bit_of, _mm512_permutexvar_epi8(byte_of, fields)), low_mask);
    const __m512i index_low = _mm512_or_si512(
        _mm512_sll_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(uppers)), shift),
        _mm512_cvtepu8_epi16(_mm512_castsi512_si256(lows)));
    const __m512i index_high = _mm512_or_si512(
        _mm512_sll_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(uppers, 1)), shift),
        _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(lows, 1)));
    _mm512_mask_storeu_epi16(indices, valid_low, index_low);
    _mm512_mask_storeu_epi16(indices + 32, valid_high, index_high);
    // Each index is above the one before it. Indices are below 2^14, so that −1 is below all.
    const __m512i turned = _mm512_permutexvar_epi16(before, index_low);
    wrong |= _mm512_mask_cmple_epi16_mask(valid_low, index_low,
                                          _mm512_mask_mov_epi16(turned, 1, _mm512_set1_epi16(-1)));
    wrong |= _mm512_mask_cmple_epi16_mask(
        valid_high, index_high,
        _mm512_mask_mov_epi16(_mm512_permutexvar_epi16(before, index_high), 1, turned));
    wrong |= _mm512_mask_cmpge_epu16_mask(valid_low, index_low, end) |
             _mm512_mask_cmpge_epu16_mask(valid_high, index_high, end);
    wrong |= tail_bits == 0 ? 0 : std::to_integer<uint32_t>(block[size - 1]) >> tail_bits;
    indices += k;
  }
  return wrong == 0;
}

namespace {

// Writes a byte for each high bit, which needs no reads of earlier results, then packs them into
// words.
LONGWAVE_AVX512 void PutHighBits(std::span<const uint16_t> indices, uint32_t low_bits,
                                 size_t high_size, std::byte* to) {
  // k + ⌈n / 2^l⌉ is at most twice the tile's size.
  alignas(64) std::array<uint8_t, 2 * kTileSizeMax + 64> bits;
  alignas(64) std::array<uint16_t, kTileSizeMax> places;
  const size_t k = indices.size();
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(low_bits));
  __m512i number = _mm512_load_si512(kLanes.data());
  for (size_t i = 0; i < k; i += 32) {
    const __mmask32 valid =
        k - i >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint64_t{1} << (k - i)) - 1);
    const __m512i index = _mm512_maskz_loadu_epi16(valid, indices.data() + i);
    _mm512_store_si512(places.data() + i, _mm512_add_epi16(_mm512_srl_epi16(index, shift), number));
    number = _mm512_add_epi16(number, _mm512_set1_epi16(32));
  }
  const size_t word_count = (high_size + 63) / 64;
  for (size_t w = 0; w < word_count; ++w) {
    _mm512_store_si512(bits.data() + 64 * w, _mm512_setzero_si512());
  }
  for (size_t i = 0; i < k; ++i) bits[places[i]] = 1;
  for (size_t w = 0; w < word_count; ++w) {
    const __m512i of_word = _mm512_load_si512(bits.data() + 64 * w);
    StoreLe<uint64_t>(_mm512_test_epi8_mask(of_word, of_word), to + 8 * w);
  }
}

}  // namespace

// Two extractions put eight indices' low bits next to each other, in low_bits whole bytes. So all
// eights begin at the same bit of a byte as the first one. The block is written where there is room
// after it.
LONGWAVE_AVX512 void EliasFanoEncode(const EliasFanoShape& shape, std::span<const uint16_t> indices,
                                     std::span<std::byte> out) {
  const uint32_t low_bits = shape.low_bits, high_size = shape.high_size;
  alignas(64) std::array<std::byte, 2 * kTileSizeMax / 8 + 64> block;
  PutHighBits(indices, low_bits, high_size, block.data());
  const uint64_t mask = ((uint64_t{1} << low_bits) - 1) * 0x0001000100010001u;
  const uint32_t begin = high_size % 8;
  std::byte* to = block.data() + high_size / 8;
  uint64_t carry = begin == 0 ? 0 : std::to_integer<uint64_t>(*to);
  for (size_t i = 0; i < indices.size(); i += 8, to += low_bits) {
    const auto valid =
        static_cast<__mmask8>(indices.size() - i >= 8 ? 0xffu : (1u << (indices.size() - i)) - 1);
    const __m128i eight = _mm_maskz_loadu_epi16(valid, indices.data() + i);
    const uint64_t first = _pext_u64(static_cast<uint64_t>(_mm_cvtsi128_si64(eight)), mask);
    const uint64_t second = _pext_u64(static_cast<uint64_t>(_mm_extract_epi64(eight, 1)), mask);
    const uint64_t word = carry | (first | second << (4 * low_bits)) << begin;
    StoreLe<uint64_t>(word, to);
    carry = word >> (8 * low_bits);
  }
  std::memcpy(out.data(), block.data(), out.size());
}

}  // namespace longwave::avx512

#endif  // LONGWAVE_HAS_AVX512

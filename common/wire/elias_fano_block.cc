// Compiled for each instruction set, with LONGWAVE_DECODE_BLOCK as the name of the function. The
// file uses nothing of the standard library: the linker could keep this copy's instructions for an
// inline function that other sources share.
#include "common/wire/elias_fano_block.h"

#ifdef __BMI2__
#include <immintrin.h>
#endif

namespace longwave {
namespace {

constexpr uint32_t kIndicesMax = 4096;  // kTileSizeMax
constexpr uint32_t kBytesMax = 1024;    // a block has at most two bits an index, where k is large
constexpr uint32_t kLanes = 8;

typedef uint16_t Lanes __attribute__((vector_size(2 * kLanes)));
typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
typedef int16_t SignedLanes __attribute__((vector_size(2 * kLanes)));
typedef uint64_t TwoWords __attribute__((vector_size(2 * kLanes)));

inline uint64_t LoadWord(const uint8_t* from) {
  uint64_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

// The lowest four fields of `bits` bits, 16 bits each.
inline uint64_t Spread(uint64_t word, uint32_t bits, uint64_t mask) {
#ifdef __BMI2__
  (void)bits;
  return _pdep_u64(word, mask);
#else
  const uint64_t field = mask & 0xffff;
  return (word & field) | (word >> bits & field) << 16 | (word >> 2 * bits & field) << 32 |
         (word >> 3 * bits & field) << 48;
#endif
}

// The positions of each byte's set bits, in order.
struct BytePlaces {
  uint8_t of[256][8] = {};
  constexpr BytePlaces() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (uint32_t bit = 0, count = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) of[byte][count++] = static_cast<uint8_t>(bit);
      }
    }
  }
};
alignas(64) constexpr BytePlaces kPlaces;

// Copies to `padded` and appends zeros, so that whole words can be loaded up to the end.
inline void CopyPadded(const uint8_t* in, uint32_t size, uint8_t* padded) {
  if (size >= 32 && size <= 64) {  // k 64 of 4096: no call
    __builtin_memcpy(padded, in, 32);
    __builtin_memcpy(padded + size - 32, in + size - 32, 32);
  } else {
    __builtin_memcpy(padded, in, size);
  }
  __builtin_memset(padded + size, 0, 32);
}

}  // namespace

// First the positions of all set high bits, byte by byte; then eight indices at a time, whose low
// bits are the fields of two words. No loop's length depends on the bits, so that no branch is
// mispredicted.
bool LONGWAVE_DECODE_BLOCK(const EliasFanoShape& shape, const uint8_t* in, uint16_t* indices) {
  const uint32_t k = shape.k, low_bits = shape.low_bits;
  const uint32_t size = (shape.total_size + 7) / 8;
  if (shape.n > kIndicesMax || size > kBytesMax) return false;
  uint8_t padded[kBytesMax + 32];
  CopyPadded(in, size, padded);
  // A store always writes eight entries.
  uint16_t places[8 * (kBytesMax + 1)];
  uint32_t count = 0;
  Lanes base = {};
  for (uint32_t at = 0; at < shape.high_size; at += 8, base += 8) {
    uint32_t byte = padded[at / 8];
    if (shape.high_size - at < 8) byte &= (1u << (shape.high_size - at)) - 1;
    Bytes found;
    __builtin_memcpy(&found, kPlaces.of[byte], sizeof found);
    const Lanes place = __builtin_convertvector(found, Lanes) + base;
    __builtin_memcpy(places + count, &place, sizeof place);
    count += static_cast<uint32_t>(__builtin_popcount(byte));
  }
  if (count != k) return false;

  const uint64_t mask = ((uint64_t{1} << low_bits) - 1) * 0x0001000100010001u;
  const auto shift = static_cast<int>(low_bits);
  Lanes number = {0, 1, 2, 3, 4, 5, 6, 7};
  SignedLanes last = {0, 0, 0, 0, 0, 0, 0, -1};  // the eight before; indices are below 2^14
  SignedLanes wrong = {};
  for (uint32_t i = 0; i < k; i += kLanes) {
    const uint32_t low_at = shape.high_size + i * low_bits, next_at = low_at + 4 * low_bits;
    const TwoWords low = {Spread(LoadWord(padded + low_at / 8) >> low_at % 8, low_bits, mask),
                          Spread(LoadWord(padded + next_at / 8) >> next_at % 8, low_bits, mask)};
    Lanes place;
    __builtin_memcpy(&place, places + i, sizeof place);
    // The i-th index has the upper part place − i.
    const Lanes index = ((place - number) << shift) | reinterpret_cast<Lanes>(low);
    const auto now = reinterpret_cast<SignedLanes>(index);
    // Each index is above the one before it.
    const SignedLanes before = __builtin_shufflevector(last, now, 7, 8, 9, 10, 11, 12, 13, 14);
    const auto there = reinterpret_cast<SignedLanes>(number < static_cast<uint16_t>(k));
    wrong |= (now <= before) & there;
    last = now;
    number += kLanes;
    if (k - i >= kLanes) {
      __builtin_memcpy(indices + i, &index, sizeof index);
    } else {
      for (uint32_t lane = 0; i + lane < k; ++lane) indices[i + lane] = index[lane];
    }
  }
  const uint32_t tail_bits = shape.total_size % 8;
  const bool is_padded = tail_bits != 0 && in[size - 1] >> tail_bits != 0;
  const auto words = reinterpret_cast<TwoWords>(wrong);
  return (words[0] | words[1]) == 0 && indices[k - 1] < shape.n && !is_padded;
}

}  // namespace longwave

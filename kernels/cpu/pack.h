#ifndef LONGWAVE_KERNELS_CPU_PACK_H_
#define LONGWAVE_KERNELS_CPU_PACK_H_

#include "kernels/cpu/simd.h"

// Codes between bits and lanes: a tile's section of values in the format of
// common/wire/tile_codec.cc, through one byte for each code.

namespace longwave::cpu {
namespace {

// The lowest kBits of each byte of `word`, side by side.
template <uint32_t kBits>
LONGWAVE_SIMD uint64_t Squeeze(uint64_t word) {
  constexpr uint64_t kMask = 0x0101010101010101u * ((1u << kBits) - 1);
#ifdef __BMI2__
  return _pext_u64(word, kMask);
#else
  word &= kMask;
  uint64_t packed = 0;
  for (uint32_t i = 0; i < 8; ++i) packed |= (word >> (8 * i) & 0xff) << (kBits * i);
  return packed;
#endif
}

// The inverse of Squeeze.
template <uint32_t kBits>
LONGWAVE_SIMD uint64_t Spread(uint64_t packed) {
#ifdef __BMI2__
  return _pdep_u64(packed, 0x0101010101010101u * ((1u << kBits) - 1));
#else
  uint64_t word = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    word |= (packed >> (kBits * i) & ((1u << kBits) - 1)) << (8 * i);
  }
  return word;
#endif
}

template <uint32_t kBits>
inline void PackOf(uint32_t n, const uint8_t* bytes, uint8_t* to) {
  const uint32_t whole = n / 8 * 8;
  for (uint32_t i = 0; i < whole; i += 8, to += kBits) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i, 8);
    word = Squeeze<kBits>(word);
    __builtin_memcpy(to, &word, kBits);  // little-endian
  }
  if (whole < n) {
    uint64_t word = 0;
    __builtin_memcpy(&word, bytes + whole, n - whole);
    word = Squeeze<kBits>(word);
    __builtin_memcpy(to, &word, ((n - whole) * kBits + 7) / 8);
  }
}

inline void Narrow(uint32_t n, const uint32_t* __restrict codes, uint8_t* __restrict bytes) {
  for (uint32_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(codes[i]);
}

// n codes of 1, 2, 4, 8, 16 or 32 bits, in whole bytes that are all written.
inline void Pack(uint32_t bits, uint32_t n, const uint32_t* codes, uint8_t* to) {
  if (bits == 32) {
    __builtin_memcpy(to, codes, n * sizeof(uint32_t));
    return;
  }
  if (bits == 16) {
    uint32_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      uint16_t lanes[kLanes];
      StoreLow16(lanes, LoadI(codes + i));
      __builtin_memcpy(to + 2 * i, lanes, sizeof lanes);
    }
    for (; i < n; ++i) {
      const auto half = static_cast<uint16_t>(codes[i]);
      __builtin_memcpy(to + 2 * i, &half, sizeof half);
    }
    return;
  }
  if (bits == 8) return Narrow(n, codes, to);
  uint8_t bytes[kTileSizeMax];
  Narrow(n, codes, bytes);
  switch (bits) {
    case 1:
      return PackOf<1>(n, bytes, to);
    case 2:
      return PackOf<2>(n, bytes, to);
    default:
      return PackOf<4>(n, bytes, to);
  }
}

template <uint32_t kBits>
inline void SpreadOf(uint32_t n, const uint8_t* from, uint8_t* bytes) {
  const uint32_t whole = n / 8 * 8;
  for (uint32_t i = 0; i < whole; i += 8, from += kBits) {
    uint64_t word = 0;
    __builtin_memcpy(&word, from, kBits);
    word = Spread<kBits>(word);
    __builtin_memcpy(bytes + i, &word, 8);
  }
  if (whole < n) {
    uint64_t word = 0;
    __builtin_memcpy(&word, from, ((n - whole) * kBits + 7) / 8);
    word = Spread<kBits>(word);
    __builtin_memcpy(bytes + whole, &word, 8);
  }
}

// values[i] ← levels[code i], of 1 or 2 bits. `values` has room for whole vectors.
inline void ReadNarrow(uint32_t bits, const float* levels, uint32_t n, const uint8_t* from,
                       float* values) {
  uint8_t bytes[kTileSizeMax + 64];
  bits == 1 ? SpreadOf<1>(n, from, bytes) : SpreadOf<2>(n, from, bytes);
  const V l0 = Broadcast(levels[0]), l1 = Broadcast(levels[1]);
  const V l2 = Broadcast(levels[bits == 1 ? 0 : 2]), l3 = Broadcast(levels[bits == 1 ? 0 : 3]);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const V code = ToFloat(LoadBytes(bytes + i));
    const V low = WhereAbove(code, Broadcast(0.5f), l1, l0);
    const V high = WhereAbove(code, Broadcast(2.5f), l3, l2);
    Store(values + i, WhereAbove(code, Broadcast(1.5f), high, low));
  }
}

// values[i] ← (2 · code i − top) · scale, of 4 or 8 bits. `values` has room for whole vectors.
inline void ReadWide(uint32_t bits, float scale, uint32_t n, const uint8_t* from, float* values) {
  uint8_t bytes[kTileSizeMax + 64];
  if (bits == 4) {
    SpreadOf<4>(n, from, bytes);
  } else {
    __builtin_memcpy(bytes, from, n);
  }
  const VI top = BroadcastI((1u << bits) - 1);
  for (uint32_t i = 0; i < n; i += kLanes) {
    const VI code = LoadBytes(bytes + i);
    Store(values + i, Lanes::Mul(scale, ToFloat(SubI(AddI(code, code), top))));
  }
}

inline void ReadBf16(uint32_t n, const uint8_t* from, float* values) {
  uint16_t halves[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_memcpy(halves, from + 2 * i, sizeof halves);
    Store(values + i, LoadBf16(halves));
  }
  if (i < n) {
    __builtin_memcpy(halves, from + 2 * i, 2 * (n - i));
    Store(values + i, LoadBf16(halves));
  }
}

}  // namespace
}  // namespace longwave::cpu

#endif  // LONGWAVE_KERNELS_CPU_PACK_H_

#ifndef LONGWAVE_COMMON_WIRE_SCALE16_H_
#define LONGWAVE_COMMON_WIRE_SCALE16_H_

#include <bit>
#include <cstdint>

#include "common/base/rng.h"

namespace longwave {

// A tile's scale: a non-negative float of 8 exponent and 8 fraction bits, that is bits 30 … 15 of
// the IEEE-754 single. Two bytes as fp16, but with the range of fp32: a gradient times a learning
// rate underflows in fp16. The residual absorbs the larger rounding error.
// docs/reasons/0002-scale.md.

// Rounds to nearest, ties to even; saturates at the largest finite scale. Callers have rejected
// negative values, NaN and infinity.
LONGWAVE_HOST_DEVICE inline uint16_t EncodeScale16(float scale) {
#ifdef __CUDA_ARCH__
  const uint32_t bits = __float_as_uint(scale);
#else
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
#endif
  const uint32_t rounded = (bits + 0x3fffu + ((bits >> 15) & 1u)) >> 15;
  return static_cast<uint16_t>(rounded > 0xfeffu ? 0xfeffu : rounded);
}

LONGWAVE_HOST_DEVICE inline float DecodeScale16(uint16_t code) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<uint32_t>(code) << 15);
#else
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 15);
#endif
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_SCALE16_H_

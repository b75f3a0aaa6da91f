#ifndef LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_
#define LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/elias_fano_block.h"

// AVX-512 forms of the functions of elias_fano.h, with the same results to the bit. elias_fano.cc
// calls them where ChosenIsa is kAvx512, for tiles of at most kTileSizeMax coefficients.

#if defined(__x86_64__)
#define LONGWAVE_HAS_AVX512 1
#define LONGWAVE_AVX512                                                            \
  __attribute__((                                                                  \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt,lzcnt,fma")))

namespace longwave::avx512 {

// EliasFanoDecode of a block of the right length. False if invalid.
bool EliasFanoDecode(const EliasFanoShape& shape, std::span<const std::byte> in,
                     std::span<uint16_t> indices);

// Decodes k indices from each block, one after the other. high_size is at most 128, k at most 64,
// low_bits at most 7.
bool EliasFanoDecodeShort(const EliasFanoShape& shape, std::span<const std::byte* const> blocks,
                          uint16_t* indices);

// EliasFanoEncode with at most seven low bits.
void EliasFanoEncode(const EliasFanoShape& shape, std::span<const uint16_t> indices,
                     std::span<std::byte> out);

}  // namespace longwave::avx512

#else
#define LONGWAVE_HAS_AVX512 0
#endif

#endif  // LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_

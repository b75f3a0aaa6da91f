#ifndef LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_
#define LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/codec.h"

// Second forms of the functions of elias_fano.h, with the same results to the bit. Called only by
// the first ones, where ChosenIsa is kAvx512, with tiles of at most kTileSizeMax coefficients.

#if defined(__x86_64__)
#define LONGWAVE_HAS_AVX512 1
#define LONGWAVE_AVX512                                                            \
  __attribute__((                                                                  \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2," \
             "popcnt,lzcnt,fma")))

namespace longwave::avx512 {

// EliasFanoDecode of k = indices.size() indices of `low_bits` low bits, whose high bits are
// `high_size`. in: of the right length. False where anything is wrong with it.
bool EliasFanoDecode(uint32_t n, uint32_t low_bits, size_t high_size, size_t total_size,
                     std::span<const std::byte> in, std::span<uint16_t> indices);

// The same of k indices from each block, one after the other. high_size is at most 128, k at most
// 64, low_bits at most 7.
bool EliasFanoDecodeShort(uint32_t n, uint32_t k, uint32_t low_bits, size_t high_size,
                          size_t total_size, std::span<const std::byte* const> blocks,
                          uint16_t* indices);

// EliasFanoEncode with at most seven low bits.
void EliasFanoEncode(std::span<const uint16_t> indices, uint32_t low_bits, size_t high_size,
                     std::span<std::byte> out);

}  // namespace longwave::avx512

#else
#define LONGWAVE_HAS_AVX512 0
#endif

#endif  // LONGWAVE_COMMON_WIRE_ELIAS_FANO_AVX512_H_

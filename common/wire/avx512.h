#ifndef LONGWAVE_COMMON_WIRE_AVX512_H_
#define LONGWAVE_COMMON_WIRE_AVX512_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/codec.h"
#include "common/wire/isa.h"

// Second forms of loops of this folder, with the same results to the bit. Called only by the first
// ones, where UsesAvx512, with tiles of at most kTileSizeMax coefficients.

#if LONGWAVE_HAS_AVX512

namespace longwave {
struct TopKMarks;
}  // namespace longwave

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

// SelectTopKNear.
void SelectTopKNear(std::span<const float> values, std::span<uint16_t> indices, uint32_t* guess,
                    const TopKMarks* marks);

// QuantizeTile in sign and int2, with the largest magnitude given, which is not zero: codes and
// values of the scale that is returned.
uint16_t QuantizeTwoBits(ValueCodec codec, float largest, std::span<float> values,
                         std::span<uint32_t> codes);
uint32_t LargestMagnitudeBits(std::span<const float> values);

// Codes of one or two bits each into whole bytes.
void PackCodes(uint32_t bits, std::span<const uint32_t> codes, std::byte* to);

}  // namespace longwave::avx512

#endif  // LONGWAVE_HAS_AVX512

#endif  // LONGWAVE_COMMON_WIRE_AVX512_H_

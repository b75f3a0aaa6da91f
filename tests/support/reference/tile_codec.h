#ifndef LONGWAVE_TESTS_SUPPORT_REFERENCE_TILE_CODEC_H_
#define LONGWAVE_TESTS_SUPPORT_REFERENCE_TILE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/codec.h"
#include "common/wire/payload.h"

namespace longwave {

// The definition of how a tile's values become bits. Encoders give the same bits.

// Rounds to nearest, ties to even; saturates at the largest finite bf16. `value` is finite.
uint16_t EncodeBf16(float value);

// Quantizes values into codes (one uint32 each: fp32 and bf16 bit patterns, or level codes) and
// replaces the values by those that the receiver will read. Returns the scale's code (0 for fp32
// and bf16). Scale: sign: mean magnitude; int2: least squares over the levels (three Lloyd steps);
// int4, int8: the largest magnitude on the top level. Sums are in fixed point (see the .cc), so
// that their order is free. Each value then goes to the nearest level of the rounded scale; a tie
// goes to the smaller magnitude, a zero of either sign to the smallest positive level.
uint16_t QuantizeTile(ValueCodec codec, std::span<float> values, std::span<uint32_t> codes);

// Writes tile `tile` of a payload begun by BeginPayload. indices: sorted, sent_count of them
// (ignored unless the selection is topk); codes and scale as QuantizeTile gave them.
void WriteTile(const PayloadLayout& layout, uint32_t tile, std::span<const uint16_t> indices,
               std::span<const uint32_t> codes, uint16_t scale, std::span<std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_REFERENCE_TILE_CODEC_H_

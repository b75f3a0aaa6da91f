#ifndef LONGWAVE_COMMON_WIRE_TILE_CODEC_H_
#define LONGWAVE_COMMON_WIRE_TILE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"

namespace longwave {

// The values of one tile, between floats and bits. Every backend agrees with these functions to the
// bit on the same input (given the same coefficients in the same order).

// Values of an integer codec are level(code) times the tile's scale, with levels that are integers:
//   sign: -1, +1     int2: -2, -1, +1, +2    int4, int8: 2·code − (2^bits − 1), that is odd numbers
// No level is zero: a coefficient that was chosen is not zero, and the residual takes what is left.
// A tile whose scale is zero stands for zeros; its codes are zero bits (canonical).
int32_t LevelOf(ValueCodec codec, uint32_t code);

// Chooses `count` of `values` by `selection` and writes their indices in increasing order.
//   kTopK    largest magnitude, ties to the smaller index
//   kRandom, kStride   from `draw` alone (see SelectionDraw); values are not read
// indices.size() is the count; 1 … values.size(). `values` are finite.
void SelectTopK(std::span<const float> values, std::span<uint16_t> indices);
void SelectRandom(uint32_t n, uint64_t draw, std::span<uint16_t> indices);
void SelectStride(uint32_t n, uint64_t draw, std::span<uint16_t> indices);

// The word that random and stride selection draw from: the same for every worker of a round.
uint64_t SelectionDraw(uint64_t run_seed, uint32_t round, uint64_t tile);

// Quantizes values into codes (one uint32 each: fp32 and bf16 bit patterns, or level codes) and
// replaces them by what the receiver will read. Returns the scale's code (0 for fp32 and bf16).
// Scale: sign: mean magnitude; int2: least squares over the levels (a few Lloyd steps); int4, int8:
// the largest magnitude on the top level. Rounding to nearest, ties to even.
uint16_t QuantizeTile(ValueCodec codec, std::span<float> values, std::span<uint32_t> codes);

// Writes tile `tile` of a payload begun by BeginPayload. indices: sorted, sent_count of them (ignored
// unless the selection is topk); codes and scale as QuantizeTile gave them.
void WriteTile(const PayloadLayout& layout, uint32_t tile, std::span<const uint16_t> indices,
               std::span<const uint32_t> codes, uint16_t scale, std::span<std::byte> payload);

// Reads tile `tile` of a validated payload: sent_count indices and values. For random and stride
// selection the indices come from `draw`; for all they are 0 … n−1.
void ReadTile(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
              uint64_t draw, std::span<uint16_t> indices, std::span<float> values);

// As ReadTile, but the values of an integer codec stay integers: levels, with the scale beside them.
// Returns the scale; InvalidArgument never. Only for integer codecs.
float ReadTileLevels(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
                     uint64_t draw, std::span<uint16_t> indices, std::span<int32_t> levels);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_TILE_CODEC_H_

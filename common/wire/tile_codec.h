#ifndef LONGWAVE_COMMON_WIRE_TILE_CODEC_H_
#define LONGWAVE_COMMON_WIRE_TILE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/rng.h"
#include "common/wire/codec.h"
#include "common/wire/payload.h"

namespace longwave {

// Conversion of one tile's values between floats and bits. Every backend gives the same bits as
// these functions and those of tests/support/reference/tile_codec.h, which define the encoding, for
// the same coefficients in the same order.

// The two magnitudes of int2, in units of the scale. Not an array, since a host's constant array
// has no address on a GPU.
inline constexpr int32_t kInt2Small = 1;
inline constexpr int32_t kInt2Large = 2;

// Values of an integer codec are level(code) times the tile's scale. Levels are integers that
// increase with the code:
//   sign        −1, +1
//   int2        −kInt2Large, −kInt2Small, +kInt2Small, +kInt2Large
//   int4, int8  2·code − (2^bits − 1), the odd numbers
// The product is exact in fp32. No level is zero: a chosen coefficient is not zero, and the
// residual absorbs the rounding error. A tile with scale zero has zeros for values; its codes are
// zero bits (canonical).
LONGWAVE_HOST_DEVICE constexpr int32_t LevelOf(ValueCodec codec, uint32_t code) {
  const int32_t centered = 2 * static_cast<int32_t>(code) - ((1 << ValueBits(codec)) - 1);
  if (codec != ValueCodec::kInt2) return centered;
  const int32_t magnitude = centered * centered == 9 ? kInt2Large : kInt2Small;
  return centered < 0 ? -magnitude : magnitude;
}

// The largest level: 1, kInt2Large, 15 or 255.
LONGWAVE_HOST_DEVICE constexpr int32_t TopLevel(ValueCodec codec) {
  return LevelOf(codec, (1u << ValueBits(codec)) - 1);
}

// The largest code of a scale whose top level is a finite fp32. Encoders saturate there; receivers
// reject payloads above it. Only for integer codecs.
uint16_t ScaleCodeMax(ValueCodec codec);

// Chooses `count` of `values` by `selection` and writes their indices in increasing order.
//   kTopK    largest magnitude, ties to the smaller index
//   kRandom, kStride   from `draw` alone (see SelectionDraw); values are not read
// indices.size() is the count: 1 … n. `values` are finite; n <= kTileSizeMax.
void SelectTopK(std::span<const float> values, std::span<uint16_t> indices);
void SelectRandom(uint32_t n, uint64_t draw, std::span<uint16_t> indices);
void SelectStride(uint32_t n, uint64_t draw, std::span<uint16_t> indices);
// SelectTopK, SelectRandom or SelectStride by `selection`; kAll gives every index, with
// indices.size() == n.
void SelectIndices(Selection selection, std::span<const float> values, uint64_t draw,
                   std::span<uint16_t> indices);

// The word from which random and stride selection draw: the same for every worker of a round.
// `tile` is the tile's index in the layout.
uint64_t SelectionDraw(uint64_t run_seed, uint32_t round, uint64_t tile);
// The part of it before the tile: SelectionDraw(…, tile) is Mix64(SelectionKey(…) + tile).
uint64_t SelectionKey(uint64_t run_seed, uint32_t round);

// Writes what tile `tile` of a payload begun by BeginPayload has beside its values: the scale, and
// the indices if the selection is topk: sorted, sent_count of them.
void WriteTileHead(const PayloadLayout& layout, uint32_t tile, std::span<const uint16_t> indices,
                   uint16_t scale, std::span<std::byte> payload);

// Reads tile `tile` of a validated payload: sent_count indices and values. Random and stride
// selection draw the indices from `draw`; kAll gives 0 … n−1.
void ReadTile(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
              uint64_t draw, std::span<uint16_t> indices, std::span<float> values);

// The indices alone, as ReadTile gives them.
void ReadTileIndices(const PayloadLayout& layout, uint32_t tile, std::span<const std::byte> payload,
                     uint64_t draw, std::span<uint16_t> indices);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_TILE_CODEC_H_

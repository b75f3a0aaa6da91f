#ifndef LONGWAVE_COMMON_WIRE_PAYLOAD_H_
#define LONGWAVE_COMMON_WIRE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/codec.h"

namespace longwave {

// A payload is one segment's coefficients: a 16-byte head, then three sections, each starting on a
// multiple of 8 bytes (the gaps are zero):
//
//   head      u8 payload version (1), u8 selection, u8 codec, u8 zero, u16 k (0 for all), u16 zero,
//             u32 tile count, u32 zero
//   scales    u16 a tile (integer codecs only; see scale16.h)
//   indices   Elias-Fano, one block of whole bytes a tile (selection topk only; see elias_fano.h)
//   values    ValueBits bits a coefficient, least significant first, whole bytes a tile
//
// Little-endian throughout. A payload is canonical: the same coefficients have one encoding.
inline constexpr size_t kPayloadHeadBytes = 16;

// Coefficients that a tile of n elements sends under `format`.
uint32_t SentCount(const PayloadFormat& format, uint32_t tile_size);

// The positions of a tile's parts, in bytes from the payload's start.
struct TileOffsets {
  size_t scale = 0;
  size_t indices = 0;
  size_t values = 0;
};

// The byte layout of one segment's payload. Tiles of one size give fixed strides, as a GPU needs;
// tiles of many sizes (tiling: tensor) need a table.
class PayloadLayout {
 public:
  // tile_sizes: elements of each tile, in order; 1 … kTileSizeMax each. Errors: InvalidArgument (no
  // tiles, a size or a k out of range, more than kPayloadBytesMax bytes).
  static absl::StatusOr<PayloadLayout> Create(const PayloadFormat& format,
                                              std::span<const uint32_t> tile_sizes);

  const PayloadFormat& format() const { return format_; }
  size_t bytes() const { return bytes_; }  // head included
  uint32_t tile_count() const { return static_cast<uint32_t>(tile_sizes_.size()); }
  uint32_t tile_size(uint32_t tile) const { return tile_sizes_[tile]; }
  uint32_t sent_count(uint32_t tile) const { return SentCount(format_, tile_sizes_[tile]); }
  const TileOffsets& offsets(uint32_t tile) const { return offsets_[tile]; }

 private:
  PayloadLayout() = default;

  PayloadFormat format_;
  std::vector<uint32_t> tile_sizes_;
  std::vector<TileOffsets> offsets_;
  size_t bytes_ = 0;
};

// Reads the format from a payload's head. Errors: InvalidArgument (shorter than a head, unknown
// version, selection or codec, nonzero reserved bytes, k out of range).
absl::StatusOr<PayloadFormat> DecodePayloadHead(std::span<const std::byte> payload);

// Writes the head and zeroes the rest of `payload`, which must have layout.bytes() bytes.
void BeginPayload(const PayloadLayout& layout, std::span<std::byte> payload);

// Checks a received payload against the layout that its segment and its head's format give: head
// and tile count, length, zero gaps and padding, sorted in-range indices, finite values (with each
// scale's top level), zero codes beside a zero scale. Errors: InvalidArgument, with the tile and
// the defect. After OK, reading any tile is safe.
absl::Status ValidatePayload(const PayloadLayout& layout, std::span<const std::byte> payload);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_PAYLOAD_H_

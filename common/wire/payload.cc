#include "common/wire/payload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/wire/byte_stream.h"
#include "common/wire/bytes.h"
#include "common/wire/elias_fano.h"
#include "common/wire/frame.h"
#include "common/wire/tile_codec.h"

namespace longwave {
namespace {

constexpr uint8_t kPayloadVersion = 1;

enum Offset : size_t {
  kVersionAt = 0,
  kSelectionAt = 1,
  kCodecAt = 2,
  kReservedAAt = 3,
  kCountAt = 4,
  kReservedBAt = 6,
  kTileCountAt = 8,
  kReservedCAt = 12,
};

absl::Status CheckFormat(const PayloadFormat& format) {
  if (static_cast<uint8_t>(format.selection) > static_cast<uint8_t>(Selection::kStride)) {
    return InvalidArgument("payload: selection: got ", static_cast<int>(format.selection),
                           ", wanted 0 to 3");
  }
  if (static_cast<uint8_t>(format.codec) > static_cast<uint8_t>(ValueCodec::kSign)) {
    return InvalidArgument("payload: codec: got ", static_cast<int>(format.codec),
                           ", wanted 0 to 5");
  }
  if (format.selection != Selection::kAll && (format.k < 1 || format.k > kTileSizeMax)) {
    return InvalidArgument("payload: k: got ", format.k, ", wanted 1 to ", kTileSizeMax);
  }
  return absl::OkStatus();
}

absl::Status CheckZeros(std::span<const std::byte> bytes, const char* what) {
  if (std::ranges::all_of(bytes, ByteReader::IsZero)) return absl::OkStatus();
  return InvalidArgument("payload: ", what, ": got bytes that are set, wanted zeros");
}

absl::Status CheckValues(const PayloadLayout& layout, uint32_t tile,
                         std::span<const std::byte> payload) {
  const ValueCodec codec = layout.format().codec;
  const uint32_t count = layout.sent_count(tile);
  const size_t bits = size_t{count} * ValueBits(codec);
  const auto values = payload.subspan(layout.offsets(tile).values, (bits + 7) / 8);
  if (!HasScale(codec)) {
    const uint32_t width = ValueBits(codec) / 8;
    for (uint32_t i = 0; i < count; ++i) {
      const std::byte* const at = values.data() + size_t{i} * width;
      // A bf16 is the upper half of its float.
      const uint32_t pattern =
          width == 4 ? LoadLe<uint32_t>(at) : uint32_t{LoadLe<uint16_t>(at)} << 16;
      if (!std::isfinite(std::bit_cast<float>(pattern))) {
        return InvalidArgument("value ", i, ": got ", std::bit_cast<float>(pattern),
                               ", wanted a finite number");
      }
    }
    return absl::OkStatus();
  }
  const auto scale = LoadLe<uint16_t>(payload.data() + layout.offsets(tile).scale);
  if (scale > ScaleCodeMax(codec)) {
    return InvalidArgument(
        absl::StrFormat("scale: got %04x, wanted at most %04x (its top level must be finite)",
                        scale, ScaleCodeMax(codec)));
  }
  if (bits % 8 != 0 && (std::to_integer<uint32_t>(values.back()) >> (bits % 8)) != 0) {
    return InvalidArgument("values: got padding bits that are set, wanted zeros");
  }
  if (scale == 0 && !CheckZeros(values, "").ok()) {
    return InvalidArgument("values: got codes beside a zero scale, wanted zeros");
  }
  return absl::OkStatus();
}

// Checks the indices of many tiles at once, which is faster than one by one. Returns the end of the
// valid tiles from `tile` on, or `tile` if there is no gain or any is invalid.
uint32_t CheckIndices(const PayloadLayout& layout, uint32_t tile,
                      std::span<const std::byte> payload) {
  constexpr uint32_t kTilesMax = 16, kCountMax = 64;
  const uint32_t n = layout.tile_size(tile);
  const uint32_t k = layout.sent_count(tile);
  if (layout.format().selection != Selection::kTopK || k > kCountMax) return tile;
  std::array<const std::byte*, kTilesMax> blocks;
  std::array<uint16_t, kTilesMax * kCountMax> indices;
  uint32_t count = 0;
  for (; count < kTilesMax && tile + count < layout.tile_count(); ++count) {
    if (layout.tile_size(tile + count) != n) break;
    blocks[count] = payload.data() + layout.offsets(tile + count).indices;
  }
  const auto found = std::span(blocks).first(count);
  return EliasFanoDecodeAll(n, k, found, indices.data()) ? tile + count : tile;
}

absl::Status CheckTile(const PayloadLayout& layout, uint32_t tile, bool has_right_indices,
                       std::span<const std::byte> payload) {
  if (layout.format().selection == Selection::kTopK && !has_right_indices) {
    std::array<uint16_t, kTileSizeMax> indices;
    const uint32_t n = layout.tile_size(tile);
    const uint32_t k = layout.sent_count(tile);
    LONGWAVE_RETURN_IF_ERROR(
        EliasFanoDecode(n, payload.subspan(layout.offsets(tile).indices, EliasFanoBytes(n, k)),
                        std::span(indices).first(k)));
  }
  return CheckValues(layout, tile, payload);
}

}  // namespace

uint32_t SentCount(const PayloadFormat& format, uint32_t tile_size) {
  return format.selection == Selection::kAll ? tile_size : std::min<uint32_t>(format.k, tile_size);
}

absl::StatusOr<PayloadLayout> PayloadLayout::Create(const PayloadFormat& format,
                                                    std::span<const uint32_t> tile_sizes) {
  LONGWAVE_RETURN_IF_ERROR(CheckFormat(format));
  if (tile_sizes.empty()) return InvalidArgument("payload: got no tiles, wanted at least one");
  PayloadLayout layout;
  layout.format_ = format;
  if (format.selection == Selection::kAll) layout.format_.k = 0;
  layout.tile_sizes_.assign(tile_sizes.begin(), tile_sizes.end());
  layout.offsets_.resize(tile_sizes.size());

  size_t at = kPayloadHeadBytes;
  if (HasScale(format.codec)) {
    for (TileOffsets& offsets : layout.offsets_) {
      offsets.scale = at;
      at += sizeof(uint16_t);
    }
  }
  at = AlignedUp(at);
  for (size_t i = 0; i < tile_sizes.size(); ++i) {
    const uint32_t n = tile_sizes[i];
    if (n < 1 || n > kTileSizeMax) {
      return InvalidArgument("payload: tile ", i, ": got ", n, " coefficients, wanted 1 to ",
                             kTileSizeMax);
    }
    if (format.selection == Selection::kTopK) {
      layout.offsets_[i].indices = at;
      at += EliasFanoBytes(n, SentCount(format, n));
    }
  }
  at = AlignedUp(at);
  for (size_t i = 0; i < tile_sizes.size(); ++i) {
    layout.offsets_[i].values = at;
    at += (size_t{SentCount(format, tile_sizes[i])} * ValueBits(format.codec) + 7) / 8;
  }
  layout.bytes_ = at;
  if (at > kPayloadBytesMax) {
    return InvalidArgument("payload: got ", at, " bytes for ", tile_sizes.size(),
                           " tiles, wanted at most ", kPayloadBytesMax, ": fewer tiles a segment");
  }
  return layout;
}

absl::StatusOr<PayloadFormat> DecodePayloadHead(std::span<const std::byte> payload) {
  if (payload.size() < kPayloadHeadBytes) {
    return InvalidArgument("payload: got ", payload.size(), " bytes, wanted a head of ",
                           kPayloadHeadBytes);
  }
  const std::byte* const from = payload.data();
  if (const auto version = LoadLe<uint8_t>(from + kVersionAt); version != kPayloadVersion) {
    return InvalidArgument("payload: version: got ", version, ", wanted ", kPayloadVersion);
  }
  PayloadFormat format;
  format.selection = static_cast<Selection>(LoadLe<uint8_t>(from + kSelectionAt));
  format.codec = static_cast<ValueCodec>(LoadLe<uint8_t>(from + kCodecAt));
  format.k = LoadLe<uint16_t>(from + kCountAt);
  LONGWAVE_RETURN_IF_ERROR(CheckFormat(format));
  if (format.selection == Selection::kAll && format.k != 0) {
    return InvalidArgument("payload: k: got ", format.k, ", wanted 0 where all are sent");
  }
  LONGWAVE_RETURN_IF_ERROR(CheckZeros(payload.subspan(kReservedAAt, 1), "reserved byte 3"));
  LONGWAVE_RETURN_IF_ERROR(CheckZeros(payload.subspan(kReservedBAt, 2), "reserved bytes 6 to 7"));
  LONGWAVE_RETURN_IF_ERROR(CheckZeros(payload.subspan(kReservedCAt, 4), "reserved bytes 12 to 15"));
  return format;
}

void BeginPayload(const PayloadLayout& layout, std::span<std::byte> payload) {
  LONGWAVE_CHECK(payload.size() == layout.bytes());
  std::fill(payload.begin(), payload.end(), std::byte{0});
  std::byte* const to = payload.data();
  StoreLe<uint8_t>(kPayloadVersion, to + kVersionAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(layout.format().selection), to + kSelectionAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(layout.format().codec), to + kCodecAt);
  StoreLe<uint16_t>(layout.format().k, to + kCountAt);
  StoreLe<uint32_t>(layout.tile_count(), to + kTileCountAt);
}

absl::Status ValidatePayload(const PayloadLayout& layout, std::span<const std::byte> payload) {
  LONGWAVE_ASSIGN_OR_RETURN(const PayloadFormat format, DecodePayloadHead(payload));
  const PayloadFormat& wanted = layout.format();
  if (format != wanted) {
    return InvalidArgument("payload: got ", Describe(format), ", wanted ", Describe(wanted));
  }
  if (const auto tiles = LoadLe<uint32_t>(payload.data() + kTileCountAt);
      tiles != layout.tile_count()) {
    return InvalidArgument("payload: got ", tiles, " tiles, wanted ", layout.tile_count());
  }
  if (payload.size() != layout.bytes()) {
    return InvalidArgument("payload: got ", payload.size(), " bytes, wanted ", layout.bytes());
  }

  // The gaps before the sections of indices and values must be zero.
  size_t scales_end = kPayloadHeadBytes;
  if (HasScale(format.codec)) scales_end += sizeof(uint16_t) * layout.tile_count();
  const uint32_t last = layout.tile_count() - 1;
  size_t blocks_end = AlignedUp(scales_end);
  if (format.selection == Selection::kTopK) {
    blocks_end = layout.offsets(last).indices +
                 EliasFanoBytes(layout.tile_size(last), layout.sent_count(last));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckZeros(
      payload.subspan(scales_end, AlignedUp(scales_end) - scales_end), "gap after the scales"));
  LONGWAVE_RETURN_IF_ERROR(CheckZeros(
      payload.subspan(blocks_end, AlignedUp(blocks_end) - blocks_end), "gap after the indices"));

  uint32_t indices_end = 0;  // end of the tiles with checked indices
  for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) {
    if (tile >= indices_end) indices_end = CheckIndices(layout, tile, payload);
    if (const absl::Status status = CheckTile(layout, tile, tile < indices_end, payload);
        !status.ok()) {
      return InvalidArgument("payload: tile ", tile, ": ", status.message());
    }
  }
  return absl::OkStatus();
}

}  // namespace longwave

#ifndef LONGWAVE_TESTS_UNIT_SHARD_SHARD_TESTING_H_
#define LONGWAVE_TESTS_UNIT_SHARD_SHARD_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave {

inline constexpr uint64_t kRun = 0xabcd;
inline constexpr uint32_t kTileSize = 8;

// A vector cut into `segments` segments of `tiles` tiles of `tile_size` coefficients, at most 64.
inline Layout SmallLayout(uint32_t tile_size, uint32_t tiles = 1, uint32_t segments = 1,
                          uint32_t shards = 1) {
  const Manifest manifest{{{"v", {int64_t{tile_size} * tiles * segments}}}};
  LayoutOptions options;
  options.tiling = Tiling::kTensor;
  options.block = tile_size;
  options.segment_tiles = tiles;
  options.shard_count = shards;
  auto layout = Layout::Create(manifest, options);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// Four segments of one tile; shard 1 of two owns segments 2 and 3.
inline Layout FourSegments() { return SmallLayout(kTileSize, 1, 4, 2); }

inline Membership Members(uint32_t epoch, std::vector<uint32_t> workers, uint32_t first_round = 0) {
  Membership membership{epoch, {}};
  for (const uint32_t worker : workers) {
    membership.members.push_back({worker, "w" + std::to_string(worker), first_round});
  }
  return membership;
}

inline std::vector<std::byte> BytesOf(const Buffer& buffer) {
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

// Full tiles of 4096, one segment.
inline Layout LargeLayout(uint32_t tiles) {
  auto layout = Layout::Create({{{"w", {64, int64_t{64} * tiles}}}}, {});
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

inline PayloadLayout PayloadLayoutOf(const PayloadFormat& format, const Layout& layout,
                                     uint32_t segment = 0) {
  auto form = PayloadLayout::Create(format, layout.TileSizes(segment));
  EXPECT_TRUE(form.ok()) << form.status();
  return *std::move(form);
}

// Encodes dense coefficients as a worker would. seed and round matter to random and stride.
inline std::vector<std::byte> EncodeDense(const PayloadFormat& format, const Layout& layout,
                                          uint32_t segment, std::span<const float> dense,
                                          uint64_t seed = 0, uint32_t round = 0) {
  const PayloadLayout form = PayloadLayoutOf(format, layout, segment);
  std::vector<std::byte> payload(form.bytes());
  BeginPayload(form, payload);
  size_t begin = 0;
  for (uint32_t tile = 0; tile < form.tile_count(); ++tile) {
    const uint32_t n = form.tile_size(tile);
    const auto values = dense.subspan(begin, n);
    const uint64_t draw =
        SelectionDraw(seed, round, uint64_t{layout.segments()[segment].tile_begin} + tile);
    std::vector<uint16_t> indices(form.sent_count(tile));
    SelectIndices(format.selection, values, draw, indices);
    std::vector<float> sent;
    for (const uint16_t i : indices) sent.push_back(values[i]);
    std::vector<uint32_t> codes(sent.size());
    const uint16_t scale = QuantizeTile(format.codec, sent, codes);
    WriteTile(form, tile, indices, codes, scale, payload);
    begin += n;
  }
  return payload;
}

// Validates a payload and gives its coefficients; those not sent are 0.
inline std::vector<float> DecodeDense(std::span<const std::byte> payload, const Layout& layout,
                                      uint32_t segment, uint64_t seed = 0, uint32_t round = 0) {
  const auto format = DecodePayloadHead(payload);
  EXPECT_TRUE(format.ok()) << format.status();
  const PayloadLayout form = PayloadLayoutOf(*format, layout, segment);
  EXPECT_TRUE(ValidatePayload(form, payload).ok()) << ValidatePayload(form, payload);
  std::vector<float> dense(layout.segments()[segment].coefficient_count, 0.0f);
  size_t begin = 0;
  for (uint32_t tile = 0; tile < form.tile_count(); ++tile) {
    std::vector<uint16_t> indices(form.sent_count(tile));
    std::vector<float> values(form.sent_count(tile));
    ReadTile(form, tile, payload,
             SelectionDraw(seed, round, uint64_t{layout.segments()[segment].tile_begin} + tile),
             indices, values);
    for (size_t i = 0; i < indices.size(); ++i) dense[begin + indices[i]] = values[i];
    begin += form.tile_size(tile);
  }
  return dense;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_SHARD_SHARD_TESTING_H_

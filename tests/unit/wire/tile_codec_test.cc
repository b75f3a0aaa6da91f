#include "common/wire/tile_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <tuple>
#include <vector>

#include "common/wire/payload.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/support/tile_levels.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

// Selection × codec × k: decoding gives the encoded values, tile for tile, for tiles of any size.
class TileRoundTrip : public testing::TestWithParam<std::tuple<Selection, ValueCodec, uint16_t>> {};

INSTANTIATE_TEST_SUITE_P(EveryFormat, TileRoundTrip,
                         testing::Combine(testing::Values(Selection::kAll, Selection::kTopK,
                                                          Selection::kRandom, Selection::kStride),
                                          testing::Values(ValueCodec::kFp32, ValueCodec::kBf16,
                                                          ValueCodec::kInt8, ValueCodec::kInt4,
                                                          ValueCodec::kInt2, ValueCodec::kSign),
                                          testing::Values(1, 3, 64, 255, 4096)),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_" +
                                  std::string(Name(std::get<1>(info.param))) + "_" +
                                  std::to_string(std::get<2>(info.param));
                         });

TEST_P(TileRoundTrip, GivesBackIndicesAndValues) {
  const auto [selection, codec, k] = GetParam();
  for (const std::vector<uint32_t>& sizes :
       {std::vector<uint32_t>{4096, 4096}, {1}, {1, 2, 3, 63, 64, 65, 4096, 100}, {7, 7, 7}}) {
    const PayloadLayout layout = LayoutOf(selection, codec, k, sizes);
    for (float scale : {1e-41f, 1e-3f, 1e30f}) {
      const uint64_t seed = 100 + k;
      const BuiltPayload built = BuildRandomPayload(layout, scale, seed);
      ASSERT_TRUE(ValidatePayload(layout, built.bytes).ok())
          << ValidatePayload(layout, built.bytes);
      for (uint32_t tile = 0; tile < layout.tile_count(); ++tile) {
        std::vector<uint16_t> indices(layout.sent_count(tile));
        std::vector<float> values(layout.sent_count(tile));
        ReadTile(layout, tile, built.bytes, seed + tile, indices, values);
        ASSERT_EQ(indices, built.indices[tile]);
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(values[i]),
                    std::bit_cast<uint32_t>(built.values[tile][i]));
        }
        if (!HasScale(codec)) continue;
        std::vector<int32_t> levels(layout.sent_count(tile));
        const float tile_scale =
            ReadTileLevels(layout, tile, built.bytes, seed + tile, indices, levels);
        ASSERT_EQ(indices, built.indices[tile]);
        for (size_t i = 0; i < levels.size(); ++i) {
          ASSERT_EQ(static_cast<float>(levels[i]) * tile_scale, values[i]);
          ASSERT_EQ(levels[i] == 0, tile_scale == 0);
        }
      }
    }
  }
}

TEST(ReadTile, ReadsPositiveZerosFromAZeroScale) {
  for (ValueCodec codec : {ValueCodec::kInt8, ValueCodec::kSign}) {
    const PayloadLayout layout = LayoutOf(Selection::kTopK, codec, 3, {10});
    std::vector<std::byte> bytes(layout.bytes());
    BeginPayload(layout, bytes);
    WriteTile(layout, 0, std::vector<uint16_t>{1, 5, 9}, std::vector<uint32_t>(3), 0, bytes);
    ASSERT_TRUE(ValidatePayload(layout, bytes).ok());
    std::vector<uint16_t> indices(3);
    std::vector<float> values(3, 1.0f);
    ReadTile(layout, 0, bytes, 0, indices, values);
    for (float value : values) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0u);
    std::vector<int32_t> levels(3, 1);
    EXPECT_EQ(ReadTileLevels(layout, 0, bytes, 0, indices, levels), 0.0f);
    EXPECT_EQ(levels, (std::vector<int32_t>{0, 0, 0}));
  }
}

TEST(WriteTile, PacksTheFirstValueIntoTheLowestBits) {
  const auto values_of = [](ValueCodec codec, std::vector<uint32_t> codes) {
    const PayloadLayout layout =
        LayoutOf(Selection::kAll, codec, 0, {static_cast<uint32_t>(codes.size())});
    std::vector<std::byte> bytes(layout.bytes());
    BeginPayload(layout, bytes);
    WriteTile(layout, 0, {}, codes, 0x7f00, bytes);
    return std::vector<std::byte>(
        bytes.begin() + static_cast<std::ptrdiff_t>(layout.offsets(0).values), bytes.end());
  };
  EXPECT_EQ(values_of(ValueCodec::kSign, {1, 0, 0, 1, 1, 0, 0, 0, 1}), Bytes({0x19, 0x01}));
  EXPECT_EQ(values_of(ValueCodec::kInt2, {3, 0, 1, 2, 2}), Bytes({0x93, 0x02}));
  EXPECT_EQ(values_of(ValueCodec::kInt4, {15, 1, 7}), Bytes({0x1f, 0x07}));
  EXPECT_EQ(values_of(ValueCodec::kInt8, {200, 3}), Bytes({200, 3}));
  EXPECT_EQ(values_of(ValueCodec::kBf16, {0x3f80}), Bytes({0x80, 0x3f}));
  EXPECT_EQ(values_of(ValueCodec::kFp32, {0x3f800001}), Bytes({0x01, 0x00, 0x80, 0x3f}));
}

}  // namespace
}  // namespace longwave

// Holds the worked examples of proto/WIRE.md against the code, byte for byte.

#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "common/wire/crc32c.h"
#include "common/wire/elias_fano.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "common/wire/scale16.h"
#include "common/wire/snapshot_payload.h"
#include "common/wire/tile_codec.h"
#include "tests/support/example_bytes.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

std::string Example(const std::string& name) { return ExampleBytes(LONGWAVE_WIRE_MD, name); }

TEST(WireMd, ShowsTheIndicesThatTheEncoderWrites) {
  std::vector<std::byte> bytes(EliasFanoBytes(64, 4));
  EliasFanoEncode(64, std::vector<uint16_t>{3, 17, 18, 60}, bytes);
  EXPECT_EQ(Example("indices"), Hex(bytes));
}

TEST(WireMd, ShowsTheFrameThatTheEncoderWrites) {
  const PayloadLayout layout = LayoutOf(Selection::kTopK, ValueCodec::kInt4, 3, {16, 16});
  std::vector<std::byte> payload(layout.bytes());
  BeginPayload(layout, payload);
  const uint16_t scale = EncodeScale16(0.5f);
  WriteTile(layout, 0, std::vector<uint16_t>{1, 6, 12}, std::vector<uint32_t>{8, 6, 9}, scale,
            payload);
  WriteTile(layout, 1, std::vector<uint16_t>{0, 1, 2}, std::vector<uint32_t>{0, 0, 0}, 0, payload);
  ASSERT_TRUE(ValidatePayload(layout, payload).ok());

  std::vector<uint16_t> indices(3);
  std::vector<float> values(3);
  ReadTile(layout, 0, payload, 0, indices, values);
  EXPECT_EQ(values, (std::vector<float>{0.5f, -1.5f, 1.5f}));

  PushFrame header;
  header.run = 0x0123456789abcdef;
  header.epoch = 1;
  header.round = 17;
  header.worker = 3;
  header.segment = 2;
  header.weight = 61440;
  header.norm = std::sqrt(4.75f);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(payload);
  std::array<std::byte, kFrameHeaderBytes> head;
  EncodeFrameHeader(header, head);
  EXPECT_EQ(Example("header"), Hex(head));
  EXPECT_EQ(Example("payload"), Hex(payload));
}

TEST(WireMd, ShowsASnapshotThatTheDecoderReads) {
  std::vector<std::byte> shown;
  std::istringstream words(Example("snapshot"));
  for (std::string word; words >> word;) {
    shown.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  const auto arrays = DecodeSnapshotPayload(shown, 2, 1);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ(*arrays, (std::vector<std::vector<float>>{{1.0f}, {-0.5f}}));
  // The zstd frame after the head depends on the encoder.
  const std::vector<std::span<const float>> again(arrays->begin(), arrays->end());
  const Buffer encoded = EncodeSnapshotPayload(again);
  EXPECT_EQ(Hex(std::span<const std::byte>(shown).first(kSnapshotPayloadHeadBytes)),
            Hex(encoded.bytes().first(kSnapshotPayloadHeadBytes)));
}

void ExpectShown(const std::string& shown) {
  std::ifstream file(LONGWAVE_WIRE_MD);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(shown), std::string::npos) << shown;
}

TEST(WireMd, ShowsTheSelectionsThatTheCodeDraws) {
  const uint64_t draw = SelectionDraw(1, 2, 3);
  std::vector<uint16_t> random(4), stride(4);
  SelectRandom(4096, draw, random);
  SelectStride(4096, draw, stride);
  ExpectShown(absl::StrFormat("draw(1, 2, 3) = 0x%016x", draw));
  ExpectShown(
      absl::StrFormat("random: %d, %d, %d, %d", random[0], random[1], random[2], random[3]));
  ExpectShown(
      absl::StrFormat("stride: %d, %d, %d, %d", stride[0], stride[1], stride[2], stride[3]));
}

TEST(WireMd, ShowsLevelsAndScalesAsTheyAre) {
  ExpectShown(absl::StrFormat("| int2 | 2 | −%d, −%d, +%d, +%d times scale",
                              -LevelOf(ValueCodec::kInt2, 0), -LevelOf(ValueCodec::kInt2, 1),
                              LevelOf(ValueCodec::kInt2, 2), LevelOf(ValueCodec::kInt2, 3)));
  for (ValueCodec codec :
       {ValueCodec::kInt8, ValueCodec::kInt4, ValueCodec::kInt2, ValueCodec::kSign}) {
    ExpectShown(absl::StrFormat("`0x%04x` (%s)", ScaleCodeMax(codec), std::string(Name(codec))));
  }
}

}  // namespace
}  // namespace longwave

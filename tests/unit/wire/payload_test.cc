#include "common/wire/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/wire/bytes.h"
#include "common/wire/frame.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;

double BytesPerParameter(ValueCodec codec, uint16_t k) {
  const PayloadLayout layout =
      LayoutOf(Selection::kTopK, codec, k, std::vector<uint32_t>(256, 4096));
  return static_cast<double>(layout.bytes()) / (256 * 4096);
}

TEST(PayloadSize, IsAsDesigned) {
  EXPECT_NEAR(BytesPerParameter(ValueCodec::kSign, 64), 0.0181, 5e-5);
  EXPECT_NEAR(BytesPerParameter(ValueCodec::kInt2, 64), 0.0200, 5e-5);
  EXPECT_NEAR(BytesPerParameter(ValueCodec::kInt2, 256), 0.063, 5e-4);
  EXPECT_NEAR(BytesPerParameter(ValueCodec::kInt2, 128), 0.036, 5e-4);
  // To the byte: a head, and 74 or 82 bytes a tile.
  EXPECT_EQ(
      LayoutOf(Selection::kTopK, ValueCodec::kSign, 64, std::vector<uint32_t>(256, 4096)).bytes(),
      16u + 256 * (2 + 64 + 8));
  EXPECT_EQ(
      LayoutOf(Selection::kTopK, ValueCodec::kInt2, 64, std::vector<uint32_t>(256, 4096)).bytes(),
      16u + 256 * (2 + 64 + 16));
}

TEST(PayloadLayout, StartsEachSectionOnAMultipleOfEight) {
  const PayloadLayout layout = LayoutOf(Selection::kTopK, ValueCodec::kInt4, 3, {16, 25, 9});
  EXPECT_EQ(layout.offsets(0).scale, 16u);
  EXPECT_EQ(layout.offsets(2).scale, 20u);
  EXPECT_EQ(layout.offsets(0).indices, 24u);
  // (16, 3): l = 2, 7 + 6 bits; (25, 3): l = 3, 7 + 9; (9, 3): l = 1, 8 + 3. Two bytes each.
  EXPECT_EQ(layout.offsets(1).indices, 26u);
  EXPECT_EQ(layout.offsets(2).indices, 28u);
  EXPECT_EQ(layout.offsets(0).values, 32u);
  EXPECT_EQ(layout.offsets(1).values, 34u);
  EXPECT_EQ(layout.bytes(), 38u);
}

TEST(PayloadLayout, SendsAllOfATileThatIsNoLargerThanK) {
  const PayloadLayout layout = LayoutOf(Selection::kTopK, ValueCodec::kFp32, 64, {4096, 64, 10, 1});
  EXPECT_EQ(layout.sent_count(0), 64u);
  EXPECT_EQ(layout.sent_count(1), 64u);
  EXPECT_EQ(layout.sent_count(2), 10u);
  EXPECT_EQ(layout.sent_count(3), 1u);
}

TEST(PayloadLayout, RejectsWhatItCannotLayOut) {
  const auto create = [](PayloadFormat format, std::vector<uint32_t> sizes) {
    return std::string(PayloadLayout::Create(format, sizes).status().message());
  };
  const PayloadFormat format = {.selection = Selection::kTopK, .codec = ValueCodec::kSign, .k = 4};
  EXPECT_THAT(create(format, {}), HasSubstr("no tiles"));
  EXPECT_THAT(create(format, {16, 0}), HasSubstr("tile 1: got 0"));
  EXPECT_THAT(create(format, {4097}), HasSubstr("tile 0: got 4097"));
  EXPECT_THAT(create({.selection = Selection::kTopK, .k = 0}, {16}), HasSubstr("k: got 0"));
  EXPECT_THAT(create({.selection = Selection::kRandom, .k = 4097}, {16}), HasSubstr("k: got 4097"));
  EXPECT_THAT(create({.selection = static_cast<Selection>(4)}, {16}),
              HasSubstr("selection: got 4"));
  EXPECT_THAT(create({.codec = static_cast<ValueCodec>(6)}, {16}), HasSubstr("codec: got 6"));
}

TEST(PayloadLayout, RejectsMoreThanAFrameCarries) {
  EXPECT_THAT(
      std::string(PayloadLayout::Create({}, std::vector<uint32_t>(4096, 4096)).status().message()),
      HasSubstr("got 67108880 bytes"));
  EXPECT_TRUE(PayloadLayout::Create({}, std::vector<uint32_t>(4095, 4096)).ok());
}

TEST(PayloadFormat, IgnoresKWhereAllAreSent) {
  const PayloadFormat a = {.selection = Selection::kAll, .k = 3};
  EXPECT_EQ(a, (PayloadFormat{.selection = Selection::kAll, .k = 4}));
  EXPECT_FALSE((PayloadFormat{.selection = Selection::kTopK, .k = 3}) ==
               (PayloadFormat{.selection = Selection::kTopK, .k = 4}));
  const PayloadLayout layout = LayoutOf(Selection::kAll, ValueCodec::kFp32, 3, {4});
  EXPECT_EQ(layout.format().k, 0);
  std::vector<std::byte> bytes(layout.bytes());
  BeginPayload(layout, bytes);
  EXPECT_EQ(*DecodePayloadHead(bytes), a);
}

// A valid payload with every kind of gap and padding, and changes of it.
class PayloadErrors : public testing::Test {
 protected:
  // Scales at 16, 18; zeros to 24; indices of (10, 3) at 24 and 26, 11 bits each; zeros to 32;
  // values of 12 bits at 32 and 34.
  PayloadErrors()
      : layout_(LayoutOf(Selection::kTopK, ValueCodec::kInt4, 3, {10, 10})),
        bytes_(BuildRandomPayload(layout_, 1.0f, 4).bytes) {}

  std::string Refusal() const {
    const absl::Status status = ValidatePayload(layout_, bytes_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  PayloadLayout layout_;
  std::vector<std::byte> bytes_;
};

TEST_F(PayloadErrors, AreAbsentFromWhatTheEncoderWrote) {
  ASSERT_EQ(layout_.bytes(), 36u);
  EXPECT_TRUE(ValidatePayload(layout_, bytes_).ok()) << ValidatePayload(layout_, bytes_);
  EXPECT_EQ(*DecodePayloadHead(bytes_), layout_.format());
}

TEST_F(PayloadErrors, NameEveryLengthThatIsNotTheLayouts) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const auto part = std::span(bytes_).first(size);
    EXPECT_FALSE(ValidatePayload(layout_, part).ok()) << size;
    EXPECT_EQ(DecodePayloadHead(part).ok(), size >= kPayloadHeadBytes) << size;
  }
  bytes_.push_back(std::byte{0});
  EXPECT_THAT(Refusal(), HasSubstr("got 37 bytes, wanted 36"));
}

TEST_F(PayloadErrors, NameTheByteThatIsWrong) {
  struct Case {
    size_t at;
    int byte;
    const char* sentence;
  };
  std::vector<Case> cases = {{0, 2, "version: got 2, wanted 1"},
                             {1, 4, "selection: got 4"},
                             {1, 0, "wanted 0 where all are sent"},
                             {2, 6, "codec: got 6"},
                             {2, 4, "got topk 3 in int2, wanted topk 3 in int4"},
                             {4, 0, "k: got 0"},
                             {4, 2, "got topk 2 in int4, wanted topk 3 in int4"},
                             {5, 16, "k: got 4099"},
                             {8, 3, "got 3 tiles, wanted 2"},
                             {26, 0, "tile 1: indices"}};
  for (const size_t at : {3, 6, 7, 12, 13, 14, 15}) cases.push_back({at, 1, "reserved byte"});
  for (size_t at = 20; at < 24; ++at) cases.push_back({at, 0x80, "gap after the scales"});
  for (size_t at = 28; at < 32; ++at) cases.push_back({at, 0x80, "gap after the indices"});
  const auto with = [&](size_t at, int bits) { return std::to_integer<int>(bytes_[at]) | bits; };
  cases.push_back({25, with(25, 0x80), "tile 0: indices: got padding"});
  cases.push_back({35, with(35, 0x10), "tile 1: values: got padding"});
  for (const Case& each : cases) {
    const std::byte good = std::exchange(bytes_[each.at], std::byte(each.byte));
    EXPECT_THAT(Refusal(), HasSubstr(each.sentence)) << each.at;
    bytes_[each.at] = good;
  }
}

TEST_F(PayloadErrors, NameAScaleWhoseTopLevelOverflows) {
  StoreLe<uint16_t>(ScaleCodeMax(ValueCodec::kInt4), bytes_.data() + 18);
  EXPECT_TRUE(ValidatePayload(layout_, bytes_).ok());
  for (uint32_t code : {ScaleCodeMax(ValueCodec::kInt4) + 1u, 0xff00u, 0xff80u, 0xffffu}) {
    StoreLe<uint16_t>(static_cast<uint16_t>(code), bytes_.data() + 18);
    EXPECT_THAT(Refusal(), HasSubstr("tile 1: scale"));
  }
}

TEST_F(PayloadErrors, NameCodesBesideAZeroScale) {
  StoreLe<uint16_t>(0, bytes_.data() + 16);
  StoreLe<uint16_t>(0x0001, bytes_.data() + 32);
  EXPECT_THAT(Refusal(), HasSubstr("tile 0: values: got codes beside a zero scale"));
  StoreLe<uint16_t>(0, bytes_.data() + 32);
  EXPECT_TRUE(ValidatePayload(layout_, bytes_).ok());
}

TEST(ValidatePayload, RejectsFloatsThatAreNotFinite) {
  const PayloadLayout layout = LayoutOf(Selection::kAll, ValueCodec::kFp32, 0, {2, 3});
  std::vector<std::byte> bytes = BuildRandomPayload(layout, 1.0f, 5).bytes;
  for (uint32_t pattern : {0x7f800000u, 0xff800000u, 0x7fc00001u}) {
    StoreLe(pattern, bytes.data() + 16 + 4 * 3);
    EXPECT_THAT(std::string(ValidatePayload(layout, bytes).message()),
                HasSubstr("tile 1: value 1"));
  }
}

TEST(ValidatePayload, RejectsBf16sThatAreNotFinite) {
  const PayloadLayout layout = LayoutOf(Selection::kStride, ValueCodec::kBf16, 2, {7, 7});
  std::vector<std::byte> bytes = BuildRandomPayload(layout, 1.0f, 6).bytes;
  for (uint16_t pattern : {0x7f80, 0xff80, 0x7fc0}) {
    StoreLe(pattern, bytes.data() + 16 + 2);
    EXPECT_THAT(std::string(ValidatePayload(layout, bytes).message()),
                HasSubstr("tile 0: value 1"));
  }
}

}  // namespace
}  // namespace longwave

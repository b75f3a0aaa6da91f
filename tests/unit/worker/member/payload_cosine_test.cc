#include "worker/member/payload_cosine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "common/wire/payload.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave {
namespace {

constexpr uint32_t kTiles = 3;

Layout MakeLayout() {
  auto layout = Layout::Create({{{"w", {64, 64 * kTiles}}}}, {.tiling = Tiling::kFlat});
  EXPECT_TRUE(layout.ok());
  return *std::move(layout);
}

// A payload in which coefficient i of each tile is value(i), under the format.
template <typename Value>
std::vector<std::byte> Encode(const Layout& layout, const PayloadFormat& format, Value value) {
  const auto form = PayloadLayout::Create(format, layout.TileSizes(0));
  EXPECT_TRUE(form.ok());
  std::vector<std::byte> payload(form->bytes());
  BeginPayload(*form, payload);
  for (uint32_t t = 0; t < form->tile_count(); ++t) {
    std::vector<float> values(form->tile_size(t));
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = value(i);
    std::vector<uint16_t> indices(form->sent_count(t));
    SelectIndices(format.selection, values, SelectionDraw(1, 2, t), indices);
    std::vector<float> sent;
    for (const uint16_t i : indices) sent.push_back(values[i]);
    std::vector<uint32_t> codes(sent.size());
    const uint16_t scale = QuantizeTile(format.codec, sent, codes);
    WriteTile(*form, t, indices, codes, scale, payload);
  }
  return payload;
}

constexpr PayloadFormat kDense{Selection::kAll, ValueCodec::kFp32, 0};

float Wave(uint32_t i) { return std::sin(0.1f * static_cast<float>(i) + 0.3f); }

TEST(ComparePayloads, AreParallelToThemselvesWhateverTheScale) {
  const Layout layout = MakeLayout();
  const auto a = Encode(layout, kDense, Wave);
  const auto b = Encode(layout, kDense, [](uint32_t i) { return 3 * Wave(i); });
  const auto c = Encode(layout, kDense, [](uint32_t i) { return -2 * Wave(i); });
  const auto same = ComparePayloads(layout, 0, 1, 2, a, b);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_NEAR(same->cosine(), 1, 1e-6);
  EXPECT_NEAR(same->b_square_sum, 9 * same->a_square_sum, 1e-3);
  EXPECT_NEAR(ComparePayloads(layout, 0, 1, 2, a, c)->cosine(), -1, 1e-6);
}

TEST(ComparePayloads, WhatOneDoesNotSendIsZero) {
  const Layout layout = MakeLayout();
  // The second payload sends five of ten nonzero coefficients, so the cosine is the root of a half.
  const auto all = Encode(layout, kDense, [](uint32_t i) { return i < 10 ? 1.0f : 0.0f; });
  const auto some = Encode(layout, {Selection::kTopK, ValueCodec::kFp32, 5},
                           [](uint32_t i) { return i < 5 ? 1.0f : 0.0f; });
  const auto pair = ComparePayloads(layout, 0, 1, 2, all, some);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_NEAR(pair->cosine(), std::sqrt(0.5), 1e-6);
  EXPECT_EQ(pair->a_square_sum, 10 * kTiles);
  EXPECT_EQ(pair->b_square_sum, 5 * kTiles);
}

TEST(ComparePayloads, PlacesThatTheRoundDrawsAreThoseOfBoth) {
  const Layout layout = MakeLayout();
  const PayloadFormat random{Selection::kRandom, ValueCodec::kFp32, 100};
  const auto a = Encode(layout, random, Wave);
  const auto pair = ComparePayloads(layout, 0, 1, 2, a, Encode(layout, kDense, Wave));
  ASSERT_TRUE(pair.ok());
  EXPECT_NEAR(pair->product, pair->a_square_sum, 1e-3);
}

TEST(ComparePayloads, NothingHasNoDirection) {
  const Layout layout = MakeLayout();
  const auto nothing = Encode(layout, kDense, [](uint32_t) { return 0.0f; });
  EXPECT_EQ(ComparePayloads(layout, 0, 1, 2, nothing, Encode(layout, kDense, Wave))->cosine(), 0);
}

TEST(ComparePayloads, WhatIsNoPayloadIsRefused) {
  const Layout layout = MakeLayout();
  const auto good = Encode(layout, kDense, Wave);
  std::vector<std::byte> bad(good.begin(), good.end() - 1);
  EXPECT_FALSE(ComparePayloads(layout, 0, 1, 2, good, bad).ok());
  EXPECT_FALSE(ComparePayloads(layout, 0, 1, 2, {}, good).ok());
}

}  // namespace
}  // namespace longwave

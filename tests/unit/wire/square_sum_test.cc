#include "common/wire/square_sum.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/rng.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"

namespace longwave {
namespace {

TEST(PayloadSquareSum, IsThatOfTheValuesReadInEveryCodecAndSize) {
  Rng rng(3);
  for (int c = 0; c < 6; ++c) {
    for (const uint32_t n : {1u, 7u, 31u, 33u, 64u, 4096u}) {
      for (const Selection selection : {Selection::kAll, Selection::kTopK, Selection::kStride}) {
        const PayloadFormat format{selection, static_cast<ValueCodec>(c), 33};
        const std::vector<uint32_t> sizes = {n, n};
        const auto layout = PayloadLayout::Create(format, sizes);
        ASSERT_TRUE(layout.ok());
        std::vector<std::byte> payload(layout->bytes());
        BeginPayload(*layout, payload);
        double wanted = 0;
        for (uint32_t tile = 0; tile < 2; ++tile) {
          std::vector<float> dense(n);
          for (float& v : dense) v = tile == 0 ? static_cast<float>(rng.Uniform() - 0.5) : 0;
          std::vector<uint16_t> indices(layout->sent_count(tile));
          SelectIndices(selection, dense, 1, indices);
          std::vector<float> sent;
          for (const uint16_t i : indices) sent.push_back(dense[i]);
          std::vector<uint32_t> codes(sent.size());
          const uint16_t scale = QuantizeTile(format.codec, sent, codes);
          WriteTile(*layout, tile, indices, codes, scale, payload);
          for (const float v : sent) wanted += double{v} * double{v};
        }
        ASSERT_TRUE(ValidatePayload(*layout, payload).ok());
        EXPECT_NEAR(PayloadSquareSum(*layout, payload), wanted, 1e-12 * wanted)
            << Describe(format) << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace longwave

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/scale16.h"
#include "common/wire/tile_codec.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

constexpr ValueCodec kIntegerCodecs[] = {ValueCodec::kInt8, ValueCodec::kInt4, ValueCodec::kInt2,
                                         ValueCodec::kSign};

struct Quantized {
  uint16_t scale;
  std::vector<float> values;
  std::vector<uint32_t> codes;
};

Quantized Quantize(ValueCodec codec, std::vector<float> values) {
  Quantized result;
  result.codes.resize(values.size());
  result.scale = QuantizeTile(codec, values, result.codes);
  result.values = std::move(values);
  return result;
}

double SquareError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

TEST(Levels, GoUpWithTheCodeAndAreSymmetric) {
  for (ValueCodec codec : kIntegerCodecs) {
    const uint32_t count = 1u << ValueBits(codec);
    for (uint32_t code = 0; code < count; ++code) {
      EXPECT_NE(LevelOf(codec, code), 0);
      EXPECT_EQ(LevelOf(codec, code), -LevelOf(codec, count - 1 - code));
      if (code == 0) continue;
      EXPECT_GT(LevelOf(codec, code), LevelOf(codec, code - 1));
    }
    EXPECT_EQ(TopLevel(codec), LevelOf(codec, count - 1));
  }
  EXPECT_EQ(LevelOf(ValueCodec::kSign, 0), -1);
  EXPECT_EQ(LevelOf(ValueCodec::kInt2, 0), -kInt2Large);
  EXPECT_EQ(LevelOf(ValueCodec::kInt2, 2), kInt2Small);
  EXPECT_EQ(LevelOf(ValueCodec::kInt4, 0), -15);
  EXPECT_EQ(LevelOf(ValueCodec::kInt4, 8), 1);
  EXPECT_EQ(LevelOf(ValueCodec::kInt8, 255), 255);
}

TEST(Quantize, SendsEachValueToTheNearestLevel) {
  Rng rng(8);
  for (ValueCodec codec : kIntegerCodecs) {
    for (float size : {1e-36f, 1e-20f, 1.0f, 1e30f}) {
      const std::vector<float> values = RandomValues(333, size, rng);
      const Quantized q = Quantize(codec, values);
      const double scale = DecodeScale16(q.scale);
      ASSERT_GT(scale, 0);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(q.values[i], static_cast<float>(LevelOf(codec, q.codes[i]) * scale));
        for (uint32_t code = 0; code < (1u << ValueBits(codec)); ++code) {
          ASSERT_LE(std::fabs(double{values[i]} - q.values[i]),
                    std::fabs(double{values[i]} - LevelOf(codec, code) * scale))
              << Name(codec) << " " << values[i];
        }
      }
    }
  }
}

TEST(Quantize, GivesATieToTheSmallerMagnitude) {
  // The scale is 1: the top level, 15, holds the largest magnitude.
  const Quantized q = Quantize(ValueCodec::kInt4, {15, 2, -2, 4, -14, 3});
  ASSERT_EQ(DecodeScale16(q.scale), 1.0f);
  EXPECT_EQ(q.values, (std::vector<float>{15, 1, -1, 3, -13, 3}));
}

TEST(Quantize, TakesAZeroOfEitherSignAsTheSmallestPositiveLevel) {
  for (ValueCodec codec : kIntegerCodecs) {
    const Quantized q = Quantize(codec, {0.0f, -0.0f, 7.0f});
    EXPECT_EQ(q.codes[0], 1u << (ValueBits(codec) - 1));
    EXPECT_EQ(q.codes[1], q.codes[0]);
    EXPECT_GT(q.values[1], 0.0f);
  }
}

TEST(Quantize, StandsForZerosWithAZeroScaleAndZeroCodes) {
  for (ValueCodec codec : kIntegerCodecs) {
    for (float tiny : {0.0f, -0.0f, FLT_TRUE_MIN}) {
      const Quantized q = Quantize(codec, {tiny, -tiny, tiny});
      EXPECT_EQ(q.scale, 0);
      EXPECT_EQ(q.codes, (std::vector<uint32_t>{0, 0, 0}));
      for (float value : q.values) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0u);
    }
  }
}

TEST(Quantize, TakesTheMeanMagnitudeForSigns) {
  const Quantized q = Quantize(ValueCodec::kSign, {1, -2, 3, -6});
  EXPECT_EQ(DecodeScale16(q.scale), 3.0f);
  EXPECT_EQ(q.codes, (std::vector<uint32_t>{1, 0, 1, 0}));
  EXPECT_EQ(q.values, (std::vector<float>{3, -3, 3, -3}));
}

TEST(Quantize, RepresentsTheLevelsOfInt2Exactly) {
  const float m0 = static_cast<float>(kInt2Small);
  const float m1 = static_cast<float>(kInt2Large);
  std::vector<float> values = {m0, -m0, m1, -m1, m0, m1, m0, -m0};
  for (float& value : values) value *= 0.375f;
  const Quantized q = Quantize(ValueCodec::kInt2, values);
  EXPECT_EQ(q.values, values);
  EXPECT_EQ(q.codes, (std::vector<uint32_t>{2, 1, 3, 0, 2, 3, 2, 1}));
}

TEST(Quantize, FitsInt2NearlyAsWellAsTheBestScaleOfAll) {
  Rng rng(9);
  for (int trial = 0; trial < 20; ++trial) {
    const std::vector<float> values = RandomValues(256, 1.0f, rng);
    const double error = SquareError(values, Quantize(ValueCodec::kInt2, values).values);
    double best = error;
    for (double scale = 0.01; scale < 1; scale *= 1.01) {
      double sum = 0;
      for (float value : values) {
        double nearest = INFINITY;
        for (uint32_t code = 0; code < 4; ++code) {
          nearest =
              std::min(nearest, std::pow(value - LevelOf(ValueCodec::kInt2, code) * scale, 2));
        }
        sum += nearest;
      }
      best = std::min(best, sum);
    }
    EXPECT_LT(error, 1.1 * best);
  }
}

TEST(Quantize, DoesNotDependOnTheOrderOfTheValues) {
  Rng rng(10);
  std::mt19937 shuffle(1);
  for (ValueCodec codec : kIntegerCodecs) {
    std::vector<float> values = RandomValues(4096, 1.0f, rng);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] *= std::ldexp(1.0f, -static_cast<int>(i % 40));
    const uint16_t scale = Quantize(codec, values).scale;
    for (int trial = 0; trial < 5; ++trial) {
      std::shuffle(values.begin(), values.end(), shuffle);
      EXPECT_EQ(Quantize(codec, values).scale, scale);
    }
  }
}

TEST(Quantize, StaysFiniteAtTheLargestFloat) {
  for (ValueCodec codec : kIntegerCodecs) {
    const Quantized q = Quantize(codec, std::vector<float>(100, -FLT_MAX));
    EXPECT_LE(q.scale, ScaleCodeMax(codec));
    for (float value : q.values) {
      EXPECT_TRUE(std::isfinite(value));
      EXPECT_LT(value, -0.9f * FLT_MAX);
    }
  }
}

TEST(ScaleCodeMax, IsTheLastWithAFiniteTopLevel) {
  for (ValueCodec codec : kIntegerCodecs) {
    const float top = static_cast<float>(TopLevel(codec));
    EXPECT_TRUE(std::isfinite(top * DecodeScale16(ScaleCodeMax(codec))));
    EXPECT_FALSE(
        std::isfinite(top * DecodeScale16(static_cast<uint16_t>(ScaleCodeMax(codec) + 1))));
  }
  EXPECT_EQ(ScaleCodeMax(ValueCodec::kSign), 0xfeff);
}

TEST(Scale16, RoundTripsEveryCode) {
  for (uint32_t code = 0; code < 0xff00; ++code) {
    const float scale = DecodeScale16(static_cast<uint16_t>(code));
    ASSERT_TRUE(std::isfinite(scale));
    ASSERT_EQ(EncodeScale16(scale), code);
    // Half way to the next code: the even one of the two.
    const float half = std::bit_cast<float>((code << 15) + 0x4000);
    ASSERT_EQ(EncodeScale16(half), std::min(code + (code & 1), 0xfeffu));
  }
  EXPECT_EQ(EncodeScale16(FLT_MAX), 0xfeff);
  EXPECT_FALSE(std::isfinite(DecodeScale16(0xff00)));
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(EncodeBf16(1.0f), 0x3f80);
  EXPECT_EQ(EncodeBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(EncodeBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(EncodeBf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(EncodeBf16(std::bit_cast<float>(0xbf818000u)), 0xbf82);
  EXPECT_EQ(EncodeBf16(-0.0f), 0x8000);
  EXPECT_EQ(EncodeBf16(FLT_MAX), 0x7f7f);
  EXPECT_EQ(EncodeBf16(-FLT_MAX), 0xff7f);
  EXPECT_EQ(EncodeBf16(FLT_TRUE_MIN), 0x0000);
}

TEST(Quantize, KeepsFloatsAndRoundsBf16s) {
  const std::vector<float> values = {1.0f, -0.1f, FLT_TRUE_MIN, -0.0f};
  const Quantized fp32 = Quantize(ValueCodec::kFp32, values);
  EXPECT_EQ(fp32.scale, 0);
  EXPECT_EQ(fp32.values, values);
  EXPECT_EQ(fp32.codes[1], 0xbdcccccdu);
  const Quantized bf16 = Quantize(ValueCodec::kBf16, values);
  EXPECT_EQ(bf16.codes, (std::vector<uint32_t>{0x3f80, 0xbdcd, 0x0000, 0x8000}));
  EXPECT_EQ(bf16.values[1], std::bit_cast<float>(0xbdcd0000u));
}

}  // namespace
}  // namespace longwave

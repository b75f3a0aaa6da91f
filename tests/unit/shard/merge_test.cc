#include "server/shard/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "common/base/rng.h"
#include "common/wire/frame.h"
#include "common/wire/scale16.h"
#include "tests/support/reference/tile_codec.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {
namespace {

constexpr PayloadFormat kAllFp32{Selection::kAll, ValueCodec::kFp32, 0};

// A worker's push, which owns the memory behind a Contribution.
struct Sent {
  uint64_t weight;
  PayloadLayout layout;
  std::vector<std::byte> payload;
};

Sent Send(const Layout& layout, const PayloadFormat& format, uint64_t weight,
          const std::vector<float>& dense, uint64_t seed = 0, uint32_t round = 0) {
  return {weight, PayloadLayoutOf(format, layout),
          EncodeDense(format, layout, 0, dense, seed, round)};
}

MergedSegment Merge(const MergeOptions& options, const Layout& layout, const std::vector<Sent>& all,
                    std::vector<float>& residual, uint32_t round = 0) {
  EXPECT_TRUE(Validate(options).ok()) << Validate(options);
  if (KeepsResidual(options)) residual.resize(layout.coefficient_count());
  std::vector<Contribution> contributions;
  for (const Sent& sent : all) contributions.push_back({sent.weight, &sent.layout, sent.payload});
  return Merger(options).Merge(layout, 0, round, contributions, residual);
}

// G itself: everything goes down in fp32.
std::vector<float> MergeExactly(const Layout& layout, const PayloadFormat& up, double rho,
                                const std::vector<Sent>& all, uint64_t seed = 0,
                                uint32_t round = 0) {
  std::vector<float> none;
  const MergedSegment merged = Merge({seed, up, rho, kAllFp32}, layout, all, none, round);
  return DecodeDense(merged.payload, layout, 0, seed, round);
}

std::vector<float> RandomDense(size_t size, Rng& rng, double scale = 1) {
  std::vector<float> dense(size);
  for (float& v : dense) v = static_cast<float>((rng.Uniform() - 0.5) * scale);
  return dense;
}

class MergeEveryCodec : public testing::TestWithParam<ValueCodec> {};
INSTANTIATE_TEST_SUITE_P(Codecs, MergeEveryCodec,
                         testing::Values(ValueCodec::kFp32, ValueCodec::kBf16, ValueCodec::kInt8,
                                         ValueCodec::kInt4, ValueCodec::kInt2, ValueCodec::kSign),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(MergeEveryCodec, GivesTheWeightedMeanThatOneComputesByHand) {
  constexpr uint32_t kSize = 8;
  const ValueCodec codec = GetParam();
  const Layout layout = SmallLayout(kSize);
  const PayloadFormat up{Selection::kAll, codec, 0};
  // Codes, not values, are given, so that this does not depend on how a scale is fitted.
  const auto send = [&](uint64_t weight, float scale, bool reversed, std::vector<float>* values) {
    Sent sent{weight, PayloadLayoutOf(up, layout), {}};
    sent.payload.resize(sent.layout.bytes());
    BeginPayload(sent.layout, sent.payload);
    std::vector<uint16_t> indices(kSize);
    std::iota(indices.begin(), indices.end(), uint16_t{0});
    std::vector<uint32_t> codes;
    for (uint32_t i = 0; i < kSize; ++i) {
      const uint32_t at = reversed ? kSize - 1 - i : i;
      if (HasScale(codec)) {
        codes.push_back((at * 37) % (1u << ValueBits(codec)));
        values->push_back(static_cast<float>(LevelOf(codec, codes.back())) * scale);
      } else {
        values->push_back((static_cast<float>(at) - 3) * scale);
        const auto bits = std::bit_cast<uint32_t>(values->back());
        codes.push_back(codec == ValueCodec::kFp32 ? bits : bits >> 16);
      }
    }
    WriteTile(sent.layout, 0, indices, codes, HasScale(codec) ? EncodeScale16(scale) : 0,
              sent.payload);
    return sent;
  };
  std::vector<float> a, b;
  std::vector<Sent> all;
  all.push_back(send(1, 0.5f, false, &a));
  all.push_back(send(3, 2.0f, true, &b));
  const std::vector<float> merged = MergeExactly(layout, up, 1, all);
  for (uint32_t i = 0; i < kSize; ++i) {
    EXPECT_EQ(merged[i], (a[i] + 3 * b[i]) / 4) << i;  // exact: small integers over powers of two
  }
}

TEST_P(MergeEveryCodec, OfEqualContributionsIsTheContributionUpToThreeHundred) {
  const Layout layout = SmallLayout(64);
  const PayloadFormat up{Selection::kTopK, GetParam(), 9};
  Rng rng(5);
  const std::vector<float> dense = RandomDense(64, rng);
  const Sent one = Send(layout, up, 7, dense);
  const std::vector<float> wanted = DecodeDense(one.payload, layout, 0);
  for (const size_t count : {1, 2, 3, 5, 17, 64, 127, 300}) {
    EXPECT_EQ(MergeExactly(layout, up, 0, std::vector<Sent>(count, one)), wanted) << count;
  }
}

TEST_P(MergeEveryCodec, LosesNothingThroughTheResidual) {
  const Layout layout = LargeLayout(2);
  const ValueCodec codec = GetParam();
  for (const Selection selection : {Selection::kTopK, Selection::kAll}) {
    const PayloadFormat up{Selection::kTopK, ValueCodec::kInt4, 64};
    const MergeOptions options{0, up, 0.25, {selection, codec, 100}};
    Rng rng(23);
    std::vector<float> residual;
    std::vector<double> merged_sum(layout.coefficient_count());
    std::vector<double> sent_sum(layout.coefficient_count());
    for (uint32_t round = 0; round < 12; ++round) {
      std::vector<Sent> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(Send(layout, up, 1 + rng.Below(9), RandomDense(merged_sum.size(), rng)));
      }
      const std::vector<float> g = MergeExactly(layout, up, 0.25, all);
      const std::vector<float> sent =
          DecodeDense(Merge(options, layout, all, residual, round).payload, layout, 0);
      for (size_t i = 0; i < g.size(); ++i) {
        merged_sum[i] += g[i];
        sent_sum[i] += sent[i];
      }
    }
    for (size_t i = 0; i < merged_sum.size(); ++i) {
      const double kept = residual.empty() ? 0 : residual[i];
      ASSERT_NEAR(merged_sum[i], sent_sum[i] + kept, 1e-5) << i;
    }
  }
}

TEST(Merge, DividesByTheSendersOrByRhoOfAllWhicheverIsMore) {
  const Layout layout = SmallLayout(8);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kFp32, 2};
  const std::vector<Sent> all = {Send(layout, up, 6, {4, 2, 0, 0, 0, 0, 0, 0}),
                                 Send(layout, up, 1, {0, 6, 5, 0, 0, 0, 0, 0})};
  const auto expect = [&](double rho, double first, double second, double third) {
    const std::vector<float> g = MergeExactly(layout, up, rho, all);
    EXPECT_EQ(g, (std::vector<float>{static_cast<float>(first), static_cast<float>(second),
                                     static_cast<float>(third), 0, 0, 0, 0, 0}))
        << "rho " << rho;
  };
  expect(0, 24.0 / 6, 18.0 / 7, 5.0 / 1);
  expect(0.25, 24.0 / 6, 18.0 / 7, 5.0 / 1.75);
  expect(1, 24.0 / 7, 18.0 / 7, 5.0 / 7);
}

TEST(Merge, SumsThreeHundredWeightedIntegersExactly) {
  const Layout layout = SmallLayout(4);
  std::vector<Sent> all;
  int64_t sum[4] = {};
  int64_t weights = 0;
  for (int64_t i = 0; i < 300; ++i) {
    std::vector<float> dense;
    for (int64_t c = 0; c < 4; ++c) {
      const int64_t value = (i * 7919 + c * 104729) % 2001 - 1000;
      dense.push_back(static_cast<float>(value));
      sum[c] += (i + 1) * value;
    }
    weights += i + 1;
    all.push_back(Send(layout, kAllFp32, static_cast<uint64_t>(i + 1), dense));
  }
  const std::vector<float> g = MergeExactly(layout, kAllFp32, 1, all);
  for (int c = 0; c < 4; ++c) {
    EXPECT_EQ(g[c], static_cast<float>(static_cast<double>(sum[c]) / static_cast<double>(weights)));
  }
}

TEST(Merge, CancelsExactlyWhateverTheScales) {
  const Layout layout = SmallLayout(2);
  // In floats, ((1e30 + 1) − 1e30) would be 0 or 1 depending on the order. The merge loses values
  // below 2^-61 of the largest value of the tile in every order.
  std::vector<Sent> all = {Send(layout, kAllFp32, 1, {1e30f, 3}),
                           Send(layout, kAllFp32, 1, {1e-30f, 4}),
                           Send(layout, kAllFp32, 1, {-1e30f, -7})};
  std::sort(all.begin(), all.end(),
            [](const Sent& a, const Sent& b) { return a.payload < b.payload; });
  do {
    const std::vector<float> g = MergeExactly(layout, kAllFp32, 1, all);
    EXPECT_EQ(g[0], 0);
    EXPECT_EQ(g[1], 0);
  } while (std::next_permutation(
      all.begin(), all.end(), [](const Sent& a, const Sent& b) { return a.payload < b.payload; }));
}

TEST(Merge, KeepsTinyTilesBesideHugeOnes) {
  const Layout layout = SmallLayout(4, 2);
  for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kSign}) {
    const PayloadFormat up{Selection::kAll, codec, 0};
    const Sent sent = Send(layout, up, kWeightMax,
                           {1e30f, -1e30f, 1e30f, 1e30f, 1e-30f, 1e-30f, -1e-30f, 1e-30f});
    EXPECT_EQ(MergeExactly(layout, up, 1, {sent, sent}), DecodeDense(sent.payload, layout, 0));
  }
}

TEST(Merge, SaturatesInsteadOfOverflowing) {
  const Layout layout = SmallLayout(2);
  const float huge = std::numeric_limits<float>::max();
  const std::vector<Sent> all(3, Send(layout, kAllFp32, kWeightMax, {huge, -huge}));
  EXPECT_EQ(MergeExactly(layout, kAllFp32, 1, all), (std::vector<float>{kMergedMax, -kMergedMax}));
  const MergeOptions options{0, kAllFp32, 1, {Selection::kTopK, ValueCodec::kSign, 2}};
  std::vector<float> residual;
  for (int round = 0; round < 3; ++round) {
    const MergedSegment merged = Merge(options, layout, all, residual);
    EXPECT_TRUE(std::isfinite(merged.square_sum));
    for (const float e : residual) EXPECT_TRUE(std::isfinite(e));
  }
}

TEST(Merge, CountsASenderOfZeroAsASender) {
  const Layout layout = SmallLayout(2);
  const PayloadFormat sign{Selection::kAll, ValueCodec::kSign, 0};
  const std::vector<Sent> all = {Send(layout, sign, 1, {8, 8}), Send(layout, sign, 3, {0, 0})};
  EXPECT_EQ(MergeExactly(layout, sign, 0, all), (std::vector<float>{2, 2}));
}

TEST(Merge, NeverSendsNegativeZero) {
  const Layout layout = SmallLayout(2);
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<Sent> all = {Send(layout, kAllFp32, 1, {-tiny, -0.0f}),
                                 Send(layout, kAllFp32, 1, {0, -0.0f})};
  for (const float g : MergeExactly(layout, kAllFp32, 1, all)) {
    EXPECT_EQ(std::bit_cast<uint32_t>(g), 0u);
  }
}

TEST(MergeDown, TopkSendsTheLargestOfWhatIsHeldBackAndNew) {
  const Layout layout = SmallLayout(4);
  const MergeOptions options{0, kAllFp32, 1, {Selection::kTopK, ValueCodec::kFp32, 1}};
  std::vector<float> e;
  const auto step = [&](const std::vector<float>& dense) {
    const MergedSegment merged = Merge(options, layout, {Send(layout, kAllFp32, 1, dense)}, e);
    return DecodeDense(merged.payload, layout, 0);
  };
  EXPECT_EQ(step({5, 4, -3, 0}), (std::vector<float>{5, 0, 0, 0}));
  EXPECT_EQ(e, (std::vector<float>{0, 4, -3, 0}));
  EXPECT_EQ(step({1, 0, -3, 0}), (std::vector<float>{0, 0, -6, 0}));
  EXPECT_EQ(e, (std::vector<float>{1, 4, 0, 0}));
}

PayloadFormat FormatOf(const MergedSegment& merged) { return *DecodePayloadHead(merged.payload); }

TEST(MergeDown, AllOfTopkChoosesTheSmallestKThatHoldsEveryTilesUnion) {
  const Layout layout = LargeLayout(2);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kFp32, 3};
  std::vector<float> a(8192), b(8192);
  a[0] = a[5] = a[4095] = 1;
  b[0] = b[6] = b[9] = 2;           // tile 0: a union of five
  a[4096] = a[4100] = a[4200] = 3;  // tile 1: three, in both
  b[4096] = b[4100] = b[4200] = 5;
  std::vector<float> none;
  const MergedSegment merged =
      Merge({0, up, 1, kAllFp32}, layout, {Send(layout, up, 1, a), Send(layout, up, 1, b)}, none);
  EXPECT_EQ(FormatOf(merged), (PayloadFormat{Selection::kTopK, ValueCodec::kFp32, 5}));
  std::vector<float> wanted(8192);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = (a[i] + b[i]) / 2;
  EXPECT_EQ(DecodeDense(merged.payload, layout, 0), wanted);
}

TEST(MergeDown, AllOfTopkBecomesDenseWhenThatIsSmallerAndTheCodecHasAZero) {
  const Layout layout = SmallLayout(8);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kFp32, 8};
  const std::vector<Sent> all = {Send(layout, up, 1, {1, 2, 3, 4, 5, 6, 7, 8})};
  for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kBf16}) {
    std::vector<float> residual;
    const MergedSegment merged =
        Merge({0, up, 1, {Selection::kAll, codec, 0}}, layout, all, residual);
    EXPECT_EQ(FormatOf(merged).selection, Selection::kAll);
    EXPECT_EQ(DecodeDense(merged.payload, layout, 0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  }
  std::vector<float> residual;
  const MergedSegment merged =
      Merge({0, up, 1, {Selection::kAll, ValueCodec::kSign, 0}}, layout, all, residual);
  EXPECT_EQ(FormatOf(merged), (PayloadFormat{Selection::kTopK, ValueCodec::kSign, 8}));
}

TEST(MergeDown, AllOfNothingButZerosIsOneZeroATile) {
  const Layout layout = LargeLayout(1);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kSign, 4};
  for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kInt2}) {
    std::vector<float> residual;
    const MergedSegment merged = Merge({0, up, 1, {Selection::kAll, codec, 0}}, layout,
                                       {Send(layout, up, 1, std::vector<float>(4096))}, residual);
    EXPECT_EQ(FormatOf(merged), (PayloadFormat{Selection::kTopK, codec, 1}));
    EXPECT_EQ(DecodeDense(merged.payload, layout, 0), std::vector<float>(4096));
  }
}

TEST(MergeDown, AllOfRandomAndStrideGoesDownOnTheRoundsOwnSupport) {
  const Layout layout = LargeLayout(2);
  Rng rng(7);
  for (const Selection selection : {Selection::kRandom, Selection::kStride}) {
    const PayloadFormat up{selection, ValueCodec::kFp32, 32};
    const uint64_t seed = 99;
    const uint32_t round = 6;
    const std::vector<float> a = RandomDense(8192, rng);
    const std::vector<float> b = RandomDense(8192, rng);
    const std::vector<Sent> all = {Send(layout, up, 1, a, seed, round),
                                   Send(layout, up, 1, b, seed, round)};
    std::vector<float> none;
    const MergedSegment merged = Merge({seed, up, 0, kAllFp32}, layout, all, none, round);
    EXPECT_EQ(FormatOf(merged), up);
    EXPECT_EQ(merged.payload.size(), all[0].payload.size());
    const std::vector<float> sent_a = DecodeDense(all[0].payload, layout, 0, seed, round);
    const std::vector<float> sent_b = DecodeDense(all[1].payload, layout, 0, seed, round);
    const std::vector<float> g = DecodeDense(merged.payload, layout, 0, seed, round);
    EXPECT_EQ(std::count_if(g.begin(), g.end(), [](float v) { return v != 0; }), 64);
    for (size_t i = 0; i < g.size(); ++i) {
      ASSERT_EQ(g[i], static_cast<float>((double{sent_a[i]} + double{sent_b[i]}) / 2)) << i;
    }
  }
}

TEST(MergeOptions, OutOfRangeAreRefused) {
  const auto message = [](const MergeOptions& options) {
    return std::string(Validate(options).message());
  };
  const PayloadFormat top{Selection::kTopK, ValueCodec::kSign, 64};
  EXPECT_EQ(message({0, top, 1.5, top}), "rho is 1.5, wanted 0 to 1");
  EXPECT_EQ(message({0, top, std::nan(""), top}), "rho is nan, wanted 0 to 1");
  EXPECT_EQ(message({0, top, 0, {Selection::kRandom, ValueCodec::kSign, 4}}),
            "down.selection is random, wanted all (which follows up.selection) or topk");
  EXPECT_EQ(message({0, {Selection::kStride, ValueCodec::kSign, 0}, 0, top}),
            "up.k is 0, wanted 1 to 4096");
  EXPECT_EQ(message({0, top, 0, {Selection::kTopK, ValueCodec::kSign, 4097}}),
            "down.k is 4097, wanted 1 to 4096");
}

}  // namespace
}  // namespace longwave

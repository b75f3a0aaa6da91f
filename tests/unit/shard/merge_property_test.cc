#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "common/base/isa.h"
#include "common/base/rng.h"
#include "common/wire/frame.h"
#include "server/shard/merge.h"
#include "server/shard/tile_threads.h"
#include "tests/unit/shard/reference_merge.h"
#include "tests/unit/shard/shard_testing.h"

// The merge against its plain reference: the bytes and the residual are equal for any order, number
// of threads, instruction set, and mix of payloads.

namespace longwave {
namespace {

constexpr uint64_t kSeed = 3;

struct SentSum {
  uint64_t weight;
  PayloadLayout layout;
  std::vector<std::byte> payload;
  double factor;
};

// Layouts of one segment: full tiles, and tiles of odd sizes down to one coefficient.
std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  layouts.push_back(LargeLayout(40));
  layouts.push_back(LargeLayout(1));
  for (const uint32_t size : {1u, 7u, 63u, 64u}) layouts.push_back(SmallLayout(size, 19));
  return layouts;
}

float Value(Rng& rng, int kind, int power) {
  if (kind == 0 && rng.Below(4) == 0) return 0;
  if (kind == 1) return static_cast<float>(static_cast<int>(rng.Below(5)) - 2);  // ties
  return static_cast<float>((rng.Uniform() - 0.5) * std::ldexp(1.0, power));
}

std::vector<SentSum> Mix(const Layout& layout, const PayloadFormat& up, size_t count, Rng& rng) {
  const int weighing = static_cast<int>(rng.Below(4));
  const bool clipped = rng.Below(2) == 0;
  std::vector<SentSum> all;
  for (size_t i = 0; i < count; ++i) {
    PayloadFormat format = up;
    // Each worker may have a codec of its own, and under topk a k.
    if (rng.Below(2) == 0) {
      format.codec = static_cast<ValueCodec>(rng.Below(6));
      if (up.selection == Selection::kTopK) format.k = static_cast<uint16_t>(1 + rng.Below(300));
    }
    const uint64_t weights[] = {61440, 1 + rng.Below(200), 1 + rng.Below(1u << 20),
                                1 + rng.Below(kWeightMax)};
    const int kind = static_cast<int>(rng.Below(3));
    const int power = weighing == 3 ? static_cast<int>(rng.Below(240)) - 120 : 0;
    std::vector<float> dense(layout.coefficient_count());
    for (float& v : dense) v = Value(rng, kind, power);
    all.push_back({weights[weighing], PayloadLayoutOf(format, layout),
                   EncodeDense(format, layout, 0, dense, kSeed, 5), clipped ? rng.Uniform() : 1.0});
  }
  return all;
}

struct Result {
  std::vector<std::byte> payload;
  std::vector<float> residual;
  bool operator==(const Result&) const = default;
};

std::vector<Contribution> ContributionsOf(const std::vector<SentSum>& all) {
  std::vector<Contribution> contributions;
  for (const SentSum& sent : all) {
    contributions.push_back({sent.weight, &sent.layout, sent.payload, sent.factor});
  }
  return contributions;
}

void ExpectEqual(const Result& got, const Result& wanted, const char* what) {
  EXPECT_EQ(got.payload, wanted.payload) << what;
  EXPECT_TRUE(std::equal(
      got.residual.begin(), got.residual.end(), wanted.residual.begin(),
      [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }))
      << what;
}

TEST(MergeProperty, IsItsReferenceWhateverOrderThreadsAndInstructions) {
  Rng rng(17);
  const auto threads = std::make_shared<TileThreads>(3);
  for (const Layout& layout : Layouts()) {
    for (int trial = 0; trial < 60; ++trial) {
      const Selection selections[] = {Selection::kTopK, Selection::kTopK, Selection::kAll,
                                      Selection::kRandom, Selection::kStride};
      const PayloadFormat up{selections[rng.Below(5)], static_cast<ValueCodec>(rng.Below(6)),
                             static_cast<uint16_t>(1 + rng.Below(130))};
      const PayloadFormat down{
          Selection::kTopK, static_cast<ValueCodec>(rng.Below(6)),
          static_cast<uint16_t>(rng.Below(3) == 0 ? 1 + rng.Below(4096) : 256)};
      const double rhos[] = {0, 0.25, 0.3, 1};
      const MergeOptions options{kSeed, up, rhos[rng.Below(4)], down};
      const size_t counts[] = {1, 2, 3, 8, 17, 70};
      const bool large = layout.coefficient_count() > 100000;
      std::vector<SentSum> all = Mix(layout, up, counts[rng.Below(large ? 4 : 6)], rng);

      Result wanted;
      wanted.residual.resize(layout.coefficient_count());
      Result serial = wanted, parallel = wanted, baseline = wanted;
      Merger serial_merger(options), parallel_merger(options, threads), baseline_merger(options);
      // The second round starts from the residual and the guesses of the first one.
      for (int round = 0; round < 2; ++round) {
        wanted.payload =
            ReferenceMergeTopK(options, layout, 0, 5, ContributionsOf(all), wanted.residual);
        for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng.Below(i)]);
        const std::vector<Contribution> shuffled = ContributionsOf(all);
        serial.payload = serial_merger.Merge(layout, 0, 5, shuffled, serial.residual).payload;
        parallel.payload = parallel_merger.Merge(layout, 0, 5, shuffled, parallel.residual).payload;
        {
          const ScopedIsa scope(Isa::kGeneric);
          baseline.payload =
              baseline_merger.Merge(layout, 0, 5, shuffled, baseline.residual).payload;
        }
        ExpectEqual(serial, wanted, "serial");
        ExpectEqual(parallel, wanted, "threads");
        ExpectEqual(baseline, wanted, "baseline instructions");
        if (HasFailure()) {
          FAIL() << "trial " << trial << ", " << layout.coefficient_count() << " coefficients, "
                 << all.size() << " of " << Describe(up) << ", down " << Describe(down) << ", rho "
                 << options.rho;
        }
      }
    }
  }
}

TEST(MergeProperty, OfEverythingSentDownIsItsReference) {
  Rng rng(29);
  const auto threads = std::make_shared<TileThreads>(2);
  const PayloadFormat fp32{Selection::kAll, ValueCodec::kFp32, 0};
  for (const Layout& layout : Layouts()) {
    for (int trial = 0; trial < 12; ++trial) {
      const PayloadFormat up{trial % 2 ? Selection::kTopK : Selection::kAll,
                             static_cast<ValueCodec>(rng.Below(6)), 64};
      const MergeOptions options{kSeed, up, trial % 3 * 0.5, fp32};
      const std::vector<SentSum> all = Mix(layout, up, 1 + rng.Below(9), rng);
      const std::vector<Contribution> contributions = ContributionsOf(all);
      Merger merger(options, threads);
      const MergedSegment merged = merger.Merge(layout, 0, 5, contributions, {});
      const std::vector<float> got = DecodeDense(merged.payload, layout, 0, kSeed, 5);
      std::vector<float> wanted;
      const std::vector<uint32_t> tile_sizes = layout.TileSizes(0);
      for (uint32_t tile = 0; tile < tile_sizes.size(); ++tile) {
        const auto g = ReferenceMergeTile(contributions, options.rho, tile, tile_sizes[tile], 0);
        wanted.insert(wanted.end(), g.begin(), g.end());
      }
      ASSERT_EQ(got, wanted) << "trial " << trial << ", " << layout.coefficient_count();
    }
  }
}

// Clipped contributions of equal weights in several integer codecs have long multiples of very
// different top levels: sums and shares that just fit into one word, or just do not.
TEST(MergeProperty, MixedIntegerCodecsAreTheirReference) {
  Rng rng(41);
  const Layout layout = SmallLayout(64, 200);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kSign, 16};
  const PayloadFormat down{Selection::kTopK, ValueCodec::kFp32, 64};
  const ValueCodec others[] = {ValueCodec::kInt8, ValueCodec::kInt4, ValueCodec::kInt2};
  for (int trial = 0; trial < 90; ++trial) {
    std::vector<SentSum> all;
    for (uint64_t i = 0, count = 3 + rng.Below(30); i < count; ++i) {
      PayloadFormat format = up;
      if (i == 0 || rng.Below(4) == 0) format.codec = others[trial % 3];
      std::vector<float> dense(layout.coefficient_count());
      for (float& v : dense) v = Value(rng, 2, 1);
      all.push_back({1, PayloadLayoutOf(format, layout), EncodeDense(format, layout, 0, dense),
                     rng.Below(2) == 0 ? rng.Uniform() : 1.0});
    }
    const MergeOptions options{0, up, trial % 2 * 0.5, down};
    Result got, wanted;
    got.residual.resize(layout.coefficient_count());
    wanted.residual = got.residual;
    wanted.payload =
        ReferenceMergeTopK(options, layout, 0, 0, ContributionsOf(all), wanted.residual);
    got.payload = Merger(options).Merge(layout, 0, 0, ContributionsOf(all), got.residual).payload;
    ExpectEqual(got, wanted, "mixed codecs");
    if (HasFailure()) FAIL() << "trial " << trial << ", " << all.size() << " contributions";
  }
}

// The payload names the most nonzero coefficients of G in any tile as its k, however often one was
// sent: in lists of few, eight of which are finished at a time.
TEST(MergeProperty, TheUnionsKIsTheSameWhateverOrderAndInstructions) {
  Rng rng(37);
  for (const Layout& layout : {LargeLayout(2), SmallLayout(64, 3)}) {
    for (int trial = 0; trial < 120; ++trial) {
      const PayloadFormat up{Selection::kTopK, static_cast<ValueCodec>(rng.Below(6)),
                             static_cast<uint16_t>(1 + rng.Below(9))};
      const PayloadFormat down{Selection::kAll, static_cast<ValueCodec>(trial % 6), 0};
      const MergeOptions options{kSeed, up, trial % 5 * 0.25, down};
      std::vector<SentSum> all;
      for (uint64_t i = 0, count = 1 + rng.Below(9); i < count; ++i) {
        // Few coefficients stand out, so that many choose the same.
        std::vector<float> dense(layout.coefficient_count());
        for (float& v : dense) v = rng.Below(16) == 0 ? Value(rng, 2, 0) : 0;
        for (size_t at = 0; at < dense.size(); at += 17) dense[at] = 4;
        all.push_back({1 + rng.Below(3), PayloadLayoutOf(up, layout),
                       EncodeDense(up, layout, 0, dense, kSeed, 5), 1.0});
      }
      uint32_t k = 1;
      const std::vector<uint32_t> tile_sizes = layout.TileSizes(0);
      for (uint32_t tile = 0; tile < tile_sizes.size(); ++tile) {
        const auto g =
            ReferenceMergeTile(ContributionsOf(all), options.rho, tile, tile_sizes[tile], 0);
        const auto zeros = std::count(g.begin(), g.end(), 0.0f);
        k = std::max(k, tile_sizes[tile] - static_cast<uint32_t>(zeros));
      }
      const auto merge = [&] {
        Result result;
        if (KeepsResidual(options)) result.residual.resize(layout.coefficient_count());
        result.payload =
            Merger(options).Merge(layout, 0, 5, ContributionsOf(all), result.residual).payload;
        return result;
      };
      const Result first = merge();
      const auto format = DecodePayloadHead(first.payload);
      ASSERT_TRUE(format.ok()) << format.status();
      if (format->selection == Selection::kTopK) {
        EXPECT_EQ(format->k, k);
      }
      for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng.Below(i)]);
      ExpectEqual(merge(), first, "another order");
      const ScopedIsa scope(Isa::kGeneric);
      ExpectEqual(merge(), first, "baseline instructions");
      if (HasFailure()) {
        FAIL() << "trial " << trial << ", " << layout.coefficient_count() << " coefficients, "
               << all.size() << " of " << Describe(up) << ", down " << Describe(down) << ", rho "
               << options.rho;
      }
    }
  }
}

TEST(MergeProperty, ManyContributionsKeepEveryTypeOfShares) {
  // 1, 2, 4 and 8 bytes for the sum of weights over their common divisor.
  const Layout layout = SmallLayout(64, 3);
  const PayloadFormat up{Selection::kTopK, ValueCodec::kSign, 16};
  Rng rng(31);
  for (const uint64_t spread : {uint64_t{1}, uint64_t{50}, uint64_t{1} << 20, kWeightMax}) {
    std::vector<SentSum> all;
    for (int i = 0; i < 200; ++i) {
      std::vector<float> dense(layout.coefficient_count());
      for (float& v : dense) v = Value(rng, 2, 0);
      all.push_back({1 + rng.Below(spread), PayloadLayoutOf(up, layout),
                     EncodeDense(up, layout, 0, dense), 1.0});
    }
    for (const double rho : {0.0, 0.25, 1.0}) {
      const MergeOptions options{0, up, rho, {Selection::kTopK, ValueCodec::kFp32, 64}};
      Result got, wanted;
      got.residual.resize(layout.coefficient_count());
      wanted.residual = got.residual;
      got.payload = Merger(options).Merge(layout, 0, 0, ContributionsOf(all), got.residual).payload;
      wanted.payload =
          ReferenceMergeTopK(options, layout, 0, 0, ContributionsOf(all), wanted.residual);
      ExpectEqual(got, wanted, "shares");
    }
  }
}

using Norms = std::vector<float>;
using Factors = std::vector<double>;

TEST(ClipFactors, AreTheMultipleOfTheMedianOverTheNorm) {
  // From three on the last update has no say, whatever it was.
  for (const float last : {0.0f, 1e-9f, 3.0f, 1e9f}) {
    EXPECT_EQ(ClipFactors(Norms{1, 2, 8}, last, 2), (Factors{1, 1, 0.5}));
    EXPECT_EQ(ClipFactors(Norms{8, 1, 2}, last, 2), (Factors{0.5, 1, 1}));
    // The lower of the two in the middle.
    EXPECT_EQ(ClipFactors(Norms{4, 1, 2, 8}, last, 1), (Factors{0.5, 1, 1, 0.25}));
  }
}

TEST(ClipFactors, OfTwoAreByTheirMedianWithTheLastUpdate) {
  EXPECT_EQ(ClipFactors(Norms{1, 8}, 2, 2), (Factors{1, 0.5}));
  EXPECT_EQ(ClipFactors(Norms{0, 8, 1, 0}, 0.01f, 2), (Factors{1, 0.25, 1, 1}));
  // Next to nothing from one is no measure for the other.
  EXPECT_EQ(ClipFactors(Norms{1e-30f, 1}, 2, 2), (Factors{1, 1}));
}

TEST(ClipFactors, OfOneIsByTheLastUpdate) {
  EXPECT_EQ(ClipFactors(Norms{8}, 2, 2), (Factors{0.5}));
  EXPECT_EQ(ClipFactors(Norms{0, 8, 0}, 1, 2), (Factors{1, 0.25, 1}));
  EXPECT_EQ(ClipFactors(Norms{0.1f}, 2, 2), (Factors{1}));
}

TEST(ClipFactors, OfLessThanThreeAreOneWithoutALastUpdate) {
  EXPECT_EQ(ClipFactors(Norms{1, 100}, 0, 1), (Factors{1, 1}));
  EXPECT_EQ(ClipFactors(Norms{100}, 0, 1), (Factors{1}));
}

TEST(ClipFactors, LeaveOutWhatIsAThousandTimesTheLimit) {
  EXPECT_EQ(ClipFactors(Norms{1, 2000, 1}, 0, 2), (Factors{1, 0.001, 1}));
  EXPECT_EQ(ClipFactors(Norms{1, 2001, 1e18f, 1, 1}, 0, 2), (Factors{1, 0, 0, 1, 1}));
  EXPECT_EQ(ClipFactors(Norms{1, 1e18f}, 3, 2), (Factors{1, 0}));
  EXPECT_EQ(ClipFactors(Norms{1e18f}, 3, 2), (Factors{0}));
}

TEST(ClipFactors, AreOneWhereNothingIsClipped) {
  EXPECT_EQ(ClipFactors(Norms{1, 1, 1e18f}, 1, 0), (Factors{1, 1, 1}));
}

// Most workers have nothing to say of a segment: those who do are not measured by them.
TEST(ClipFactors, TakeTheMedianOfThoseThatSayAnything) {
  EXPECT_EQ(ClipFactors(Norms{0, 0, 5}, 0, 3), (Factors{1, 1, 1}));
  EXPECT_EQ(ClipFactors(Norms{0, 0, 5, 1}, 0, 3), (Factors{1, 1, 1, 1}));
  EXPECT_EQ(ClipFactors(Norms{0, 0, 0, 1, 0, 8, 2}, 0, 2), (Factors{1, 1, 1, 1, 1, 0.5, 1}));
  EXPECT_EQ(ClipFactors(Norms{0, 0, 0}, 1, 3), (Factors{1, 1, 1}));
}

// Of a segment of two coefficients in fp32: a contribution's weight, values and factor.
struct Clipped {
  uint64_t weight;
  std::vector<float> values;
  double factor;
};
std::pair<std::vector<float>, uint64_t> MergeClipped(const std::vector<Clipped>& all) {
  const Layout layout = SmallLayout(2);
  const PayloadFormat fp32{Selection::kAll, ValueCodec::kFp32, 0};
  const PayloadLayout form = PayloadLayoutOf(fp32, layout);
  std::vector<std::vector<std::byte>> payloads;
  for (const Clipped& one : all) payloads.push_back(EncodeDense(fp32, layout, 0, one.values));
  std::vector<Contribution> contributions;
  for (size_t i = 0; i < all.size(); ++i) {
    contributions.push_back({all[i].weight, &form, payloads[i], all[i].factor});
  }
  const MergedSegment merged = Merger({0, fp32, 1, fp32}).Merge(layout, 0, 0, contributions, {});
  return {DecodeDense(merged.payload, layout, 0), merged.weight_sum};
}

TEST(Merge, ClipsTheNumeratorAndKeepsTheWeightButOfAFactorOfZero) {
  const auto [clipped, weight] = MergeClipped({{1, {1, 2}, 1}, {3, {40, 80}, 0.25}});
  EXPECT_EQ(clipped, (std::vector<float>{(1 + 3 * 10) / 4.0f, (2 + 3 * 20) / 4.0f}));
  EXPECT_EQ(weight, 4u);
  const auto [left, rest] = MergeClipped({{2, {1, 2}, 1}, {5, {3e38f, -3e38f}, 0}});
  EXPECT_EQ(left, (std::vector<float>{1, 2}));
  EXPECT_EQ(rest, 2u);
}

TEST(Merge, TakesFactorsOfNextToNothing) {
  for (const double factor : {0.0, 5e-324, 1e-310, 1e-250, 1e-100}) {
    const std::vector<Clipped> all(3, {1, {1, -2}, factor});
    EXPECT_EQ(MergeClipped(all).first, (std::vector<float>{0, 0})) << factor;
  }
}

}  // namespace
}  // namespace longwave

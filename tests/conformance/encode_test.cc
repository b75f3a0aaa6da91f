// KernelOps::encode on every backend against the reference and against the definition.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "common/wire/payload.h"
#include "tests/conformance/harness.h"

namespace longwave::conformance {
namespace {

using EncodeConformance = Conformance;

// Calls body(layout, segment, state, setting) over tilings, transforms, formats and segments.
template <typename Body>
void ForAllEncodings(Body body) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor}) {
    const Layout layout = LayoutOf(tiling);
    const State state(layout);
    const uint16_t k = tiling == Tiling::kModel ? 100 : 9;
    for (const Transform transform : {Transform::kNone, Transform::kDct}) {
      for (const Selection selection :
           {Selection::kAll, Selection::kTopK, Selection::kRandom, Selection::kStride}) {
        for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kBf16, ValueCodec::kInt8,
                                       ValueCodec::kInt4, ValueCodec::kInt2, ValueCodec::kSign}) {
          SCOPED_TRACE(std::string(tiling == Tiling::kModel ? "model " : "tensor ") +
                       std::string(Name(transform)) + " " + std::string(Name(selection)) + " " +
                       std::string(Name(codec)));
          const EncodeSetting setting = {transform, {selection, codec, k}, 0.95f, 0.75f, 2};
          for (uint32_t s = 0; s < layout.segments().size(); ++s) body(layout, s, state, setting);
        }
      }
    }
  }
}

std::vector<double> SegmentOf(const std::vector<float>& all, const Segment& segment) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(segment.coefficient_begin);
  return {begin, begin + static_cast<ptrdiff_t>(segment.coefficient_count)};
}

TEST_P(EncodeConformance, ReconstructsAsWellAsTheReference) {
  ForAllEncodings([&](const Layout& layout, uint32_t s, const State& state,
                      const EncodeSetting& setting) {
    const PayloadLayout payload_layout = PayloadLayoutOf(layout, s, setting.format);
    const Encoded got = Encode(ops(), layout, s, state, setting);
    const Encoded wanted = Encode(Reference(), layout, s, state, setting);
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    ASSERT_TRUE(wanted.status.ok()) << wanted.status.ToString();
    ASSERT_EQ(ValidatePayload(payload_layout, got.payload), absl::OkStatus());
    EXPECT_EQ(got.report.nonfinite_tile, EncodeReport::kNone);

    const std::vector<double> m =
        ExpectedMomentum(layout, s, state, setting.transform, double{setting.beta});
    const double error = Distance(m, Dequantized(layout, s, payload_layout, got.payload));
    const double error_wanted = Distance(m, Dequantized(layout, s, payload_layout, wanted.payload));
    // A value at the border of two levels may fall to either side: little error is at stake, but
    // with coarse levels more than rounding.
    EXPECT_NEAR(error, error_wanted, 1e-4 * Norm(m));
    const double scale = Norm(m) * Norm(m);
    EXPECT_NEAR(got.report.signal_square_sum, wanted.report.signal_square_sum, 1e-5 * scale);
    EXPECT_NEAR(got.report.momentum_square_sum, wanted.report.momentum_square_sum, 1e-5 * scale);
    EXPECT_NEAR(got.report.sent_square_sum, wanted.report.sent_square_sum, 1e-3 * scale);
  });
}

TEST_P(EncodeConformance, ConservesMomentum) {
  ForAllEncodings(
      [&](const Layout& layout, uint32_t s, const State& state, const EncodeSetting& setting) {
        const Segment& segment = layout.segments()[s];
        const Encoded got = Encode(ops(), layout, s, state, setting);
        ASSERT_TRUE(got.status.ok()) << got.status.ToString();
        std::vector<double> sum = SegmentOf(got.momentum, segment);
        const std::vector<double> sent =
            Dequantized(layout, s, PayloadLayoutOf(layout, s, setting.format), got.payload);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += setting.alpha * sent[i];
        const std::vector<double> m =
            ExpectedMomentum(layout, s, state, setting.transform, double{setting.beta});
        EXPECT_LE(Distance(sum, m), kTolerance * Norm(m));
        // Elements of other segments do not change.
        for (size_t i = 0; i < got.momentum.size(); ++i) {
          if (i >= segment.coefficient_begin &&
              i < segment.coefficient_begin + segment.coefficient_count) {
            continue;
          }
          ASSERT_EQ(got.momentum[i], state.momentum[i]) << i;
        }
      });
}

TEST_P(EncodeConformance, GivesTheSameBitsWhateverTheThreads) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const State state(layout);
  EncodeSetting setting = {Transform::kDct, {Selection::kTopK, ValueCodec::kInt2, 64}};
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    setting.threads = 1;
    const Encoded one = Encode(ops(), layout, s, state, setting);
    for (const int threads : {2, 3, 8}) {
      setting.threads = threads;
      const Encoded many = Encode(ops(), layout, s, state, setting);
      EXPECT_EQ(many.payload, one.payload);
      EXPECT_EQ(many.momentum, one.momentum);
      EXPECT_EQ(many.report.signal_square_sum, one.report.signal_square_sum);
      EXPECT_EQ(many.report.momentum_square_sum, one.report.momentum_square_sum);
      EXPECT_EQ(many.report.sent_square_sum, one.report.sent_square_sum);
    }
  }
}

// Given the same coefficients, selection, quantization and packing are bit-exact on every backend;
// and the stages give the same coefficients. So here whole payloads are equal.
TEST_P(EncodeConformance, GivesTheBitsOfTheGenericCpu) {
  const WithStages stages;
  ForAllEncodings(
      [&](const Layout& layout, uint32_t s, const State& state, const EncodeSetting& setting) {
        const Encoded got = Encode(ops(), layout, s, state, setting);
        const Encoded wanted = Encode(GenericCpu(), layout, s, state, setting);
        EXPECT_EQ(got.payload, wanted.payload);
        EXPECT_EQ(got.momentum, wanted.momentum);
      });
}

TEST_P(EncodeConformance, PrefersTheSmallerIndexAmongEqualMagnitudes) {
  const Layout layout = LayoutOf(Tiling::kModel);
  State state(layout);
  std::fill(state.theta.begin(), state.theta.end(), 0.0f);
  std::fill(state.momentum.begin(), state.momentum.end(), 0.0f);
  for (size_t i = 0; i < state.anchor.size(); ++i) state.anchor[i] = i % 2 == 0 ? 1.0f : -1.0f;
  const EncodeSetting setting = {Transform::kNone, {Selection::kTopK, ValueCodec::kFp32, 64}};
  const Encoded got = Encode(ops(), layout, 0, state, setting);
  ASSERT_TRUE(got.status.ok());
  const std::vector<double> sent =
      Dequantized(layout, 0, PayloadLayoutOf(layout, 0, setting.format), got.payload);
  for (uint32_t i = 0; i < 4096; ++i) EXPECT_EQ(sent[i] != 0, i < 64) << i;
}

TEST_P(EncodeConformance, SendsZerosCanonically) {
  ForAllEncodings([&](const Layout& layout, uint32_t s, State state, const EncodeSetting& setting) {
    state.anchor = state.theta;
    std::fill(state.momentum.begin(), state.momentum.end(), 0.0f);
    const PayloadLayout payload_layout = PayloadLayoutOf(layout, s, setting.format);
    const Encoded got = Encode(ops(), layout, s, state, setting);
    ASSERT_EQ(ValidatePayload(payload_layout, got.payload), absl::OkStatus());
    EXPECT_EQ(Norm(Dequantized(layout, s, payload_layout, got.payload)), 0);
    EXPECT_EQ(got.report.sent_square_sum, 0);
  });
}

TEST_P(EncodeConformance, ReportsANonFiniteTileAndLeavesItsMomentum) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const Segment& segment = layout.segments()[0];
  const Tile& tile = layout.tiles(segment)[2];
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Transform transform : {Transform::kNone, Transform::kDct}) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      for (const bool in_signal : {true, false}) {
        State state(layout);
        (in_signal ? state.theta[tile.offset + tile.row_stride + 1]
                   : state.momentum[tile.coefficient_offset + 77]) = bad;
        const EncodeSetting setting = {transform, {Selection::kTopK, ValueCodec::kSign, 64}};
        const Encoded got = Encode(ops(), layout, 0, state, setting);
        ASSERT_TRUE(got.status.ok()) << got.status.ToString();
        EXPECT_EQ(got.report.nonfinite_tile, 2u);
        EXPECT_TRUE(std::isfinite(got.report.signal_square_sum));
        EXPECT_TRUE(std::isfinite(got.report.momentum_square_sum));
        EXPECT_EQ(std::memcmp(got.momentum.data() + tile.coefficient_offset,
                              state.momentum.data() + tile.coefficient_offset,
                              tile.size() * sizeof(float)),
                  0);
      }
    }
  }
}

TEST_P(EncodeConformance, ReportsAMomentumThatOverflows) {
  const Layout layout = LayoutOf(Tiling::kModel);
  State state(layout);
  const Tile& tile = layout.tiles()[1];
  state.momentum[tile.coefficient_offset + 3] = 3e38f;
  EncodeSetting setting = {Transform::kDct, {Selection::kTopK, ValueCodec::kSign, 64}};
  setting.beta = 2;
  EXPECT_EQ(Encode(ops(), layout, 0, state, setting).report.nonfinite_tile, 1u);
}

TEST_P(EncodeConformance, RefusesArgumentsThatDoNotFit) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const State state(layout);
  const DenseArray theta(ops(), state.theta), momentum(ops(), state.momentum);
  const PayloadFormat format = {Selection::kTopK, ValueCodec::kSign, 64};
  const PayloadLayout payload_layout = PayloadLayoutOf(layout, 0, format);
  std::vector<std::byte> payload(payload_layout.bytes());
  EncodeReport report;
  EncodeArgs good;
  good.layout = &layout;
  good.signal.a = theta.data();
  good.momentum = momentum.data();
  good.payload_layout = &payload_layout;
  good.payload = payload;
  good.report = &report;
  ASSERT_TRUE(ops().encode({}, {&good, 1}).ok());
  ASSERT_TRUE(ops().finish({}, good.segment).ok());
  const auto refused = [&](auto&& spoil) {
    EncodeArgs bad = good;
    spoil(bad);
    return absl::IsInvalidArgument(ops().encode({}, {&bad, 1}));
  };
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.layout = nullptr; }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.momentum = nullptr; }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.signal.a = nullptr; }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.report = nullptr; }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.segment = 99; }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.beta = std::numeric_limits<float>::infinity(); }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.payload = a.payload.first(a.payload.size() - 1); }));
  EXPECT_TRUE(refused([](EncodeArgs& a) { a.transform = static_cast<Transform>(9); }));
  const std::vector<uint32_t> other_sizes(4, 64);
  const PayloadLayout other = *PayloadLayout::Create(format, other_sizes);
  EXPECT_TRUE(refused([&](EncodeArgs& a) { a.payload_layout = &other; }));
}

LONGWAVE_CONFORMANCE_SUITE(EncodeConformance);

}  // namespace
}  // namespace longwave::conformance

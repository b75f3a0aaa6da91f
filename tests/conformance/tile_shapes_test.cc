// Encode and decode-update over every shape of full tile, every size of selection and inputs that
// are hard to choose among: payload, residual and update to the bit of the generic CPU's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "kernels/host_bytes.h"
#include "tests/conformance/harness.h"

namespace longwave::conformance {
namespace {

using TileShapes = Conformance;

// Blocks of 64 × 64, 32 × 128 and 128 × 32, padded and not, and a run; or the same elements flat.
Layout ShapesLayout(Tiling tiling) {
  Manifest manifest;
  manifest.tensors = {{"square", {64, 100}},
                      {"wide", {40, 120}},
                      {"tall", {128, 96}},
                      {"tall padded", {120, 30}},
                      {"vector", {5000}}};
  LayoutOptions options;
  options.tiling = tiling;
  options.segment_tiles = 64;
  absl::StatusOr<Layout> layout = Layout::Create(manifest, options);
  EXPECT_TRUE(layout.ok());
  return *std::move(layout);
}

// Values that selection finds hard, by name.
enum class Input { kRandom, kTies, kOneMagnitude, kSparse, kDenormal, kWide };
constexpr Input kInputs[] = {Input::kRandom, Input::kTies,     Input::kOneMagnitude,
                             Input::kSparse, Input::kDenormal, Input::kWide};

std::vector<float> ValuesOf(Input input, size_t n, uint64_t seed) {
  std::vector<float> values = RandomVector(n, seed);
  Rng rng(seed + 100);
  for (float& v : values) {
    switch (input) {
      case Input::kRandom:
        break;
      case Input::kTies:
        v = std::copysign(0.25f * static_cast<float>(1 + rng.Below(3)), v);
        break;
      case Input::kOneMagnitude:
        v = std::copysign(0.75f, v);
        break;
      case Input::kSparse:
        if (rng.Below(200) != 0) v = 0;
        break;
      case Input::kDenormal:
        v *= 1e-39f;
        break;
      case Input::kWide:
        v *= std::ldexp(1.0f, static_cast<int>(rng.Below(160)) - 80);
        break;
    }
  }
  return values;
}

struct Arrays {
  std::vector<float> a, b, momentum;
  bool difference = true;
};

Encoded EncodeArrays(const KernelOps& ops, const Layout& layout, uint32_t segment,
                     const Arrays& arrays, const EncodeSetting& setting) {
  const DenseArray a(ops, arrays.a);
  const DenseArray b(ops, arrays.b);
  return Encode(ops, layout, segment, {a.data(), arrays.difference ? b.data() : nullptr, 0.7f},
                arrays.momentum, setting);
}

void ExpectCpuBits(const KernelOps& ops, const Layout& layout, const Arrays& arrays,
                   const EncodeSetting& setting) {
  const WithStages stages;
  for (uint32_t s = 0; s < layout.segments().size(); ++s) {
    const Encoded got = EncodeArrays(ops, layout, s, arrays, setting);
    const Encoded wanted = EncodeArrays(GenericCpu(), layout, s, arrays, setting);
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    ASSERT_EQ(got.report.nonfinite_tile, EncodeReport::kNone);
    ASSERT_EQ(ValidatePayload(PayloadLayoutOf(layout, s, setting.format), got.payload),
              absl::OkStatus());
    EXPECT_EQ(got.payload, wanted.payload);
    EXPECT_TRUE(SameBits(got.momentum, wanted.momentum));
    const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-5 * std::abs(y); };
    EXPECT_TRUE(near(got.report.signal_square_sum, wanted.report.signal_square_sum));
    EXPECT_TRUE(near(got.report.momentum_square_sum, wanted.report.momentum_square_sum));
    EXPECT_TRUE(near(got.report.sent_square_sum, wanted.report.sent_square_sum));
  }
}

std::string NameOf(Tiling tiling, Transform transform) {
  return std::string(tiling == Tiling::kFlat ? "flat " : "model ") + std::string(Name(transform));
}

Arrays ArraysOf(Input input, const Layout& layout) {
  return {ValuesOf(input, layout.parameter_count(), 1),
          ValuesOf(input, layout.parameter_count(), 2),
          ValuesOf(input, layout.coefficient_count(), 3)};
}

TEST_P(TileShapes, SelectionsOfEverySizeAreTheCpus) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kFlat}) {
    const Layout layout = ShapesLayout(tiling);
    const Arrays arrays = ArraysOf(Input::kRandom, layout);
    for (const Transform transform : {Transform::kNone, Transform::kDct}) {
      if (tiling == Tiling::kFlat && transform == Transform::kDct) continue;  // as a model's run
      for (const uint16_t k :
           {1, 2, 8, 33, 64, 96, 97, 256, 384, 385, 1000, 2047, 2048, 2049, 4095, 4096}) {
        SCOPED_TRACE(NameOf(tiling, transform) + " k " + std::to_string(k));
        ExpectCpuBits(ops(), layout, arrays,
                      {transform, {Selection::kTopK, ValueCodec::kInt2, k}, 0.9f, 1.0f});
      }
    }
  }
}

TEST_P(TileShapes, InputsThatAreHardToChooseAmongGiveTheCpusBits) {
  const Layout layout = ShapesLayout(Tiling::kModel);
  for (const Input input : kInputs) {
    const Arrays arrays = ArraysOf(input, layout);
    for (const Transform transform : {Transform::kNone, Transform::kDct}) {
      for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kInt8, ValueCodec::kSign}) {
        for (const uint16_t k : {64, 300}) {
          SCOPED_TRACE("input " + std::to_string(static_cast<int>(input)) + " " +
                       std::string(Name(transform)) + " " + std::string(Name(codec)) + " k " +
                       std::to_string(k));
          // β = 0 leaves the magnitudes of the signal as they are, ties included.
          for (const float beta : {0.0f, 0.5f}) {
            ExpectCpuBits(ops(), layout, arrays,
                          {transform, {Selection::kTopK, codec, k}, beta, 0.5f});
          }
        }
      }
    }
  }
}

TEST_P(TileShapes, SignalsOfBothKindsGiveTheCpusBits) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kFlat}) {
    const Layout layout = ShapesLayout(tiling);
    Arrays arrays = ArraysOf(Input::kRandom, layout);
    for (const bool difference : {false, true}) {
      arrays.difference = difference;
      for (const Transform transform : {Transform::kNone, Transform::kDct}) {
        for (const Selection selection : {Selection::kAll, Selection::kTopK}) {
          SCOPED_TRACE(NameOf(tiling, transform) + (difference ? " difference" : "") + " " +
                       std::string(Name(selection)));
          ExpectCpuBits(ops(), layout, arrays,
                        {transform, {selection, ValueCodec::kInt4, 64}, 0.95f, 1.0f});
        }
      }
    }
  }
}

TEST_P(TileShapes, UpdatesUnderEveryRuleAreTheCpus) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kFlat}) {
    const Layout layout = ShapesLayout(tiling);
    for (const Input input : {Input::kRandom, Input::kDenormal, Input::kWide}) {
      const Arrays arrays = ArraysOf(input, layout);
      State state(layout);
      state.theta = state.gradient = arrays.a;
      state.anchor = state.velocity = arrays.b;
      state.momentum = arrays.momentum;
      for (const Transform transform : {Transform::kNone, Transform::kDct}) {
        for (const PayloadFormat format : {PayloadFormat{Selection::kTopK, ValueCodec::kInt2, 64},
                                           PayloadFormat{Selection::kTopK, ValueCodec::kFp32, 384},
                                           PayloadFormat{Selection::kTopK, ValueCodec::kBf16, 700},
                                           PayloadFormat{Selection::kTopK, ValueCodec::kSign, 4096},
                                           PayloadFormat{Selection::kRandom, ValueCodec::kFp32, 9},
                                           PayloadFormat{Selection::kAll, ValueCodec::kInt8, 0}}) {
          const PayloadLayout payload_layout = PayloadLayoutOf(layout, 0, format);
          const Encoded encoded =
              EncodeArrays(GenericCpu(), layout, 0, arrays, {transform, format, 0.9f, 1.0f});
          for (const UpdateKind rule : kRules) {
            SCOPED_TRACE(NameOf(tiling, transform) + " " + Describe(format) + " rule " +
                         std::to_string(static_cast<int>(rule)));
            const DecodeSetting setting = {transform, rule, 0.999f};
            ExpectSameBits(
                Decode(ops(), layout, 0, state, payload_layout, encoded.payload, setting),
                Decode(GenericCpu(), layout, 0, state, payload_layout, encoded.payload, setting));
          }
        }
      }
    }
  }
}

struct Encoding {
  std::vector<std::byte> payload;
  EncodeReport report;
};

TEST_P(TileShapes, SegmentsAndOwnersKeepTheirEncodingsApart) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const Arrays arrays = ArraysOf(Input::kRandom, layout);
  const PayloadFormat format = {Selection::kTopK, ValueCodec::kSign, 64};
  const PayloadLayout forms[] = {PayloadLayoutOf(layout, 0, format),
                                 PayloadLayoutOf(layout, 1, format)};
  const DenseArray a(ops(), arrays.a), b(ops(), arrays.b);
  const DenseArray momentum(ops(), arrays.momentum);
  const auto encode = [&](Exec exec, uint32_t segment, float scale, Encoding& to) {
    to.payload.assign(forms[segment].bytes(), std::byte{0xee});
    EncodeArgs each;
    each.layout = &layout;
    each.segment = segment;
    each.transform = Transform::kDct;
    each.momentum = momentum.data();
    each.beta = 0;  // so that each payload depends on its own signal alone
    each.signal = {a.data(), b.data(), scale};
    each.payload_layout = &forms[segment];
    each.payload = to.payload;
    each.report = &to.report;
    return ops().encode(exec, {&each, 1});
  };
  const auto alone = [&](uint32_t segment, float scale) {
    Encoding encoding;
    EXPECT_EQ(encode({}, segment, scale, encoding), absl::OkStatus());
    EXPECT_EQ(ops().finish({}, segment), absl::OkStatus());
    return encoding.payload;
  };
  const std::vector<std::byte> wanted[] = {alone(0, 1), alone(1, -2), alone(0, 3)};
  ASSERT_NE(wanted[0], wanted[2]);

  const int owner = 0;
  Exec other;
  other.owner = &owner;
  Encoding encodings[3], refused;
  ASSERT_EQ(encode({}, 0, 1, encodings[0]), absl::OkStatus());
  ASSERT_EQ(encode({}, 1, -2, encodings[1]), absl::OkStatus());
  ASSERT_EQ(encode(other, 0, 3, encodings[2]), absl::OkStatus());
  if (ops().on_device) {
    EXPECT_EQ(encode({}, 0, 1, refused).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(ops().finish(other, 0), absl::OkStatus());
  EXPECT_EQ(ops().finish({}, 1), absl::OkStatus());
  EXPECT_EQ(ops().finish({}, 0), absl::OkStatus());
  EXPECT_EQ(ops().finish({}, 0), absl::OkStatus());  // nothing under way
  for (int i = 0; i < 3; ++i) EXPECT_EQ(encodings[i].payload, wanted[i]) << i;
}

// More segments than a launch takes, of tiles of several kernels, in one call each way.
TEST_P(TileShapes, ManySegmentsOfACallAreThoseOfManyCalls) {
  Manifest manifest;
  manifest.tensors = {{"a", {64 * 7, 64 * 5}}, {"b", {200, 130}}, {"c", {5000}}};
  LayoutOptions options;
  options.segment_tiles = 1;
  const Layout layout = *Layout::Create(manifest, options);
  const uint32_t count = static_cast<uint32_t>(layout.segments().size());
  ASSERT_GT(count, 36u);
  const State state(layout);
  const EncodeSetting setting = {Transform::kDct, {Selection::kTopK, ValueCodec::kInt2, 40}};
  std::vector<Encoded> alone;
  std::vector<PayloadLayout> forms;
  size_t bytes = 0;
  for (uint32_t s = 0; s < count; ++s) {
    forms.push_back(PayloadLayoutOf(layout, s, setting.format));
    alone.push_back(Encode(ops(), layout, s, state, setting));
    bytes = AlignedForPayload(bytes + forms[s].bytes());
  }

  const DenseArray theta(ops(), state.theta), anchor(ops(), state.anchor);
  const DenseArray momentum(ops(), state.momentum);
  const std::shared_ptr<HostBytes> memory = *HostBytes::Create(&ops(), bytes);
  std::vector<EncodeReport> reports(count);
  std::vector<EncodeArgs> encode(count);
  std::vector<DecodeUpdateArgs> decode(count);
  size_t begin = 0;
  for (uint32_t s = 0; s < count; ++s) {
    encode[s] = {.layout = &layout,
                 .segment = s,
                 .signal = {anchor.data(), theta.data(), 0.5f},
                 .transform = setting.transform,
                 .beta = setting.beta,
                 .alpha = setting.alpha,
                 .run_seed = kRunSeed,
                 .round = kRound,
                 .momentum = momentum.data(),
                 .payload_layout = &forms[s],
                 .payload = memory->bytes().subspan(begin, forms[s].bytes()),
                 .report = &reports[s]};
    begin = AlignedForPayload(begin + forms[s].bytes());
    decode[s] = {.layout = &layout,
                 .segment = s,
                 .transform = setting.transform,
                 .eta = 0.7f,
                 .run_seed = kRunSeed,
                 .round = kRound,
                 .payload_layout = &forms[s],
                 .payload = encode[s].payload,
                 .theta = theta.data()};
  }
  ASSERT_EQ(ops().encode({}, encode), absl::OkStatus());
  for (uint32_t s = count; s-- > 0;) {
    ASSERT_EQ(ops().finish({}, s), absl::OkStatus());
    EXPECT_EQ(reports[s].sent_square_sum, alone[s].report.sent_square_sum);
    EXPECT_TRUE(std::ranges::equal(encode[s].payload, alone[s].payload)) << s;
  }
  const std::vector<float> residual = momentum.Read();
  for (uint32_t s = 0; s < count; ++s) {
    const Segment& segment = layout.segments()[s];
    for (uint64_t i = 0; i < segment.coefficient_count; ++i) {
      const uint64_t at = segment.coefficient_begin + i;
      ASSERT_EQ(residual[at], alone[s].momentum[at]) << at;
    }
  }

  ASSERT_EQ(ops().decode_update({}, decode), absl::OkStatus());
  const std::vector<float> updated = theta.Read();
  const DenseArray one_by_one(ops(), state.theta);
  for (DecodeUpdateArgs& args : decode) {
    args.theta = one_by_one.data();
    ASSERT_EQ(ops().decode_update({}, {&args, 1}), absl::OkStatus());
  }
  EXPECT_TRUE(SameBits(updated, one_by_one.Read()));
  EXPECT_FALSE(SameBits(updated, state.theta));
}

TEST_P(TileShapes, HashesOfManySegmentsAreThoseOfEach) {
  Manifest manifest;
  manifest.tensors = {{"a", {200, 150}}, {"b", {9000}}};
  LayoutOptions options;
  options.segment_tiles = 3;
  const Layout layout = *Layout::Create(manifest, options);
  const uint32_t count = static_cast<uint32_t>(layout.segments().size());
  ASSERT_GT(count, 3u);
  const std::vector<float> theta = RandomVector(layout.parameter_count(), 1);
  const std::vector<uint64_t> all = Hashes(ops(), layout, 0, count, theta);
  for (uint32_t s = 0; s < count; ++s) EXPECT_EQ(Hashes(ops(), layout, s, 1, theta)[0], all[s]);
  EXPECT_EQ(Hashes(ops(), layout, 1, count - 2, theta),
            std::vector<uint64_t>(all.begin() + 1, all.end() - 1));
  const DenseArray array(ops(), theta);
  EXPECT_TRUE(absl::IsInvalidArgument(ops().hash({}, {&layout, 0, array.data(), {}})));
}

LONGWAVE_CONFORMANCE_SUITE(TileShapes);

}  // namespace
}  // namespace longwave::conformance

// KernelOps::decode_update, restore and hash on every backend.
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/tile_codec.h"
#include "kernels/dct_plan.h"
#include "tests/conformance/harness.h"

namespace longwave::conformance {
namespace {

using DecodeConformance = Conformance;

// Calls body(layout, segment, state, payload layout, payload, setting) over tilings, formats,
// transforms, rules and segments.
template <typename Body>
void ForAllDecodings(Body body) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor}) {
    const Layout layout = LayoutOf(tiling);
    const State state(layout);
    const uint16_t k = tiling == Tiling::kModel ? 100 : 9;
    for (const PayloadFormat format : {PayloadFormat{Selection::kTopK, ValueCodec::kSign, k},
                                       PayloadFormat{Selection::kTopK, ValueCodec::kInt2, k},
                                       PayloadFormat{Selection::kAll, ValueCodec::kFp32, 0},
                                       PayloadFormat{Selection::kRandom, ValueCodec::kInt8, k},
                                       PayloadFormat{Selection::kStride, ValueCodec::kBf16, k},
                                       PayloadFormat{Selection::kAll, ValueCodec::kInt4, 0}}) {
      for (const Transform transform : {Transform::kNone, Transform::kDct}) {
        for (uint32_t s = 0; s < layout.segments().size(); ++s) {
          EncodeSetting encode_setting;
          encode_setting.transform = transform;
          encode_setting.format = format;
          const Encoded encoded = Encode(GenericCpu(), layout, s, state, encode_setting);
          ASSERT_TRUE(encoded.status.ok());
          const PayloadLayout payload_layout = PayloadLayoutOf(layout, s, format);
          for (const UpdateKind update : kRules) {
            SCOPED_TRACE(std::string(tiling == Tiling::kModel ? "model " : "tensor ") +
                         std::string(Name(format.selection)) + " " +
                         std::string(Name(format.codec)) + " " + std::string(Name(transform)) +
                         " rule " + std::to_string(static_cast<int>(update)) + " segment " +
                         std::to_string(s));
            // Decayed and not, in turn.
            const float keep = s % 2 == 0 ? 1.0f : 0.99f;
            body(layout, s, state, payload_layout, encoded.payload,
                 DecodeSetting{transform, update, keep, 1});
          }
        }
      }
    }
  }
}

double MaxDifference(const std::vector<float>& x, const std::vector<float>& y) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(double{x[i]} - y[i]));
  return largest;
}

TEST_P(DecodeConformance, MatchesTheReferenceUnderEveryRule) {
  ForAllDecodings([&](const Layout& layout, uint32_t s, const State& state,
                      const PayloadLayout& payload_layout, const std::vector<std::byte>& payload,
                      const DecodeSetting& setting) {
    const Decoded got = Decode(ops(), layout, s, state, payload_layout, payload, setting);
    const Decoded wanted = Decode(Reference(), layout, s, state, payload_layout, payload, setting);
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    ASSERT_TRUE(wanted.status.ok()) << wanted.status.ToString();
    // Values are of order one, the tiles' norms below 64.
    const double tolerance = 64 * kTolerance;
    EXPECT_LE(MaxDifference(got.velocity, wanted.velocity), tolerance);
    EXPECT_LE(MaxDifference(got.gradient, wanted.gradient), tolerance);
    EXPECT_LE(MaxDifference(got.momentum, wanted.momentum), tolerance);
    if (setting.update != UpdateKind::kSign) {
      EXPECT_LE(MaxDifference(got.theta, wanted.theta), tolerance);
      return;
    }
    // A sign may differ only where its argument is within the tolerance of zero.
    DecodeSetting inner = setting;
    inner.update = UpdateKind::kInner;
    const Decoded u = Decode(Reference(), layout, s, state, payload_layout, payload, inner);
    for (size_t i = 0; i < got.theta.size(); ++i) {
      if (std::abs(u.gradient[i]) < tolerance) continue;
      ASSERT_NEAR(got.theta[i], wanted.theta[i], 1e-6) << i;
    }
  });
}

// The inverse of dct_plan.h's text, scalar after scalar, of a 64 × 64 tile of which the
// coefficients `indices` were sent.
std::vector<float> InverseWrittenOut(const std::vector<uint16_t>& indices,
                                     const std::vector<float>& values) {
  const DctPlanView plan = DctPlan::Of(64, DctDirection::kInverse).view();
  const auto transformed = [&plan](std::vector<float> x, uint32_t begin, uint32_t stride) {
    for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
      std::vector<float> y = x;
      for (uint32_t i = 0; i < 64; ++i) {
        y[begin + i * stride] = DctStageOutput(plan, stage, i, x.data() + begin, stride);
      }
      x = std::move(y);
    }
    return x;
  };
  const float norm = DctNorm(64, 64);
  std::vector<float> x(64 * 64, 0.0f), u(64 * 64);
  if (!DctInverseBySums(64, 64, static_cast<uint32_t>(indices.size()))) {
    for (size_t s = 0; s < indices.size(); ++s) {
      x[indices[s] % 64 * 64 + indices[s] / 64] = norm * values[s];
    }
    for (uint32_t i = 0; i < 64; ++i) x = transformed(x, i * 64, 1);
    for (uint32_t c = 0; c < 64; ++c) x = transformed(x, c, 64);
    return x;
  }
  for (size_t s = 0; s < indices.size(); ++s) {
    const uint32_t i = indices[s] % 64, j = indices[s] / 64;
    for (uint32_t c = 0; c < 32; ++c) {
      float& sum = x[i * 64 + j % 2 * 32 + c];
      sum = std::fma(DctBasis()[j * 32 + c], norm * values[s], sum);
    }
  }
  for (uint32_t c = 0; c < 64; ++c) x = transformed(x, c, 64);
  for (uint32_t r = 0; r < 64; ++r) {
    for (uint32_t c = 0; c < 32; ++c) {
      const float even = x[r * 64 + c], odd = x[r * 64 + 32 + c];
      u[r * 64 + c] = even + odd;
      u[r * 64 + 63 - c] = even - odd;
    }
  }
  return u;
}

// On both sides of the bound up to which the inverse is by sums.
TEST_P(DecodeConformance, TheInverseIsTheDefinedSequenceOfOperations) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const State state(layout);
  for (const uint16_t k : {1, 2, 64, 256, 383, 384, 385, 1000}) {
    const PayloadFormat format = {Selection::kTopK, ValueCodec::kInt8, k};
    for (uint32_t s = 0; s < layout.segments().size(); ++s) {
      EncodeSetting encode_setting;
      encode_setting.format = format;
      const PayloadLayout payload_layout = PayloadLayoutOf(layout, s, format);
      const Encoded encoded = Encode(GenericCpu(), layout, s, state, encode_setting);
      DecodeSetting setting;
      setting.update = UpdateKind::kInner;
      const Decoded got = Decode(ops(), layout, s, state, payload_layout, encoded.payload, setting);
      const auto tiles = layout.tiles(layout.segments()[s]);
      for (uint32_t t = 0; t < tiles.size(); ++t) {
        const Tile& tile = tiles[t];
        if (tile.rows != 64 || tile.cols != 64) continue;
        std::vector<uint16_t> indices(payload_layout.sent_count(t));
        std::vector<float> values(indices.size());
        ReadTile(payload_layout, t, encoded.payload,
                 SelectionDraw(kRunSeed, kRound, layout.segments()[s].tile_begin + t), indices,
                 values);
        const std::vector<float> u = InverseWrittenOut(indices, values);
        for (uint32_t r = 0; r < tile.rows_valid; ++r) {
          for (uint32_t c = 0; c < tile.cols_valid; ++c) {
            const float element = got.gradient[tile.offset + uint64_t{r} * tile.row_stride + c];
            ASSERT_EQ(std::bit_cast<uint32_t>(element), std::bit_cast<uint32_t>(u[r * 64 + c]))
                << k << " sent, tile " << t << ", row " << r << ", column " << c;
          }
        }
      }
    }
  }
}

// The promise that replicas rest on.
TEST_P(DecodeConformance, GivesTheBitsOfTheGenericCpuWhateverTheThreads) {
  ForAllDecodings([&](const Layout& layout, uint32_t s, const State& state,
                      const PayloadLayout& payload_layout, const std::vector<std::byte>& payload,
                      const DecodeSetting& setting) {
    const Decoded wanted = Decode(GenericCpu(), layout, s, state, payload_layout, payload, setting);
    for (const int threads : {1, 3}) {
      DecodeSetting threaded = setting;
      threaded.threads = threads;
      ExpectSameBits(Decode(ops(), layout, s, state, payload_layout, payload, threaded), wanted);
    }
  });
}

TEST_P(DecodeConformance, WritesNothingOutsideTheSegmentNorWhatTheRuleDoesNotUse) {
  ForAllDecodings([&](const Layout& layout, uint32_t s, const State& state,
                      const PayloadLayout& payload_layout, const std::vector<std::byte>& payload,
                      const DecodeSetting& setting) {
    const Decoded got = Decode(ops(), layout, s, state, payload_layout, payload, setting);
    std::vector<bool> mine(layout.parameter_count(), false);
    for (const uint64_t i : FlatIndices(layout, s)) mine[i] = true;
    const bool inner = setting.update == UpdateKind::kInner;
    const bool nesterov = setting.update == UpdateKind::kNesterov;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i] || inner) {
        ASSERT_EQ(got.theta[i], state.theta[i]) << i;
      }
      if (!mine[i] || !nesterov) {
        ASSERT_EQ(got.velocity[i], state.velocity[i]) << i;
      }
      if (!mine[i] || !inner) {
        ASSERT_EQ(got.gradient[i], state.gradient[i]) << i;
      }
    }
    if (setting.update != UpdateKind::kLocal) {
      EXPECT_EQ(got.momentum, state.momentum);
    }
  });
}

TEST_P(DecodeConformance, RefusesArgumentsThatDoNotFit) {
  const Layout layout = LayoutOf(Tiling::kModel);
  const State state(layout);
  const DenseArray theta(ops(), state.theta);
  const PayloadFormat format = {Selection::kTopK, ValueCodec::kSign, 64};
  const PayloadLayout payload_layout = PayloadLayoutOf(layout, 0, format);
  EncodeSetting encode_setting;
  encode_setting.format = format;
  const Encoded encoded = Encode(GenericCpu(), layout, 0, state, encode_setting);
  DecodeUpdateArgs good;
  good.layout = &layout;
  good.payload_layout = &payload_layout;
  good.payload = encoded.payload;
  good.theta = theta.data();
  ASSERT_TRUE(ops().decode_update({}, {&good, 1}).ok());
  const auto refused = [&](auto&& spoil) {
    DecodeUpdateArgs bad = good;
    spoil(bad);
    return absl::IsInvalidArgument(ops().decode_update({}, {&bad, 1}));
  };
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.theta = nullptr; }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.update = UpdateKind::kNesterov; }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.update = UpdateKind::kInner; }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.update = UpdateKind::kLocal; }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.update = static_cast<UpdateKind>(9); }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.eta = std::nanf(""); }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.segment = 99; }));
  EXPECT_TRUE(refused([](DecodeUpdateArgs& a) { a.payload = {}; }));
}

TEST_P(DecodeConformance, RestoreUndoesTheResidualStep) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor}) {
    const Layout layout = LayoutOf(tiling);
    const State state(layout);
    for (const Selection selection :
         {Selection::kAll, Selection::kTopK, Selection::kRandom, Selection::kStride}) {
      for (const ValueCodec codec : {ValueCodec::kFp32, ValueCodec::kInt4, ValueCodec::kSign}) {
        for (uint32_t s = 0; s < layout.segments().size(); ++s) {
          EncodeSetting setting;
          setting.format = {selection, codec, 9};
          setting.alpha = 0.75f;
          const PayloadLayout payload_layout = PayloadLayoutOf(layout, s, setting.format);
          const Encoded encoded = Encode(ops(), layout, s, state, setting);
          ASSERT_TRUE(encoded.status.ok());
          const DenseArray momentum(ops(), encoded.momentum);
          RestoreArgs args;
          args.layout = &layout;
          args.segment = s;
          args.alpha = setting.alpha;
          args.run_seed = kRunSeed;
          args.round = kRound;
          args.momentum = momentum.data();
          args.payload_layout = &payload_layout;
          args.payload = encoded.payload;
          ASSERT_TRUE(ops().restore({}, args).ok());
          ASSERT_TRUE(ops().wait({}).ok());
          const std::vector<float> restored = momentum.Read();
          const std::vector<double> m =
              ExpectedMomentum(layout, s, state, setting.transform, 0.95f);
          const Segment& segment = layout.segments()[s];
          for (size_t i = 0; i < restored.size(); ++i) {
            if (i < segment.coefficient_begin ||
                i >= segment.coefficient_begin + segment.coefficient_count) {
              ASSERT_EQ(restored[i], state.momentum[i]) << i;
            } else {
              ASSERT_NEAR(restored[i], m[i - segment.coefficient_begin], 64 * kTolerance) << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(DecodeConformance, HashIsTheSumThatIsDocumented) {
  for (const Tiling tiling : {Tiling::kModel, Tiling::kTensor}) {
    const Layout layout = LayoutOf(tiling);
    std::vector<float> theta = RandomVector(layout.parameter_count(), 9);
    theta[2] = 0.0f;
    theta[3] = -0.0f;  // hashed apart, for the sum is of bits
    for (uint32_t s = 0; s < layout.segments().size(); ++s) {
      uint64_t sum = 0;
      for (const uint64_t i : FlatIndices(layout, s)) {
        sum += Mix64(Mix64(i) + std::bit_cast<uint32_t>(theta[i]));
      }
      EXPECT_EQ(Hashes(ops(), layout, s, 1, theta)[0], sum);
      EXPECT_EQ(Hashes(Reference(), layout, s, 1, theta)[0], sum);
    }
  }
}

TEST_P(DecodeConformance, HashDependsOnEveryElementOfTheSegmentAndNoOther) {
  const Layout layout = LayoutOf(Tiling::kTensor);
  std::vector<float> theta = RandomVector(layout.parameter_count(), 9);
  const std::vector<uint64_t> before = Hashes(ops(), layout, 0, 1, theta);
  std::vector<bool> mine(theta.size(), false);
  for (const uint64_t i : FlatIndices(layout, 0)) mine[i] = true;
  for (size_t i = 0; i < theta.size(); ++i) {
    const float kept = theta[i];
    theta[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(kept) ^ 1u);
    EXPECT_EQ(Hashes(ops(), layout, 0, 1, theta) != before, bool{mine[i]}) << i;
    theta[i] = kept;
  }
  std::swap(theta[0], theta[1]);
  EXPECT_NE(Hashes(ops(), layout, 0, 1, theta), before);
}

TEST_P(DecodeConformance, AllocatesZeroedAlignedMemoryOrSaysWhatItWanted) {
  absl::StatusOr<void*> memory = ops().allocate(1000 * sizeof(float));
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 256, 0u);
  std::vector<float> values(1000, 1.0f);
  ASSERT_TRUE(ops().copy({}, values.data(), *memory, 4000).ok());
  ASSERT_TRUE(ops().wait({}).ok());
  EXPECT_EQ(values, std::vector<float>(1000, 0.0f));
  ops().release(*memory);
  const absl::StatusOr<void*> refused = ops().allocate(size_t{1} << 62);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("4611686018427387904"), absl::string_view::npos);
}

LONGWAVE_CONFORMANCE_SUITE(DecodeConformance);

}  // namespace
}  // namespace longwave::conformance

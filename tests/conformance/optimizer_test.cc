// KernelOps::adamw, square_sum, scale and blend on every backend.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/base/rng.h"
#include "tests/conformance/harness.h"

namespace longwave::conformance {
namespace {

using OptimizerConformance = Conformance;

constexpr float kHuge = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// Nothing, one, a prime, a warp and its neighbours, a chunk and its neighbours, chunks enough for
// two levels of pairs on the GPU, and for two pieces of the CPU's threads.
constexpr size_t kLengths[] = {0,
                               1,
                               31,
                               32,
                               33,
                               997,
                               kSquareSumChunk - 1,
                               kSquareSumChunk,
                               kSquareSumChunk + 1,
                               3 * kSquareSumChunk + 5,
                               64 * kSquareSumChunk + 1,
                               300 * kSquareSumChunk + 77};

// Magnitudes from the smallest subnormal to the largest number, and both zeros.
std::vector<float> WildVector(size_t n, uint64_t seed) {
  constexpr float kSpecial[] = {0.0f,  -0.0f,  kTiny,   -kTiny,   0x1p-126f, -0x1.fffffcp-127f,
                                kHuge, -kHuge, 0x1p64f, 0x1p-64f, 1.0f,      -1.0f};
  Rng rng(seed);
  std::vector<float> x(n);
  for (float& value : x) {
    if (rng.Below(8) == 0) {
      value = kSpecial[rng.Below(std::size(kSpecial))];
    } else {
      value = std::ldexp(static_cast<float>(2 * rng.Uniform() - 1),
                         static_cast<int>(rng.Below(250)) - 125);
    }
  }
  return x;
}

std::vector<float> TameVector(size_t n, uint64_t seed) { return RandomVector(n, seed); }
using Fill = std::vector<float> (*)(size_t, uint64_t);

// Bits, but for NaNs, of which any will do.
std::vector<uint32_t> Bits(const std::vector<float>& x) {
  std::vector<uint32_t> bits(x.size());
  std::ranges::transform(x, bits.begin(), [](float value) {
    return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
  });
  return bits;
}

struct Moments {
  std::vector<float> gradient, m, v, theta;
};

Moments MomentsOf(size_t n, Fill fill = TameVector) {
  Moments moments{fill(n, 1), fill(n, 2), fill(n, 3), fill(n, 4)};
  for (float& v : moments.v) v = std::abs(v);
  return moments;
}

AdamWArgs Scalars() {
  AdamWArgs args;
  args.beta1 = 0.9f;
  args.one_minus_beta1 = static_cast<float>(1 - 0.9);
  args.beta2 = 0.99f;
  args.one_minus_beta2 = static_cast<float>(1 - 0.99);
  args.step_size = 3.1e-3f;
  args.root_scale = 1.7f;
  args.epsilon = 1e-8f;
  args.keep = 0.9997f;
  return args;
}

Moments Step(const KernelOps& ops, const Moments& before, AdamWArgs args, int threads = 1) {
  const DenseArray gradient(ops, before.gradient), m(ops, before.m), v(ops, before.v),
      theta(ops, before.theta);
  args.count = before.theta.size();
  args.gradient = gradient.data();
  args.m = m.data();
  args.v = v.data();
  args.theta = theta.data();
  EXPECT_TRUE(ops.adamw({.threads = threads}, args).ok());
  EXPECT_TRUE(ops.wait({}).ok());
  return {gradient.Read(), m.Read(), v.Read(), theta.Read()};
}

double SquareSum(const KernelOps& ops, const std::vector<float>& values, int threads = 1) {
  const DenseArray x(ops, values);
  double sum = -1;
  const SquareSumArgs args{.count = values.size(), .x = x.data(), .sum = &sum};
  EXPECT_TRUE(ops.square_sum({.threads = threads}, args).ok());
  return sum;
}

std::vector<float> Scaled(const KernelOps& ops, const std::vector<float>& values, float scale,
                          int threads = 1) {
  const DenseArray x(ops, values);
  const ScaleArgs args{.count = values.size(), .x = x.data(), .scale = scale};
  EXPECT_TRUE(ops.scale({.threads = threads}, args).ok());
  EXPECT_TRUE(ops.wait({}).ok());
  return x.Read();
}

// θ after a blend of its elements begin … end − 1.
std::vector<float> Blended(const KernelOps& ops, size_t n, size_t begin, size_t end, float alpha,
                           Fill fill, int threads = 1) {
  const DenseArray theta(ops, fill(n, 11)), anchor(ops, fill(n, 12)), base(ops, fill(n, 13));
  const BlendArgs args{begin, end, theta.data(), anchor.data(), base.data(), alpha};
  EXPECT_TRUE(ops.blend({.threads = threads}, args).ok());
  EXPECT_TRUE(ops.wait({}).ok());
  return theta.Read();
}

void ExpectSameBits(const Moments& ours, const Moments& theirs) {
  EXPECT_EQ(Bits(ours.m), Bits(theirs.m));
  EXPECT_EQ(Bits(ours.v), Bits(theirs.v));
  EXPECT_EQ(Bits(ours.theta), Bits(theirs.theta));
  EXPECT_EQ(Bits(ours.gradient), Bits(theirs.gradient));
}

TEST_P(OptimizerConformance, AdamWIsTheGenericCpuToTheBit) {
  for (const size_t n : kLengths) {
    SCOPED_TRACE(n);
    for (const Moments& before : {MomentsOf(n), MomentsOf(n, WildVector)}) {
      ExpectSameBits(Step(ops(), before, Scalars()), Step(GenericCpu(), before, Scalars()));
    }
  }
}

TEST_P(OptimizerConformance, AdamWRoundsEachOperationOnItsOwn) {
  // Written out here, once more, against fused multiply-adds and approximate roots everywhere.
  const AdamWArgs a = Scalars();
  const Moments before = MomentsOf(997);
  const Moments after = Step(ops(), before, a);
  for (size_t i = 0; i < before.theta.size(); ++i) {
    const volatile float g = before.gradient[i];
    const volatile float m_kept = a.beta1 * before.m[i], m_added = a.one_minus_beta1 * g;
    const volatile float m = m_kept + m_added;
    const volatile float square = g * g;
    const volatile float v_kept = a.beta2 * before.v[i], v_added = a.one_minus_beta2 * square;
    const volatile float v = v_kept + v_added;
    const volatile float root = std::sqrt(v);
    const volatile float scaled = root * a.root_scale;
    const volatile float divisor = scaled + a.epsilon;
    const volatile float quotient = m / divisor;
    const volatile float move = a.step_size * quotient, kept = before.theta[i] * a.keep;
    EXPECT_EQ(after.m[i], m) << i;
    EXPECT_EQ(after.v[i], v) << i;
    EXPECT_EQ(after.theta[i], kept - move) << i;
  }
}

TEST_P(OptimizerConformance, AdamWIsTheReferenceWithinRounding) {
  const Moments before = MomentsOf(3 * kSquareSumChunk + 5);
  const Moments ours = Step(ops(), before, Scalars());
  const Moments reference = Step(Reference(), before, Scalars());
  for (size_t i = 0; i < before.theta.size(); ++i) {
    EXPECT_NEAR(ours.m[i], reference.m[i], 1e-7);
    EXPECT_NEAR(ours.v[i], reference.v[i], 1e-7);
    // The step is at most step_size·|m|/(√v·root_scale); its error is a few roundings of it.
    const double step = std::abs(before.theta[i] - reference.theta[i]);
    EXPECT_NEAR(ours.theta[i], reference.theta[i], 1e-6 * (1 + step)) << i;
  }
}

TEST_P(OptimizerConformance, SquareSumIsTheGenericCpuToTheBit) {
  for (const size_t n : kLengths) {
    for (const std::vector<float>& x : {RandomVector(n, 7), WildVector(n, 8)}) {
      EXPECT_EQ(std::bit_cast<uint64_t>(SquareSum(ops(), x)),
                std::bit_cast<uint64_t>(SquareSum(GenericCpu(), x)))
          << n;
    }
  }
}

TEST_P(OptimizerConformance, SquareSumIsTheReferenceWithinRounding) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = WildVector(n, 9);
    const double reference = SquareSum(Reference(), x);
    EXPECT_NEAR(SquareSum(ops(), x), reference, 1e-13 * reference) << n;
  }
}

TEST_P(OptimizerConformance, SquareSumOfSmallIntegersIsExact) {
  std::vector<float> x(300 * kSquareSumChunk + 77);
  double expected = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 17);
    expected += static_cast<double>(x[i]) * x[i];
  }
  EXPECT_EQ(SquareSum(ops(), x), expected);
}

TEST_P(OptimizerConformance, SquareSumShowsANaNAndAnInfinity) {
  std::vector<float> x(2 * kSquareSumChunk, 1.0f);
  x[kSquareSumChunk + 3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(SquareSum(ops(), x), std::numeric_limits<double>::infinity());
  x[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(SquareSum(ops(), x)));
}

TEST_P(OptimizerConformance, ScaleIsTheReferenceToTheBit) {
  for (const size_t n : kLengths) {
    for (const float scale : {0.37f, 0.0f, -1.0f, 0x1p-100f, 0x1p100f}) {
      const std::vector<float> x = WildVector(n, 10);
      EXPECT_EQ(Bits(Scaled(ops(), x, scale)), Bits(Scaled(Reference(), x, scale))) << n;
    }
  }
}

TEST_P(OptimizerConformance, BlendIsTheGenericCpuToTheBit) {
  for (const size_t n : kLengths) {
    for (const float alpha : {1.0f, 0.5f, 0.37f, -2.0f, kTiny}) {
      EXPECT_EQ(Bits(Blended(ops(), n, 0, n, alpha, WildVector)),
                Bits(Blended(GenericCpu(), n, 0, n, alpha, WildVector)))
          << n << " elements, alpha " << alpha;
    }
  }
}

TEST_P(OptimizerConformance, BlendIsOneDifferenceAndOneFusedMultiplyAdd) {
  constexpr size_t kCount = 997;
  const std::vector<float> theta = TameVector(kCount, 11), anchor = TameVector(kCount, 12);
  const std::vector<float> base = TameVector(kCount, 13);
  const std::vector<float> after = Blended(ops(), kCount, 0, kCount, 0.37f, TameVector);
  for (size_t i = 0; i < kCount; ++i) {
    const volatile float difference = theta[i] - base[i];
    EXPECT_EQ(after[i], std::fma(0.37f, difference, anchor[i])) << i;
  }
  const std::vector<float> reference = Blended(Reference(), kCount, 0, kCount, 0.37f, TameVector);
  for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(after[i], reference[i], 2e-7) << i;
}

TEST_P(OptimizerConformance, BlendWritesItsElementsOnly) {
  constexpr size_t kCount = 3 * kSquareSumChunk + 5;
  const std::vector<float> before = WildVector(kCount, 11), anchor = WildVector(kCount, 12);
  for (const float alpha : {0.0f, 0.5f}) {
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1},
                                     {7, 7},
                                     {13, 4096},
                                     {4096, kCount},
                                     {kCount - 1, kCount},
                                     {kCount, kCount}}) {
      const std::vector<float> whole = Blended(ops(), kCount, 0, kCount, alpha, WildVector);
      std::vector<float> expected = before;
      std::copy(whole.begin() + begin, whole.begin() + end, expected.begin() + begin);
      EXPECT_EQ(Bits(Blended(ops(), kCount, begin, end, alpha, WildVector)), Bits(expected))
          << begin << " to " << end;
    }
  }
}

TEST_P(OptimizerConformance, BlendOfNothingCopiesTheAnchorAndReadsNeitherOfTheOthers) {
  constexpr size_t kCount = 2 * kSquareSumChunk + 3;
  // Unread arrays may have any content, and may be absent.
  const DenseArray theta(ops(), std::vector<float>(kCount, std::nanf("")));
  const std::vector<float> values = WildVector(kCount, 12);
  const DenseArray anchor(ops(), values);
  for (const float alpha : {0.0f, -0.0f}) {
    ASSERT_TRUE(ops()
                    .blend({}, {.begin = 1,
                                .end = kCount,
                                .theta = theta.data(),
                                .anchor = anchor.data(),
                                .alpha = alpha})
                    .ok());
    ASSERT_TRUE(ops().wait({}).ok());
    const std::vector<float> after = theta.Read();
    EXPECT_TRUE(std::isnan(after[0]));
    for (size_t i = 1; i < kCount; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(after[i]), std::bit_cast<uint32_t>(values[i])) << i;
    }
  }
}

TEST_P(OptimizerConformance, BlendRefusesNullArraysBackwardRangesAndAlphasThatAreNoNumbers) {
  const DenseArray x(ops(), {1.0f}), y(ops(), {2.0f});
  const BlendArgs good{
      .end = 1, .theta = x.data(), .anchor = y.data(), .base = y.data(), .alpha = 1};
  EXPECT_EQ(ops().blend({}, good), absl::OkStatus());
  EXPECT_EQ(ops().wait({}), absl::OkStatus());
  EXPECT_EQ(ops().blend({}, {}), absl::OkStatus());  // nothing to do
  const auto refused = [&](auto&& spoil) {
    BlendArgs bad = good;
    spoil(bad);
    return absl::IsInvalidArgument(ops().blend({}, bad));
  };
  EXPECT_TRUE(refused([](BlendArgs& a) { a.theta = nullptr; }));
  EXPECT_TRUE(refused([](BlendArgs& a) { a.anchor = nullptr; }));
  EXPECT_TRUE(refused([](BlendArgs& a) { a.base = nullptr; }));
  EXPECT_TRUE(refused([](BlendArgs& a) { a.begin = 2; }));
  EXPECT_TRUE(refused([](BlendArgs& a) { a.alpha = std::numeric_limits<float>::infinity(); }));
}

TEST_P(OptimizerConformance, ThreadsChangeNoBit) {
  const size_t n = 300 * kSquareSumChunk + 77;
  const Moments before = MomentsOf(n);
  for (const int threads : {2, 3, 8}) {
    ExpectSameBits(Step(ops(), before, Scalars(), threads), Step(ops(), before, Scalars()));
    EXPECT_EQ(SquareSum(ops(), before.theta, threads), SquareSum(ops(), before.theta));
    EXPECT_EQ(Bits(Scaled(ops(), before.theta, 0.3f, threads)),
              Bits(Scaled(ops(), before.theta, 0.3f)));
    EXPECT_EQ(Bits(Blended(ops(), n, 5, n - 3, 0.3f, TameVector, threads)),
              Bits(Blended(ops(), n, 5, n - 3, 0.3f, TameVector)));
  }
}

TEST_P(OptimizerConformance, RefusesNullArraysAndScalarsThatAreNoNumbers) {
  AdamWArgs adamw = Scalars();
  adamw.count = 1;
  EXPECT_EQ(ops().adamw({}, adamw).code(), absl::StatusCode::kInvalidArgument);
  adamw.count = 0;
  EXPECT_TRUE(ops().adamw({}, adamw).ok());
  adamw.epsilon = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ops().adamw({}, adamw).code(), absl::StatusCode::kInvalidArgument);
  double sum = 0;
  EXPECT_EQ(ops().square_sum({}, {.count = 1, .x = nullptr, .sum = &sum}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ops().square_sum({}, {.count = 0, .x = nullptr, .sum = nullptr}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ops().scale({}, {.count = 1, .x = nullptr}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ops().scale({}, {.count = 0, .scale = std::numeric_limits<float>::infinity()}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(OptimizerConformance, MemoryIsSomeOfWhatThereIs) {
  const absl::StatusOr<MachineMemory> memory = ops().memory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available_bytes, 0);
  EXPECT_LE(memory->available_bytes, memory->total_bytes);
}

LONGWAVE_CONFORMANCE_SUITE(OptimizerConformance);

}  // namespace
}  // namespace longwave::conformance

// The transform and its inverse against the plain double-precision definition, and for every
// impulse. Inputs are random, with a fixed seed; errors are measured against the input's norm.
#include "tests/support/reference/dct.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/values.h"
#include "kernels/dct_codelet.h"
#include "kernels/dct_plan.h"

namespace longwave {
namespace {

using Shape = std::tuple<uint32_t, uint32_t>;  // rows, cols

std::vector<float> RandomVector(uint32_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(2 * rng.Uniform() - 1);
  return x;
}

double Norm(const std::vector<float>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// Tolerance of one direction along one axis, relative to the input's norm. Each stage is orthogonal
// and adds at most its own rounding (of coefficient, product and sum). The odd factor of n is one
// dense stage.
double Tolerance(uint32_t n) {
  const uint32_t odd = n >> std::countr_zero(n);
  return 0x1p-24 * (4.0 + 4.0 * std::log2(n) + std::sqrt(odd));
}
double Tolerance(const Shape& s) { return Tolerance(std::get<0>(s)) + Tolerance(std::get<1>(s)); }

// As the encoder and the decoder do it: the momentum that a signal gives, and the gradient that
// coefficients give.
std::vector<float> Transformed(Isa isa, const Shape& shape, DctDirection direction,
                               const std::vector<float>& x) {
  const auto [rows, cols] = shape;
  const cpu::TilePlace place = {0, cols, rows, cols, rows, cols};
  const cpu::TilePlans plans = {DctPlan::Of(rows, direction).view(),
                                DctPlan::Of(cols, direction).view(), DctNorm(rows, cols),
                                cpu::AllRotations(), nullptr};
  const cpu::TileMath& math = cpu::TileMathOf(isa);
  const auto work = std::make_unique<cpu::TileWork>();
  std::vector<float> y(x.size());
  if (direction == DctDirection::kForward) {
    math.accumulate({place, &plans, {x.data(), nullptr, 1}, 0, y.data(), place, y.data()}, *work);
    return y;
  }
  std::ranges::copy(x, work->x);
  math.decode(place, place, &plans,
              {.rule = cpu::UpdateRule::kInner, .keep = 1, .gradient = y.data()}, 0, nullptr,
              nullptr, *work);
  return y;
}

double Distance(const std::vector<float>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

std::vector<double> ToDouble(const std::vector<float>& x) { return {x.begin(), x.end()}; }

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (uint32_t n = 1; n <= 64; ++n) shapes.emplace_back(1, n);
  for (uint32_t n : {96u, 128u, 256u, 512u, 1000u, 1024u, 2048u, 4095u, 4096u})
    shapes.emplace_back(1, n);
  for (const Shape& s :
       {Shape{64, 64}, Shape{64, 1}, Shape{48, 64}, Shape{64, 48}, Shape{3, 5}, Shape{16, 16},
        Shape{63, 64}, Shape{2, 64}, Shape{32, 1}, Shape{7, 49}, Shape{32, 128}, Shape{128, 32}}) {
    shapes.push_back(s);
  }
  return shapes;
}

class DctOfShape : public testing::TestWithParam<Shape> {
 protected:
  uint32_t size() const { return std::get<0>(GetParam()) * std::get<1>(GetParam()); }
};

TEST_P(DctOfShape, MatchesTheDefinitionInDouble) {
  const auto [rows, cols] = GetParam();
  const std::vector<float> x = RandomVector(size(), 1);
  for (const Isa isa : SupportedIsas()) {
    EXPECT_LE(Distance(Transformed(isa, GetParam(), DctDirection::kForward, x),
                       ref::Dct(ToDouble(x), rows, cols)),
              Tolerance(GetParam()) * Norm(x))
        << Name(isa);
    EXPECT_LE(Distance(Transformed(isa, GetParam(), DctDirection::kInverse, x),
                       ref::InverseDct(ToDouble(x), rows, cols)),
              Tolerance(GetParam()) * Norm(x))
        << Name(isa);
  }
}

TEST_P(DctOfShape, HasTheSameBitsInEveryInstructionSet) {
  const std::vector<float> x = RandomVector(size(), 6);
  for (const DctDirection direction : {DctDirection::kForward, DctDirection::kInverse}) {
    const std::vector<float> generic = Transformed(Isa::kGeneric, GetParam(), direction, x);
    for (const Isa isa : SupportedIsas()) {
      EXPECT_EQ(Transformed(isa, GetParam(), direction, x), generic) << Name(isa);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DctOfShape, testing::ValuesIn(Shapes()), [](const auto& info) {
  return std::to_string(std::get<0>(info.param)) + "x" + std::to_string(std::get<1>(info.param));
});

TEST(Dct, EveryImpulseOfLength64GivesItsCosine) {
  for (uint32_t at = 0; at < 64; ++at) {
    std::vector<float> x(64, 0.0f);
    x[at] = 1;
    const std::vector<float> y =
        Transformed(SupportedIsas().back(), {1, 64}, DctDirection::kForward, x);
    for (uint32_t k = 0; k < 64; ++k) {
      const double cosine =
          std::sqrt((k == 0 ? 1.0 : 2.0) / 64) * std::cos(M_PI * (2 * at + 1) * k / 128);
      EXPECT_NEAR(y[k], cosine, Tolerance(64)) << "impulse " << at << ", coefficient " << k;
    }
  }
}

TEST(DctPlan, StagesStayFewAndSparseForPowersOfTwo) {
  const DctPlanView plan = DctPlan::Of(64, DctDirection::kForward).view();
  EXPECT_LE(plan.stage_count, 9u);
  EXPECT_LE(DctPlan::Of(64, DctDirection::kForward).term_count(), 2u * 64 * plan.stage_count);
  EXPECT_LE(DctPlan::Of(4096, DctDirection::kForward).view().stage_count, 18u);
}

TEST(DctPlan, ListsTheTermsOfARowInAscendingOrder) {
  for (uint32_t n : {2u, 12u, 63u, 64u, 1000u}) {
    for (const DctDirection direction : {DctDirection::kForward, DctDirection::kInverse}) {
      const DctPlanView plan = DctPlan::Of(n, direction).view();
      for (uint32_t s = 0; s < plan.stage_count; ++s) {
        for (uint32_t i = 0; i < n; ++i) {
          const uint32_t* row = plan.row_begin + s * (n + 1) + i;
          ASSERT_LT(row[0], row[1]);
          for (uint32_t t = row[0] + 1; t < row[1]; ++t) {
            ASSERT_LT(plan.index[t - 1], plan.index[t]);
          }
        }
      }
    }
  }
}

// Coefficients come from trigonometry.h, which calls no maths library. A compiler that contracted
// its products and sums, say, would make replicas on its machines differ: it would be noticed here.
TEST(DctPlan, CoefficientsAreTheSameBitsOnEveryMachine) {
  const auto hash_of = [](uint32_t n) {
    uint64_t hash = 0;
    for (const DctDirection direction : {DctDirection::kForward, DctDirection::kInverse}) {
      const DctPlan& plan = DctPlan::Of(n, direction);
      for (size_t t = 0; t < plan.term_count(); ++t) {
        const auto bits = std::bit_cast<uint32_t>(plan.view().coefficient[t]);
        hash = Mix64(hash + bits + (uint64_t{plan.view().index[t]} << 32));
      }
    }
    return hash;
  };
  EXPECT_EQ(hash_of(64), 8346808434295477821u);
  EXPECT_EQ(hash_of(4096), 2553354149775090103u);
}

// The arithmetic of one thread.
struct Scalar {
  using V = float;
  static V Add(V a, V b) { return a + b; }
  static V Sub(V a, V b) { return a - b; }
  static V Mul(float c, V a) { return c * a; }
  static V Fma(float c, V a, V b) { return std::fma(c, a, b); }
};

std::vector<float> ByTable(const DctPlanView& plan, std::vector<float> x) {
  std::vector<float> y(x.size());
  for (uint32_t stage = 0; stage < plan.stage_count; ++stage) {
    for (uint32_t i = 0; i < plan.length; ++i) y[i] = DctStageOutput(plan, stage, i, x.data(), 1);
    x.swap(y);
  }
  return x;
}

template <uint32_t kN>
void ExpectCodeletIsTheTable() {
  std::vector<float> x = RandomVector(kN, kN);
  x[0] = -0.0f;
  x[kN / 2] = 1e-41f;
  std::vector<float> y = x;
  dct::Dct2<Scalar, kN>::Forward(y.data());
  EXPECT_EQ(y, ByTable(DctPlan::Of(kN, DctDirection::kForward).view(), x)) << kN;
  y = x;
  dct::Dct2<Scalar, kN>::Inverse(y.data());
  EXPECT_EQ(y, ByTable(DctPlan::Of(kN, DctDirection::kInverse).view(), x)) << kN;
}

TEST(DctCodelet, HasTheTablesBits) {
  ExpectCodeletIsTheTable<1>();
  ExpectCodeletIsTheTable<2>();
  ExpectCodeletIsTheTable<4>();
  ExpectCodeletIsTheTable<8>();
  ExpectCodeletIsTheTable<16>();
  ExpectCodeletIsTheTable<32>();
  ExpectCodeletIsTheTable<64>();
  ExpectCodeletIsTheTable<128>();
}

// A tile's transform by the table's stages, as dct_plan.h says.
std::vector<float> TileByTable(const Shape& shape, DctDirection direction, std::vector<float> x) {
  const auto [rows, cols] = shape;
  for (float& v : x) v *= DctNorm(rows, cols);
  const bool forward = direction == DctDirection::kForward;
  // Columns of an array [count of elements, count of vectors], then the other way around.
  uint32_t length = forward ? rows : cols, count = forward ? cols : rows;
  for (int pass = 0; pass < 2; ++pass, std::swap(length, count)) {
    std::vector<float> transposed(x.size());
    for (uint32_t v = 0; v < count; ++v) {
      std::vector<float> column(length);
      for (uint32_t i = 0; i < length; ++i) column[i] = x[i * count + v];
      column = ByTable(DctPlan::Of(length, direction).view(), column);
      for (uint32_t i = 0; i < length; ++i) transposed[v * length + i] = column[i];
    }
    x = transposed;
  }
  std::vector<float> result(x.size());
  for (uint32_t r = 0; r < length; ++r) {
    for (uint32_t c = 0; c < count; ++c) result[c * length + r] = x[r * count + c];
  }
  return result;
}

TEST_P(DctOfShape, HasTheTablesBits) {
  std::vector<float> x = RandomVector(size(), 7);
  x[size() / 2] = -0.0f;
  x[size() / 3] = 1e-41f;
  for (const DctDirection direction : {DctDirection::kForward, DctDirection::kInverse}) {
    EXPECT_EQ(Transformed(Isa::kGeneric, GetParam(), direction, x),
              TileByTable(GetParam(), direction, x));
  }
}

TEST(DctPlan, IsBuiltOnceHoweverManyThreadsAsk) {
  std::vector<const DctPlan*> seen(8);
  {
    std::vector<std::jthread> threads;
    threads.reserve(seen.size());
    for (const DctPlan*& slot : seen) {
      threads.emplace_back([&slot] { slot = &DctPlan::Of(3000, DctDirection::kInverse); });
    }
  }
  EXPECT_THAT(seen, testing::Each(testing::Eq(seen[0])));
}

}  // namespace
}  // namespace longwave

#include "worker/models/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace longwave {
namespace {

const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

AdamW Make(const AdamWOptions& options, uint64_t count, uint64_t decayed_count) {
  return *AdamW::Create(options, &Cpu(), {},
                        {{0, decayed_count, true}, {decayed_count, count - decayed_count}});
}

void Step(InnerOptimizer& optimizer, const std::vector<float>& gradient, double learning_rate,
          std::vector<float>& theta) {
  EXPECT_TRUE(optimizer.Step(gradient.data(), learning_rate, theta.data()).ok());
}

double Clip(double norm_max, std::vector<float>& gradient) {
  return *ClipToNorm(Cpu(), {}, norm_max, gradient.data(), gradient.size());
}

TEST(AdamW, MatchesTwoStepsByHand) {
  // β₁ 0.9, β₂ 0.99, ε 1e-8, wd 0.1, lr 0.1. Step 1, g = 0.5: m̂ = 0.5, √v̂ = 0.5, so θ moves by lr.
  //   decayed: 1 · (1 − 0.01) − 0.1 = 0.89;  plain: 1 − 0.1 = 0.9
  // Step 2, g = −0.25: m = 0.9 · 0.05 − 0.1 · 0.25 = 0.02, m̂ = 0.02 / 0.19;
  //   v = 0.99 · 0.0025 + 0.01 · 0.0625 = 0.0031, v̂ = 0.0031 / 0.0199
  //   ratio = 0.105263158 / 0.394688186 = 0.266699526
  //   decayed: 0.89 · 0.99 − 0.0266699526 = 0.8544300474;  plain: 0.9 − 0.0266699526 = 0.8733300474
  AdamW optimizer = Make({.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1}, 2, 1);
  std::vector<float> theta = {1, 1};
  Step(optimizer, {0.5f, 0.5f}, 0.1, theta);
  EXPECT_NEAR(theta[0], 0.89, 1e-6);
  EXPECT_NEAR(theta[1], 0.9, 1e-6);
  Step(optimizer, {-0.25f, -0.25f}, 0.1, theta);
  EXPECT_NEAR(theta[0], 0.8544300474, 1e-6);
  EXPECT_NEAR(theta[1], 0.8733300474, 1e-6);
}

TEST(AdamW, AZeroGradientMovesOnlyDecayedParameters) {
  AdamW optimizer = Make({.weight_decay = 0.5}, 3, 2);
  std::vector<float> theta = {1, -2, 3};
  Step(optimizer, std::vector<float>(3, 0.0f), 0.1, theta);
  EXPECT_FLOAT_EQ(theta[0], 0.95f);
  EXPECT_FLOAT_EQ(theta[1], -1.9f);
  EXPECT_EQ(theta[2], 3.0f);
}

TEST(AdamW, TreatsEveryPlaceAlike) {
  // Lengths around a vector's width: the remainder is computed by other code than the bulk.
  for (size_t count : {1u, 3u, 4u, 7u, 16u, 67u}) {
    AdamW optimizer = Make({.weight_decay = 0.1}, count, count);
    std::vector<float> theta(count, 0.7f);
    for (int step = 0; step < 5; ++step) {
      Step(optimizer, std::vector<float>(count, 0.3f - 0.1f * static_cast<float>(step)), 0.01,
           theta);
    }
    for (float value : theta) EXPECT_EQ(value, theta[0]) << count;
  }
}

TEST(ClipToNorm, ScalesALongGradientToTheNorm) {
  std::vector<float> gradient(18, 0.0f);
  gradient[0] = 3;
  gradient[17] = 4;
  EXPECT_DOUBLE_EQ(Clip(1.0, gradient), 5.0);
  EXPECT_FLOAT_EQ(gradient[0], 0.6f);
  EXPECT_FLOAT_EQ(gradient[17], 0.8f);
}

TEST(ClipToNorm, LeavesAShortGradientAndZeroMeansNever) {
  std::vector<float> gradient = {3, 4};
  EXPECT_DOUBLE_EQ(Clip(5.0, gradient), 5.0);
  EXPECT_DOUBLE_EQ(Clip(0, gradient), 5.0);
  EXPECT_EQ(gradient, (std::vector<float>{3, 4}));
}

TEST(AdamW, AStateThatNoStepsMakeIsRefused) {
  AdamW optimizer = Make({}, 3, 2);
  EXPECT_TRUE(optimizer.CheckState().ok());
  static_cast<double*>(optimizer.State()[2].data)[1] = std::nan("");
  EXPECT_EQ(std::string(optimizer.CheckState().message()),
            "optimizer: got a power of AdamW's beta of nan, wanted 0 to 1");
}

TEST(AdamW, LeavesAloneWhatIsInNoRange) {
  AdamW optimizer = *AdamW::Create({}, &Cpu(), {}, {{1, 1}, {3, 1}});
  std::vector<float> theta = {1, 1, 1, 1, 1};
  Step(optimizer, {1, 2, 3, 4, 5}, 0.1, theta);
  for (size_t i : {0u, 2u, 4u}) EXPECT_EQ(theta[i], 1) << i;
  for (size_t i : {1u, 3u}) EXPECT_NEAR(theta[i], 0.9, 1e-6) << i;
}

TEST(Sgd, MatchesTwoStepsByHand) {
  // μ 0.5, wd 0.1, lr 0.1. Step 1, g 2: m 2, θ 1 · 0.99 − 0.2. Step 2, g 1: m 2, θ · 0.99 − 0.2.
  Sgd optimizer = *Sgd::Create(0.5, 0.1, &Cpu(), {}, {{0, 1, true}, {1, 1}});
  std::vector<float> theta = {1, 1};
  Step(optimizer, {2, 2}, 0.1, theta);
  EXPECT_FLOAT_EQ(theta[0], 0.79f);
  EXPECT_FLOAT_EQ(theta[1], 0.8f);
  Step(optimizer, {1, 1}, 0.1, theta);
  EXPECT_FLOAT_EQ(theta[0], 0.5821f);
  EXPECT_FLOAT_EQ(theta[1], 0.6f);
}

}  // namespace
}  // namespace longwave

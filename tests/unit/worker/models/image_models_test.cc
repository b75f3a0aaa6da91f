#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "common/config/model_shape.h"
#include "common/layout/layout.h"
#include "tests/unit/worker/models/replica_parts.h"

namespace longwave {
namespace {

const ModelSection kResnet = {
    .kind = "resnet", .layers = 8, .channels = 1, .image_size = 8, .classes = 3};
const ModelSection kVit = {.kind = "vit",
                           .d_model = 16,
                           .layers = 2,
                           .heads = 2,
                           .channels = 1,
                           .image_size = 8,
                           .classes = 3,
                           .patch = 2};

class OfImages : public ::testing::TestWithParam<ModelSection> {};
INSTANTIATE_TEST_SUITE_P(Kinds, OfImages, ::testing::Values(kResnet, kVit),
                         [](const auto& info) { return info.param.kind; });

// In class c the c-th third of the rows is bright.
Batch Stripes(uint64_t seed) {
  Batch batch{.rows = 12};
  Rng rng(seed);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto label = static_cast<int64_t>(rng.Below(3));
    batch.targets.push_back(label);
    for (int64_t y = 0; y < 8; ++y)
      for (int64_t x = 0; x < 8; ++x)
        batch.pixels.push_back((y * 3 / 8 == label ? 1.0f : -1.0f) +
                               0.2f * static_cast<float>(rng.Uniform()));
  }
  return batch;
}

TEST_P(OfImages, GradientIsThatOfTheLoss) {
  const auto replica = MakeReplica(1, GetParam());
  const Batch batch = Stripes(1);
  ASSERT_TRUE(replica->ForwardBackward(batch).ok());
  const std::vector<float> gradient(Gradient(*replica).begin(), Gradient(*replica).end());
  // Along itself the loss grows by the square of the gradient's norm.
  double square_sum = 0;
  for (const float value : gradient) square_sum += double{value} * value;
  const double step = 1e-3 / std::sqrt(square_sum);
  const auto move = [&](double by) {
    for (size_t i = 0; i < gradient.size(); ++i)
      Theta(*replica)[i] += static_cast<float>(by * gradient[i]);
  };
  move(step);
  const double above = *replica->Loss(batch);
  move(-2 * step);
  const double below = *replica->Loss(batch);
  EXPECT_NEAR((above - below) / (2 * step), square_sum, 0.05 * square_sum);
}

TEST_P(OfImages, LearnsStripesAndCountsWhatItHasRight) {
  const auto replica = MakeReplica(1, GetParam());
  EXPECT_EQ(replica->parameter_count(), ModelParameterCount(GetParam()));
  AdamW optimizer = MakeOptimizer(*replica);
  for (uint64_t step = 0; step < 60; ++step) {
    ASSERT_TRUE(replica->ForwardBackward(Stripes(step)).ok());
    Step(optimizer, *replica, 0.003);
  }
  EXPECT_LT(*replica->Loss(Stripes(1000)), 0.3);
  EXPECT_EQ(replica->right(), 12u);
  EXPECT_EQ(replica->NextLogits(std::vector<int64_t>{1}).status().code(),
            absl::StatusCode::kUnimplemented);
}

// Patches are a set but for their positions: two of them, exchanged with these, give the same mean.
// A mask or a pixel in another patch would change it.
TEST(Vit, PatchesAndPositionsExchangedTogetherChangeNothing) {
  const auto replica = MakeReplica(1, kVit);
  const Batch batch = Stripes(1);
  const double loss = *replica->Loss(batch);
  Batch exchanged = batch;  // the second and the last of four by four patches of two by two pixels
  for (int64_t row = 0; row < batch.rows; ++row)
    for (const int64_t at : {0, 1, 8, 9})
      std::swap(exchanged.pixels[64 * row + 2 + at], exchanged.pixels[64 * row + 54 + at]);
  EXPECT_GT(std::abs(*replica->Loss(exchanged) - loss), 1e-5);
  const Layout layout = *Layout::Create(replica->manifest(), LayoutOptions{});
  float* const positions = replica->theta() + layout.flat_offset(kVitPositions);
  std::swap_ranges(positions + 1 * 16, positions + 2 * 16, positions + 15 * 16);
  EXPECT_NEAR(*replica->Loss(exchanged), loss, 1e-5);
}

}  // namespace
}  // namespace longwave

#include "worker/trainer/sync_options.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(SyncOptions, CarriesEveryKnob) {
  const SyncSection sync = {.signal = SignalKind::kPseudoGradient,
                            .beta = 0.5,
                            .alpha = 0.25,
                            .transform = Transform::kDct,
                            .up = {Selection::kTopK, ValueCodec::kInt2, 64},
                            .update = UpdateRule::kNesterov,
                            .eta = 0.75,
                            .follow_schedule = true,
                            .mu = 0.875,
                            .weight_decay = 0.125,
                            .overlap = 3,
                            .fragments = 2,
                            .blend = 0.0625};
  const SyncOptions options = SyncOptionsOf(sync, 42);
  EXPECT_TRUE(options.pseudo_gradient);
  EXPECT_EQ(options.transform, Transform::kDct);
  EXPECT_EQ(options.up, sync.up);
  EXPECT_EQ(options.beta, 0.5f);
  EXPECT_EQ(options.alpha, 0.25f);
  EXPECT_EQ(options.update, UpdateKind::kNesterov);
  EXPECT_EQ(options.eta, 0.75f);
  EXPECT_TRUE(options.eta_follows_learning_rate);
  EXPECT_EQ(options.mu, 0.875f);
  EXPECT_EQ(options.weight_decay, 0.125f);
  EXPECT_EQ(options.run_seed, 42u);
  EXPECT_TRUE(options.overlapped);
  EXPECT_EQ(options.fragments, 2u);
  EXPECT_EQ(options.blend, 0.0625f);
  EXPECT_FALSE(SyncOptionsOf({.overlap = 0}, 42).overlapped);
}

TEST(SyncOptions, ScalesAGradientUnlessTheInnerOptimizerWantsIt) {
  SyncSection sync = {.signal = SignalKind::kGradient, .update = UpdateRule::kSign};
  EXPECT_TRUE(SyncOptionsOf(sync, 0).scale_by_learning_rate);
  sync.update = UpdateRule::kInner;
  EXPECT_FALSE(SyncOptionsOf(sync, 0).scale_by_learning_rate);
  sync = {.signal = SignalKind::kPseudoGradient, .update = UpdateRule::kSgd};
  EXPECT_FALSE(SyncOptionsOf(sync, 0).scale_by_learning_rate);
}

}  // namespace
}  // namespace longwave

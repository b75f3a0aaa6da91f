#include "worker/member/sync_options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/config/run_config.h"
#include "worker/sync/fragments.h"

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

// The configuration's limit equals the longest sync of the plan.
TEST(ContributionStepsMax, IsThatOfTheLongestSync) {
  for (const uint32_t inner_steps : {1, 2, 7, 10}) {
    for (const uint32_t fragments : {1, 2, 3, 7}) {
      if (fragments > inner_steps) continue;
      for (uint64_t steps = 1; steps <= 35; ++steps) {
        RunConfig config;
        config.run.steps = steps;
        config.sync.inner_steps = inner_steps;
        config.sync.fragments = fragments;
        const SyncPlan plan(inner_steps, fragments, 0, steps);
        uint64_t most = 0;
        for (uint32_t round = 0; round < plan.round_count(); ++round) {
          for (uint32_t fragment = 0; fragment < fragments; ++fragment) {
            most = std::max(most, plan.At(round, fragment).steps);
          }
        }
        EXPECT_EQ(ContributionStepsMax(config), most)
            << steps << " steps, H = " << inner_steps << ", F = " << fragments;
      }
    }
  }
}

}  // namespace
}  // namespace longwave

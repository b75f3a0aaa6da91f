#include "worker/member/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace longwave {
namespace {

const TrainSection kTrain = {
    .learning_rate = 3e-3, .warmup_steps = 50, .final_learning_rate_share = 0.1};

TEST(Schedule, WarmsUpLinearly) {
  const Schedule schedule(kTrain, 600);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(0), 3e-3 / 50);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(24), 1.5e-3);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(49), 3e-3);
}

TEST(Schedule, FollowsTheCosineToItsShare) {
  const Schedule schedule(kTrain, 600);
  EXPECT_DOUBLE_EQ(schedule.LearningRate(50), 3e-3);
  EXPECT_NEAR(schedule.LearningRate(325), 3e-3 * 0.55, 1e-15);
  EXPECT_NEAR(schedule.LearningRate(600), 3e-4, 1e-15);
  for (uint64_t step = 50; step < 600; ++step) {
    const double progress = static_cast<double>(step - 50) / 550;
    const double wanted = 3e-3 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    EXPECT_NEAR(schedule.LearningRate(step), wanted, 1e-16) << step;
  }
}

TEST(Schedule, StaysInRangeWithoutWarmUpAndWithoutDecay) {
  TrainSection train = kTrain;
  train.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(Schedule(train, 10).LearningRate(0), 3e-3);
  train.warmup_steps = 10;  // as long as the run
  EXPECT_DOUBLE_EQ(Schedule(train, 10).LearningRate(9), 3e-3);
  train.final_learning_rate_share = 1;
  EXPECT_DOUBLE_EQ(Schedule(train, 100).LearningRate(77), 3e-3);
}

TEST(ValidationIsDue, AboutTwentyTimesInARunWhoseRoundsDiffer) {
  RoundPlan plan(1000);
  ASSERT_TRUE(plan.Extend({.decided_rounds = 200, .changes = {{0, 2}, {50, 40}}}).ok());
  const auto rounds = static_cast<uint32_t>(plan.round_count());
  uint32_t due = 0;
  for (uint32_t round = 0; round < rounds; ++round) due += ValidationIsDue(0, plan, round);
  EXPECT_GE(due, 19u);
  EXPECT_LE(due, 20u);
  EXPECT_TRUE(ValidationIsDue(0, plan, rounds - 1));
  EXPECT_TRUE(ValidationIsDue(7, plan, rounds - 1));
  EXPECT_TRUE(ValidationIsDue(7, plan, 6));
  EXPECT_FALSE(ValidationIsDue(7, plan, 7));
}

TEST(ValidationIsDue, AsTheIntervalSaysInOtherRuns) {
  const RoundPlan plan(10, 4005);  // 401 rounds
  for (uint32_t round = 0; round < 401; ++round)
    EXPECT_EQ(ValidationIsDue(0, plan, round), (round + 1) % 20 == 0 || round == 400);
  for (uint32_t round = 0; round < 3; ++round)
    EXPECT_TRUE(ValidationIsDue(0, RoundPlan(10, 30), round)) << "few rounds";
}

}  // namespace
}  // namespace longwave

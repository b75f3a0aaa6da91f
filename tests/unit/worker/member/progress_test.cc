#include "worker/member/progress.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

constexpr absl::Time kBegin = absl::UnixEpoch();

RoundReport Report(uint32_t round, uint64_t tokens) {
  return {.round = round,
          .step = (uint64_t{round} + 1) * 10,
          .train_loss = 2.5,
          .tokens = tokens,
          .bytes = {.pushed = 1500, .pulled = 63'249}};
}

TEST(Progress, SaysStepLossSpeedBytesAndTimeLeft) {
  Progress progress(120);
  const RoundPlan plan(10, 120);
  progress.StepBegins(0, 500, kBegin);
  EXPECT_EQ(
      progress.RoundDone(Report(0, 20'500), plan, kBegin + absl::Seconds(2)),
      "round  1/12  step  10/120  loss 2.500    10.0 k tokens/s  pushed   1.5 kB  pulled  63.2 "
      "kB  left 0:22");
}

TEST(Progress, CountsTheSpeedOfThisProcessAlone) {
  Progress progress(120);
  const RoundPlan plan(10, 120);
  progress.StepBegins(50, 1'000'000, kBegin);
  const auto line = progress.RoundDone(Report(5, 1'001'000), plan, kBegin + absl::Seconds(1));
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->find("1.0 k tokens/s"), std::string::npos) << *line;
  EXPECT_NE(line->find("left 0:06"), std::string::npos) << *line;
}

TEST(Progress, LeavesOutRoundsOfTheSameSecondButNotTheLast) {
  Progress progress(40);
  const RoundPlan plan(10, 40);
  progress.StepBegins(0, 0, kBegin);
  EXPECT_TRUE(progress.RoundDone(Report(0, 10), plan, kBegin + absl::Milliseconds(10)).has_value());
  EXPECT_FALSE(
      progress.RoundDone(Report(1, 20), plan, kBegin + absl::Milliseconds(20)).has_value());
  EXPECT_TRUE(
      progress.RoundDone(Report(2, 30), plan, kBegin + absl::Milliseconds(1500)).has_value());
  EXPECT_TRUE(
      progress.RoundDone(Report(3, 40), plan, kBegin + absl::Milliseconds(1510)).has_value());
}

TEST(Progress, ExpectsAsManyRoundsAsTheIntervalGives) {
  Progress progress(120);
  RoundPlan plan(120);
  ASSERT_TRUE(plan.Extend({.decided_rounds = 3, .changes = {{0, 10}, {2, 20}}}).ok());
  progress.StepBegins(0, 0, kBegin);
  const auto line = progress.RoundDone(Report(0, 10), plan, kBegin + absl::Seconds(2));
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->substr(0, 11), "round 1/7  ");
}

TEST(Progress, IsSilentOfSealingRoundsAndOfRoundsWithoutTraining) {
  Progress progress(40);
  const RoundPlan plan(10, 40);
  EXPECT_FALSE(progress.RoundDone(Report(2, 10), plan, kBegin).has_value());
  progress.StepBegins(30, 0, kBegin);
  EXPECT_FALSE(progress.RoundDone(Report(4, 10), plan, kBegin + absl::Seconds(9)).has_value());
}

}  // namespace
}  // namespace longwave

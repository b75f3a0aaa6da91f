#include "common/control/round_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace longwave {
namespace {

using testing::HasSubstr;

std::vector<uint64_t> FirstSteps(const RoundPlan& plan, uint32_t until) {
  std::vector<uint64_t> steps;
  for (uint32_t round = 0; round <= until; ++round) steps.push_back(plan.FirstStep(round));
  return steps;
}

TEST(RoundPlan, OfAFixedIntervalIsWholeFromTheBeginning) {
  const RoundPlan plan(4, 10);
  EXPECT_TRUE(plan.is_fixed());
  EXPECT_EQ(plan.round_count(), 3u);
  EXPECT_EQ(plan.expected_round_count(), 3u);
  EXPECT_EQ(FirstSteps(plan, 4), (std::vector<uint64_t>{0, 4, 8, 10, 10}));
  EXPECT_EQ(plan.InnerSteps(1'000'000), 4u);
  for (uint64_t step = 0; step < 10; ++step) EXPECT_EQ(plan.RoundOf(step), step / 4);
}

TEST(RoundPlan, GrowsByDecisionsUntilTheRunsEnd) {
  RoundPlan plan(30);
  EXPECT_FALSE(plan.IsDecided(0));
  EXPECT_EQ(plan.FirstStep(0), 0u);
  EXPECT_EQ(plan.RoundOf(0), 0u);
  EXPECT_EQ(plan.expected_round_count(), 0u);
  ASSERT_TRUE(plan.Extend({.decided_rounds = 3, .changes = {{0, 4}}}).ok());
  EXPECT_EQ(plan.round_count(), kRoundNever);
  EXPECT_EQ(plan.expected_round_count(), 8u);  // 12 steps, and 18 in rounds of 4
  EXPECT_EQ(plan.RoundOf(12), 3u);
  EXPECT_EQ(plan.RoundOf(29), 3u);
  // The next part overlaps with what is known.
  ASSERT_TRUE(plan.Extend({.decided_rounds = 5, .changes = {{1, 4}, {4, 8}}}).ok());
  EXPECT_EQ(plan.last_change(), 4u);
  EXPECT_EQ(plan.change_count(), 1u);
  EXPECT_EQ(FirstSteps(plan, 5), (std::vector<uint64_t>{0, 4, 8, 12, 16, 24}));
  ASSERT_TRUE(plan.Extend({.decided_rounds = 9, .changes = {{5, 8}}}).ok());
  EXPECT_EQ(plan.round_count(), 6u);
  EXPECT_EQ(FirstSteps(plan, 8), (std::vector<uint64_t>{0, 4, 8, 12, 16, 24, 30, 30, 30}));
  EXPECT_EQ(plan.RoundOf(23), 4u);
  EXPECT_EQ(plan.RoundOf(24), 5u);
}

TEST(RoundPlan, APartFromAnyRoundOnLeadsToTheSamePlan) {
  RoundPlan whole(100);
  ASSERT_TRUE(whole.Extend({.decided_rounds = 9, .changes = {{0, 3}, {2, 5}, {7, 4}}}).ok());
  for (uint32_t known = 0; known <= 9; ++known) {
    RoundPlan plan(100);
    Intervals first = whole.From(0);
    while (!first.changes.empty() && first.changes.back().first_round >= known)
      first.changes.pop_back();
    first.decided_rounds = known;
    ASSERT_TRUE(plan.Extend(first).ok());
    ASSERT_EQ(plan.decided_rounds(), known);
    ASSERT_TRUE(plan.Extend(whole.From(known)).ok());
    EXPECT_EQ(plan.From(0), whole.From(0));
    EXPECT_EQ(FirstSteps(plan, 9), FirstSteps(whole, 9));
  }
}

TEST(RoundPlan, RefusesGapsAndContradictions) {
  RoundPlan plan(100);
  ASSERT_TRUE(plan.Extend({.decided_rounds = 6, .changes = {{0, 3}, {2, 5}}}).ok());
  const Intervals before = plan.From(0);
  const auto refusal = [&](const Intervals& part) {
    const absl::Status status = plan.Extend(part);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(plan.From(0), before);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal({.decided_rounds = 9, .changes = {{7, 5}}}),
            "rounds before 9 are decided from round 7 on, wanted from round 6 on");
  EXPECT_THAT(refusal({.decided_rounds = 9, .changes = {}}), HasSubstr("wanted from round 6 on"));
  EXPECT_EQ(refusal({.decided_rounds = 9, .changes = {{1, 3}, {4, 6}}}),
            "round 2 has 3 inner steps, wanted 5 as was decided before");
  EXPECT_THAT(refusal({.decided_rounds = 9, .changes = {{6, 0}}}), HasSubstr("0 inner steps"));
  EXPECT_THAT(refusal({.decided_rounds = 6, .changes = {{6, 5}}}), HasSubstr("at least one"));
  EXPECT_TRUE(plan.Extend({.decided_rounds = 4, .changes = {}}).ok());  // known
}

}  // namespace
}  // namespace longwave

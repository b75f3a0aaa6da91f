#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/shard/aggregator_testing.h"

// Rounds that close without some of their members, on a clock of the test's own.

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AggregatorQuorum : public AggregatorTest {
 protected:
  // Half of the members, and a second for the others.
  static AggregatorOptions Half() {
    AggregatorOptions options = DenseOptions();
    options.quorum = 0.5;
    options.grace_min = absl::Seconds(1);
    options.grace_max = absl::Seconds(10);
    return options;
  }
  // The round closes by the end of the grace.
  void CloseByTime() {
    now_ = aggregator_->NextDue();
    ASSERT_LT(now_, absl::InfiniteFuture());
    ASSERT_TRUE(Merged(Step(TimePassed{})));
  }
  std::vector<uint32_t> WaitingFor() { return aggregator_->OpenSegments()[0].waiting_for; }
};

TEST_F(AggregatorQuorum, ClosesWithoutTheOthersWhenTheirGraceHasPassed) {
  Start(Half(), Members(1, {0, 1, 2, 3}));
  Step(Push(0, 0, 2, 1));
  EXPECT_EQ(aggregator_->NextDue(), absl::InfiniteFuture());
  StepAfter(5, Push(1, 0, 2, 3));
  EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(1));
  EXPECT_THAT(StepAfter(0.999, TimePassed{}), IsEmpty());
  const auto merged = Merged(StepAfter(0.001, TimePassed{}));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->header.contributions, 2u);
  EXPECT_EQ(DecodeDense(merged->payload.bytes(), layout_, 2)[0], 2);
  EXPECT_THAT(merged->workers, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(aggregator_->state().closed_by_quorum, 1u);
  EXPECT_EQ(aggregator_->NextDue(), absl::InfiniteFuture());
  EXPECT_EQ(aggregator_->open_round(2), 1u);
}

TEST_F(AggregatorQuorum, IsAShareRoundedUpAndAtLeastOne) {
  struct Case {
    double quorum;
    uint32_t members;
    uint32_t wanted;
  };
  for (const Case& c : {Case{0, 5, 1}, Case{0.1, 30, 3}, Case{0.1, 31, 4}, Case{0.5, 4, 2},
                        Case{0.5, 5, 3}, Case{0.7, 10, 7}, Case{0.999, 10, 10}, Case{0.3, 2, 1}}) {
    AggregatorOptions options = Half();
    options.quorum = c.quorum;
    std::vector<uint32_t> workers(c.members);
    for (uint32_t i = 0; i < c.members; ++i) workers[i] = i;
    Start(options, Members(1, workers));
    uint32_t pushed = 0;
    while (aggregator_->NextDue() == absl::InfiniteFuture() && aggregator_->open_round(2) == 0) {
      Step(Push(pushed++, 0, 2));
    }
    EXPECT_EQ(pushed, c.wanted) << c.quorum << " of " << c.members;
  }
}

TEST_F(AggregatorQuorum, TakesWhatComesAfterTheGraceAndBeforeTheClose) {
  Start(Half(), Members(1, {0, 1, 2}));
  Step(Push(0, 0, 2));
  Step(Push(1, 0, 2));
  const auto effects = StepAfter(60, Push(2, 0, 2));
  EXPECT_EQ(Sent<AnswerFrame>(effects[0]).header.outcome, Outcome::kAccepted);
  EXPECT_EQ(Merged(effects)->header.contributions, 3u);
}

TEST_F(AggregatorQuorum, EachSegmentHasItsOwnTime) {
  Start(Half(), Members(1, {0, 1}));
  Step(Push(0, 0, 3));
  const absl::Time first = now_ + absl::Seconds(1);
  StepAfter(0.5, Push(0, 0, 2));
  EXPECT_EQ(aggregator_->NextDue(), first);
  CloseByTime();
  EXPECT_EQ(aggregator_->open_round(3), 1u);
  EXPECT_EQ(aggregator_->open_round(2), 0u);
  EXPECT_EQ(aggregator_->NextDue(), first + absl::Seconds(0.5));
}

TEST_F(AggregatorQuorum, AMembershipThatMakesAQuorumStartsTheGrace) {
  Start(Half(), Members(1, {0, 1, 2, 3}));
  Step(Push(0, 0, 2));
  EXPECT_THAT(StepAfter(7, MembershipChanged{Members(2, {0, 1})}), IsEmpty());
  EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(1));
}

TEST_F(AggregatorQuorum, AMembershipThatUnmakesTheQuorumEndsTheGrace) {
  Start(Half(), Members(1, {0, 1}));
  Step(Push(0, 0, 2));
  StepAfter(0.5, MembershipChanged{Members(2, {0, 1, 2})});
  EXPECT_EQ(aggregator_->NextDue(), absl::InfiniteFuture());
  StepAfter(7, Push(1, 0, 2));
  EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(1));
}

TEST_F(AggregatorQuorum, WhoHasLeftIsNotOfTheQuorumButStaysInTheMerge) {
  Start(Half(), Members(1, {0, 1, 2, 3}));
  Step(Push(0, 0, 2));
  Step(MembershipChanged{Members(2, {1, 2, 3})});
  Step(Push(1, 0, 2));
  EXPECT_EQ(aggregator_->NextDue(), absl::InfiniteFuture());
  Step(Push(2, 0, 2));
  EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(1));
  now_ = aggregator_->NextDue();
  EXPECT_EQ(Merged(Step(TimePassed{}))->header.contributions, 3u);
}

TEST_F(AggregatorQuorum, WhoMissesTwoClosesIsNotWaitedFor) {
  Start(Half(), Members(1, {0, 1}));
  for (uint32_t round = 0; round < 2; ++round) {
    EXPECT_THAT(WaitingFor(), ElementsAre(0, 1));
    Step(Push(0, round, 2));
    CloseByTime();
  }
  EXPECT_THAT(WaitingFor(), ElementsAre(0));
  EXPECT_TRUE(Merged(Step(Push(0, 2, 2))));
  EXPECT_EQ(aggregator_->state().closed_by_quorum, 2u);
  // The worker is still a member and gets updates.
  EXPECT_THAT(Merged(Step(Push(0, 3, 2)))->workers, ElementsAre(0, 1));
  // Other segments are not affected.
  Step(Push(0, 0, 3));
  EXPECT_EQ(aggregator_->open_round(3), 0u);
}

TEST_F(AggregatorQuorum, AnyPushEndsThat) {
  for (const uint32_t round : {1u, 2u}) {  // the last closed one, the open one
    Start(Half(), Members(1, {0, 1, 2}));
    for (uint32_t r = 0; r < 2; ++r) {
      Step(Push(0, r, 2));
      Step(Push(1, r, 2));
      CloseByTime();
    }
    EXPECT_THAT(WaitingFor(), ElementsAre(0, 1));
    EXPECT_THAT(Step(Pull(2, 2, 2)), IsEmpty());
    EXPECT_THAT(WaitingFor(), ElementsAre(0, 1));  // a worker that only pulls is behind
    Step(Push(2, round, 2));
    Step(Push(0, 2, 2));
    if (round == 1) {
      EXPECT_THAT(WaitingFor(), ElementsAre(1, 2));
    }
    if (round == 2) {
      EXPECT_THAT(WaitingFor(), ElementsAre(1));
    }
    Step(Push(1, 2, 2));
    EXPECT_EQ(aggregator_->open_round(2), round == 1 ? 2u : 3u);
  }
}

TEST_F(AggregatorQuorum, APushOfAnOlderRoundEndsItToo) {
  Start(Half(), Members(1, {0, 1}));
  for (uint32_t round = 0; round < 2; ++round) {
    Step(Push(0, round, 2));
    CloseByTime();
  }
  Only(Step(Push(1, 0, 2)), Outcome::kCompacted);
  EXPECT_THAT(WaitingFor(), ElementsAre(0, 1));
}

TEST_F(AggregatorQuorum, ALatePushBetweenTwoMissedClosesKeepsAMemberWaitedFor) {
  Start(Half(), Members(1, {0, 1}));
  for (uint32_t round = 0; round < 5; ++round) {
    EXPECT_THAT(WaitingFor(), ElementsAre(0, 1));
    Step(Push(0, round, 2));
    CloseByTime();
    StepAfter(100, Push(1, round, 2));
  }
}

TEST_F(AggregatorQuorum, WhoIsGivenUpAndNoLongerDueIsNotCountedForOthers) {
  Start(Half(), Members(1, {0, 1, 2}));
  for (uint32_t round = 0; round < 2; ++round) {
    Step(Push(0, round, 2));
    Step(Push(1, round, 2));
    CloseByTime();
  }
  // Worker 2 begins anew in a later round: two are due, and both are waited for.
  Membership membership = Members(2, {0, 1});
  membership.members.push_back({2, "w2", 9});
  Step(MembershipChanged{membership});
  EXPECT_FALSE(Merged(Step(Push(0, 2, 2))));
  EXPECT_THAT(WaitingFor(), ElementsAre(1));
  EXPECT_TRUE(Merged(Step(Push(1, 2, 2))));
}

// A worker needs two seconds longer than the other, and the grace begins with one.
TEST_F(AggregatorQuorum, TheGraceGrowsUntilWhoIsAlwaysALittleLateIsInTime) {
  Start(Half(), Members(1, {0, 1}));
  for (uint32_t round = 0; round < 3; ++round) {
    Step(Push(0, round, 2));
    EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(1));
    CloseByTime();
    EXPECT_EQ(Sent<AnswerFrame>(StepAfter(1, Push(1, round, 2))[0]).header.outcome, Outcome::kLate);
    StepAfter(50, Push(1, round, 2));  // once more, for want of an answer: says nothing
  }
  for (uint32_t round = 3; round < 20; ++round) {
    Step(Push(0, round, 2));
    EXPECT_EQ(aggregator_->NextDue(), now_ + absl::Seconds(2));
    EXPECT_THAT(StepAfter(1.5, TimePassed{}), IsEmpty());
    EXPECT_EQ(Merged(StepAfter(0.5, Push(1, round, 2)))->header.contributions, 2u);
  }
  EXPECT_EQ(aggregator_->state().closed_by_quorum, 3u);
}

}  // namespace
}  // namespace longwave

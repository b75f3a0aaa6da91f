#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/unit/shard/aggregator_testing.h"

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(AggregatorTest, ClosesASegmentWhenEveryMemberHasPushed) {
  Start(DenseOptions(), Members(1, {0, 1}));
  Only(Step(Push(0, 0, 2, 1)), Outcome::kAccepted);
  PushArrived second = Push(1, 0, 2, 5);
  second.header.weight = 3;
  const auto effects = Step(second);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(Sent<AnswerFrame>(effects[0]).header.outcome, Outcome::kAccepted);
  const auto merged = Sent<MergedFrame>(effects[1]);
  EXPECT_THAT(merged.workers, ElementsAre(0, 1));
  EXPECT_EQ(merged.header.round, 0u);
  EXPECT_EQ(merged.header.segment, 2u);
  EXPECT_EQ(merged.header.weight, 4u);
  EXPECT_EQ(merged.header.contributions, 2u);
  EXPECT_FLOAT_EQ(merged.header.norm, 4 * std::sqrt(204.0f));
  EXPECT_THAT(DecodeDense(merged.payload.bytes(), layout_, 2),
              ElementsAre(4, 8, 12, 16, 20, 24, 28, 32));
}

TEST_F(AggregatorTest, SegmentsCloseOnTheirOwn) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_TRUE(Merged(Step(Push(0, 0, 3))));
  EXPECT_TRUE(Merged(Step(Push(0, 1, 3))));
  const auto open = aggregator_->OpenSegments();
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].segment, 2u);
  EXPECT_EQ(open[0].open_round, 0u);
  EXPECT_EQ(open[1].segment, 3u);
  EXPECT_EQ(open[1].open_round, 2u);
  EXPECT_EQ(aggregator_->state().open_round, 0u);
  EXPECT_EQ(aggregator_->state().newest_round, 2u);
  EXPECT_EQ(aggregator_->state().segments_closed, 2u);
}

TEST_F(AggregatorTest, ShowsWhomASegmentWaitsForAndWhatItHolds) {
  Start(DenseOptions(), Members(1, {0, 1, 2}));
  Step(Push(1, 0, 2));
  const auto open = aggregator_->OpenSegments();
  EXPECT_THAT(open[0].waiting_for, ElementsAre(0, 2));
  EXPECT_EQ(open[0].open_bytes, Payload(1).size());
  EXPECT_THAT(open[1].waiting_for, ElementsAre(0, 1, 2));
}

TEST_F(AggregatorTest, AnswersARepeatedPushOfTheOpenRoundAsDuplicate) {
  Start(DenseOptions(), Members(1, {0, 1}));
  const auto first = Push(0, 0, 2, 1);
  Only(Step(first), Outcome::kAccepted);
  const auto effects = Step(Push(0, 0, 2, 100));
  Only(effects, Outcome::kDuplicate);
  EXPECT_EQ(Sent<AnswerFrame>(effects[0]).header.held_crc, first.header.payload_crc);
  const auto merged = Merged(Step(Push(1, 0, 2, 1)));
  ASSERT_TRUE(merged);
  EXPECT_THAT(DecodeDense(merged->payload.bytes(), layout_, 2),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));  // the first copy counts
}

TEST_F(AggregatorTest, AnswersARepeatedPushOfTheClosedRoundWithTheMergedUpdate) {
  Start(DenseOptions(), Members(1, {0, 1}));
  Step(Push(0, 0, 2));
  const auto closing = Step(Push(1, 0, 2));
  const auto effects = Step(Push(0, 0, 2));
  ASSERT_EQ(effects.size(), 2u);
  const AnswerFrame& answer = Sent<AnswerFrame>(effects[0]).header;
  EXPECT_EQ(answer.outcome, Outcome::kDuplicate);
  EXPECT_EQ(answer.held_crc, Push(0, 0, 2).header.payload_crc);
  const auto again = Merged(effects);
  ASSERT_TRUE(again);
  EXPECT_THAT(again->workers, ElementsAre(0));
  EXPECT_EQ(again->header, Merged(closing)->header);
  EXPECT_EQ(again->payload.bytes().data(), Merged(closing)->payload.bytes().data());
}

TEST_F(AggregatorTest, AnswersLateWhatWasNotInTheClosedRound) {
  Start(DenseOptions(), Members(1, {0, 1}));
  Step(Push(0, 0, 2));
  Step(MembershipChanged{Members(2, {0})});     // closes without worker 1
  Step(MembershipChanged{Members(3, {0, 1})});  // which comes back
  const auto effects = Step(Push(1, 0, 2));
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(Sent<AnswerFrame>(effects[0]).header.outcome, Outcome::kLate);
  EXPECT_EQ(Sent<AnswerFrame>(effects[0]).header.open_round, 1u);
  EXPECT_THAT(Merged(effects)->workers, ElementsAre(1));  // which need not pull it
  EXPECT_EQ(Merged(effects)->header.round, 0u);
}

TEST_F(AggregatorTest, TakesAnyCodecAndKOfTopk) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kTopK, ValueCodec::kBf16, 2};
  Start(options, Members(1, {0}));
  std::vector<float> dense(kTileSize);
  for (uint32_t i = 0; i < kTileSize; ++i) dense[i] = static_cast<float>(i) - 3;
  // More formats than a segment remembers, twice, so that forgotten ones come again.
  uint32_t round = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int codec = 0; codec < 6; ++codec) {
      for (uint16_t k = 1; k <= kTileSize; ++k) {
        const PayloadFormat format{Selection::kTopK, static_cast<ValueCodec>(codec), k};
        const Buffer payload(EncodeDense(format, layout_, 2, dense));
        const auto effects = Step(PushArrived{PushHeader(0, round++, 2), payload});
        const auto merged = Merged(effects);
        ASSERT_TRUE(merged);
        EXPECT_EQ(DecodeDense(merged->payload.bytes(), layout_, 2),
                  DecodeDense(payload.bytes(), layout_, 2));
      }
    }
  }
}

// Fp32 beside one bit, in one merge: each worker names its own codec.
TEST_F(AggregatorTest, TakesAnyCodecOfTheOtherSelections) {
  for (const Selection selection : {Selection::kAll, Selection::kRandom, Selection::kStride}) {
    const auto k = static_cast<uint16_t>(selection == Selection::kAll ? 0 : 4);
    AggregatorOptions options = DenseOptions();
    options.up = {selection, ValueCodec::kFp32, k};
    Start(options, Members(1, {0, 1, 2, 3, 4, 5}));
    std::vector<float> dense(kTileSize, 1.0f);
    std::vector<float> sum(kTileSize);
    for (uint32_t worker = 0; worker < 6; ++worker) {
      const PayloadFormat format{selection, static_cast<ValueCodec>(worker), k};
      for (float& v : dense) v = -2 * v;
      const Buffer payload(EncodeDense(format, layout_, 2, dense));
      const std::vector<float> sent = DecodeDense(payload.bytes(), layout_, 2);
      for (uint32_t i = 0; i < kTileSize; ++i) sum[i] += sent[i];
      const auto effects = Step(PushArrived{PushHeader(worker, 0, 2), payload});
      if (worker < 5) {
        Only(effects, Outcome::kAccepted);
        continue;
      }
      const auto merged = Merged(effects);
      ASSERT_TRUE(merged);
      EXPECT_EQ(merged->header.contributions, 6u);
      const std::vector<float> g = DecodeDense(merged->payload.bytes(), layout_, 2);
      for (uint32_t i = 0; i < kTileSize; ++i) EXPECT_NEAR(g[i], sum[i] / 6, 1e-5) << i;
    }
  }
}

TEST_F(AggregatorTest, APullIsAnsweredByTheRoundItAsksFor) {
  Start(DenseOptions(), Members(1, {0, 1}));
  EXPECT_THAT(Step(Pull(0, 0, 2)), IsEmpty());  // open: the close will send it
  for (uint32_t round = 0; round < 2; ++round) {
    Step(Push(0, round, 2));
    Step(Push(1, round, 2));
  }
  const auto again = Step(Pull(1, 1, 2));
  ASSERT_EQ(again.size(), 1u);
  ASSERT_TRUE(Merged(again));
  EXPECT_THAT(Merged(again)->workers, ElementsAre(1));
  EXPECT_EQ(Merged(again)->header.round, 1u);
  Only(Step(Pull(1, 0, 2)), Outcome::kCompacted);
  EXPECT_EQ(Only(Step(Pull(1, 3, 2)), Outcome::kRejected),
            "pull of worker 1, round 3, segment 2: wanted round 2 or before");
  EXPECT_EQ(Only(Step(Pull(8, 1, 2)), Outcome::kNotMember), "");
  EXPECT_EQ(aggregator_->state().pushes_late + aggregator_->state().pushes_rejected, 0u);
}

TEST_F(AggregatorTest, AMemberThatLeavesIsNoLongerWaitedForButItsPushStays) {
  Start(DenseOptions(), Members(1, {0, 1, 2}));
  Step(Push(0, 0, 2, 1));
  Step(Push(2, 0, 2, 3));  // segment 2 waits for worker 1 alone
  Step(Push(0, 0, 3, 1));  // segment 3 for workers 1 and 2
  const auto effects = Step(MembershipChanged{Members(2, {0, 2})});
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_THAT(Merged(effects)->workers, ElementsAre(0, 2));
  EXPECT_EQ(Merged(effects)->header.epoch, 2u);
  const auto next = Step(MembershipChanged{Members(3, {2})});
  EXPECT_THAT(next, IsEmpty());  // worker 0 has left, its push to segment 3 stays
  const auto merged = Merged(Step(Push(2, 0, 3, 3)));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->header.contributions, 2u);
  EXPECT_THAT(merged->workers, ElementsAre(2));
  EXPECT_EQ(DecodeDense(merged->payload.bytes(), layout_, 3)[0], 2);
}

TEST_F(AggregatorTest, ASegmentThatNobodyPushedToStaysOpenWhenAllLeave) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_THAT(Step(MembershipChanged{Members(2, {})}), IsEmpty());
  EXPECT_EQ(aggregator_->state().segments_closed, 0u);
}

TEST_F(AggregatorTest, IgnoresAMembershipThatWasOvertaken) {
  Start(DenseOptions(), Members(2, {0, 1}));
  Step(MembershipChanged{Members(1, {0})});
  Only(Step(Push(0, 0, 2)), Outcome::kAccepted);  // still waits for worker 1
}

TEST_F(AggregatorTest, WaitsForAJoinerOnlyFromItsFirstRoundOn) {
  Membership membership = Members(1, {0});
  membership.members.push_back({1, "w1", 1});
  Start(DenseOptions(), membership);
  const auto merged = Merged(Step(Push(0, 0, 2)));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->header.contributions, 1u);
  Only(Step(Push(0, 1, 2)), Outcome::kAccepted);
  const auto both = Merged(Step(Push(1, 1, 2)));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->header.contributions, 2u);
}

TEST_F(AggregatorTest, SendsUpdatesToJoiningMembersTooAndAnswersTheirPulls) {
  Membership membership = Members(1, {0});
  membership.members.push_back({1, "w1", kRoundNever});
  Start(DenseOptions(), membership);
  const auto merged = Merged(Step(Push(0, 0, 2)));
  ASSERT_TRUE(merged);
  EXPECT_THAT(merged->workers, ElementsAre(0, 1));
  EXPECT_THAT(Merged(Step(Pull(1, 0, 2)))->workers, ElementsAre(1));
  Only(Step(Push(1, 1, 2)), Outcome::kNotMember);
}

TEST_F(AggregatorTest, APushBeforeTheFirstRoundIsStillThatOfItsRound) {
  Start(DenseOptions(), Members(1, {0, 1, 2}));
  Only(Step(Push(0, 0, 2)), Outcome::kAccepted);
  Only(Step(Push(0, 0, 3)), Outcome::kAccepted);
  Step(Push(1, 0, 3));
  Step(Push(2, 0, 3));
  // Worker 0 was lost and is back, to take part later. Its earlier push counts.
  Membership membership = Members(2, {1, 2});
  membership.members.insert(membership.members.begin(), {0, "w0", 5});
  Step(MembershipChanged{membership});
  Only(Step(Push(0, 0, 2)), Outcome::kDuplicate);
  EXPECT_EQ(Sent<AnswerFrame>(Step(Push(0, 0, 3))[0]).header.outcome, Outcome::kDuplicate);
  Step(Push(1, 0, 2));
  EXPECT_EQ(Merged(Step(Push(2, 0, 2)))->header.contributions, 3u);
}

TEST_F(AggregatorTest, AnswersNameTheOpenRoundOfTheSegment) {
  Start(DenseOptions(), Members(1, {0, 1}));
  const auto open_round = [&](const AggregatorEvent& event) {
    return Sent<AnswerFrame>(Step(event)[0]).header.open_round;
  };
  EXPECT_EQ(open_round(Push(0, 0, 2)), 0u);
  EXPECT_EQ(open_round(Push(1, 0, 2)), 0u);  // open when it was accepted
  EXPECT_EQ(open_round(Push(1, 0, 2)), 1u);
  EXPECT_EQ(open_round(Pull(1, 9, 2)), 1u);
  EXPECT_EQ(open_round(Push(1, 9, 3)), 0u);
  EXPECT_EQ(open_round(Push(9, 0, 2)), 1u);
  const FetchFrame fetch{.run = kRun, .worker = 1, .segment = 2};
  const AnswerFrame answer = aggregator_->AnswerTo(fetch, Outcome::kAccepted);
  EXPECT_EQ(answer.to, FrameKind::kFetch);
  EXPECT_EQ(answer.open_round, 1u);
  EXPECT_EQ(answer.worker, 1u);
  EXPECT_EQ(aggregator_->state().pushes_accepted, 2u);  // a fetch is none
}

TEST_F(AggregatorTest, CountsWhatBecameOfPushes) {
  Start(DenseOptions(), Members(1, {0}));
  Step(Push(0, 0, 2));
  Step(Push(0, 0, 2));
  Step(Push(0, 1, 2));
  Step(Push(0, 0, 2));
  Step(Push(5, 0, 2));
  Step(Push(0, 7, 2));
  const ShardState state = aggregator_->state();
  EXPECT_EQ(state.pushes_accepted, 2u);
  EXPECT_EQ(state.pushes_duplicate, 1u);
  EXPECT_EQ(state.pushes_late, 0u);  // round 0 is compacted
  EXPECT_EQ(state.pushes_rejected, 1u);
}

TEST_F(AggregatorTest, KeepsWhatTopkHoldsBackForTheNextRound) {
  AggregatorOptions options = DenseOptions();
  options.down = {Selection::kTopK, ValueCodec::kFp32, 7};
  Start(options, Members(1, {0}));
  Step(Push(0, 0, 2));  // 1 … 8 of which 1 stays
  EXPECT_EQ(aggregator_->ResidualSquareSum(2), 1);
  Step(Push(0, 1, 2));  // 2, 2 … 8: the tie goes to the smaller index, so the second 2 stays
  EXPECT_EQ(aggregator_->ResidualSquareSum(2), 4);
}

// Four workers push eight rounds to two segments in any order, some of it twice: every order gives
// the same updates to the byte.
TEST_F(AggregatorTest, GivesTheSameUpdatesInEveryOrderOfArrival) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kTopK, ValueCodec::kInt4, 3};
  options.down = {Selection::kTopK, ValueCodec::kInt2, 4};
  options.rho = 0.25;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> wanted;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Start(options, Members(1, {0, 1, 2, 3}));
    Rng rng(seed);
    uint32_t next[4][2] = {};  // round that each worker pushes next, by segment
    while (aggregator_->state().segments_closed < 16) {
      const auto worker = static_cast<uint32_t>(rng.Below(4));
      const auto segment = static_cast<uint32_t>(rng.Below(2));
      uint32_t& round = next[worker][segment];
      if (round > aggregator_->OpenSegments()[segment].open_round) continue;  // not closed yet
      if (round == 8) continue;
      Rng content(worker * 1000 + round * 10 + segment);
      std::vector<float> dense;
      for (uint32_t i = 0; i < kTileSize; ++i) {
        dense.push_back(static_cast<float>(content.Uniform() - 0.5));
      }
      PushArrived push{PushHeader(worker, round, segment + 2),
                       Buffer(EncodeDense(up_, layout_, segment + 2, dense))};
      push.header.weight = 1 + content.Below(1000);
      auto effects = Step(push);
      if (rng.Below(3) == 0) Step(push);
      ++round;
      if (const auto merged = Merged(effects)) {
        const auto bytes = merged->payload.bytes();
        const std::vector<std::byte> got(bytes.begin(), bytes.end());
        const auto [place, is_first] =
            wanted.try_emplace({merged->header.round, merged->header.segment}, got);
        EXPECT_TRUE(is_first || place->second == got)
            << "round " << place->first.first << ", segment " << place->first.second;
      }
    }
  }
  EXPECT_EQ(wanted.size(), 16u);
}

}  // namespace
}  // namespace longwave

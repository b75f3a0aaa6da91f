#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "server/store/log_record.h"
#include "server/store/snapshot_format.h"
#include "tests/unit/shard/aggregator_testing.h"

// Records that an aggregator with a log wants to be kept, and requests that it leaves to the log.

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class AggregatorLog : public AggregatorTest {
 protected:
  static AggregatorOptions Logged() {
    AggregatorOptions options = DenseOptions();
    options.logs = true;
    return options;
  }
  static const MergedRecord* Kept(const std::vector<ShardEffect>& effects) {
    for (const auto& effect : effects) {
      if (const auto* kept = LoggedIn<MergedRecord>(effect)) return kept;
    }
    return nullptr;
  }
};

TEST_F(AggregatorLog, KeepsAPushBeforeItsAnswerAndACloseBeforeItsUpdate) {
  Start(Logged(), Members(1, {0, 1}));
  const PushArrived push = Push(0, 0, 2, 3);
  auto effects = Step(push);
  ASSERT_EQ(effects.size(), 2u);
  const auto& kept = *LoggedIn<PushRecord>(effects[0]);
  EXPECT_EQ(kept.header, push.header);
  EXPECT_EQ(kept.payload.bytes().data(), push.payload.bytes().data());  // not a copy
  EXPECT_TRUE(EncodeLogBody(PushRecord{kept.header, kept.payload}).ok());
  EXPECT_EQ(Sent<AnswerFrame>(effects[1]).header.outcome, Outcome::kAccepted);

  const PushArrived second = Push(1, 0, 2, 5);
  effects = Step(second);
  ASSERT_EQ(effects.size(), 4u);
  EXPECT_EQ(LoggedIn<PushRecord>(effects[0])->header.worker, 1u);
  EXPECT_EQ(Sent<AnswerFrame>(effects[1]).header.outcome, Outcome::kAccepted);
  const MergedRecord& record = *LoggedIn<MergedRecord>(effects[2]);
  const auto& sent = Sent<MergedFrame>(effects[3]);
  EXPECT_EQ(record.header, sent.header);
  EXPECT_EQ(record.payload.bytes().data(), sent.payload.bytes().data());
  EXPECT_EQ(record.contributors, (std::vector<Contributor>{{0, 1, 1, push.header.payload_crc},
                                                           {1, 1, 1, second.header.payload_crc}}));
  EXPECT_EQ(record.residual_hash, 0u);  // all in fp32 goes down: there is no E
  EXPECT_TRUE(EncodeLogBody(record).ok()) << EncodeLogBody(record).status();
}

TEST_F(AggregatorLog, KnowsAfterARestartWhosePushesWereAcceptedWhen) {
  Start(Logged(), Members(1, {0, 1}));
  std::vector<LogRecord> log = {MembershipRecord{Members(1, {0, 1})}};
  const auto take = [&](const std::vector<ShardEffect>& effects) {
    for (const ShardEffect& effect : effects) {
      if (const auto* push = LoggedIn<PushRecord>(effect))
        log.emplace_back(PushRecord{push->header, push->payload});
      if (const auto* merged = LoggedIn<MergedRecord>(effect)) log.emplace_back(*merged);
    }
  };
  for (uint32_t round = 0; round < 3; ++round) {
    if (round == 2) take(Step(MembershipChanged{Members(2, {0})}));
    take(Step(Push(0, round, 2)));
    if (round < 2) take(Step(Push(1, round, 2)));
  }
  // From a snapshot of before round 2 the records of rounds 0 and 1 only say who pushed.
  const SegmentSnapshot snapshot{.open_round = 2};
  auto again = Aggregator::Create(Logged(), FourSegments());
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(again->Restore(2, snapshot).ok());
  for (const LogRecord& record : log) ASSERT_TRUE(again->Replay(record).ok());
  again->Step(MembershipChanged{Members(3, {0, 1})}, now_);
  // Or from its state alone, where all records from before are dropped: worker 1 had no part in the
  // last round that has closed.
  auto bare = Aggregator::Create(Logged(), FourSegments());
  ASSERT_TRUE(bare.ok());
  ASSERT_TRUE(bare->Restore(2, aggregator_->Export(2)).ok());
  bare->Step(MembershipChanged{Members(3, {0, 1})}, now_);
  for (Aggregator* const one : {&*again, &*bare}) {
    PushArrived old = Push(1, 3, 2);
    old.header.accounted = 1;
    EXPECT_THAT(Only(one->Step(old, now_), Outcome::kRejected), HasSubstr("wanted at least 2"));
    old.header.accounted = 2;
    const auto effects = one->Step(old, now_);
    ASSERT_GE(effects.size(), 2u);
    EXPECT_EQ(Sent<AnswerFrame>(effects[1]).header.outcome, Outcome::kAccepted);
  }
}

TEST_F(AggregatorLog, KeepsClosesByMembershipAndByTime) {
  AggregatorOptions options = Logged();
  options.quorum = 0.5;
  Start(options, Members(1, {0, 1, 2}));
  Step(Push(0, 0, 2));
  auto effects = Step(MembershipChanged{Members(2, {0})});
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_TRUE(LoggedIn<MergedRecord>(effects[0]) != nullptr);
  EXPECT_TRUE(SentIn<MergedFrame>(effects[1]).has_value());

  Step(MembershipChanged{Members(3, {0, 1})});
  effects = Step(Push(0, 0, 3));
  ASSERT_EQ(effects.size(), 4u);  // without any grace half of them are enough
  Step(MembershipChanged{Members(4, {0, 1, 2, 3})});
  Step(Push(0, 1, 3));
  effects = Step(Push(1, 1, 3));
  EXPECT_TRUE(LoggedIn<MergedRecord>(effects[2]) != nullptr);
}

TEST_F(AggregatorLog, KeepsNothingOfWhatIsNotAccepted) {
  AggregatorOptions options = Logged();
  options.open_bytes_max = 1;
  Start(options, Members(1, {0, 1}));
  Step(Push(0, 0, 2));
  PushArrived weightless = Push(1, 0, 2);
  weightless.header.weight = 0;
  Only(Step(weightless), Outcome::kRejected);
  Only(Step(Push(0, 0, 2)), Outcome::kDuplicate);
  Only(Step(Push(0, 0, 3)), Outcome::kBusy);
  Only(Step(Push(7, 0, 2)), Outcome::kNotMember);
  EXPECT_NE(Kept(Step(Push(1, 0, 2))), nullptr);
  EXPECT_EQ(Step(Push(1, 0, 2)).size(), 2u);  // duplicate, and the update again
}

TEST_F(AggregatorLog, RecordsWhatClippingLeftAndTheHashOfE) {
  AggregatorOptions options = Logged();
  options.clip = 2;
  options.down = {Selection::kTopK, ValueCodec::kFp32, 3};
  Start(options, Members(1, {0, 1, 2}));
  const auto normed = [&](uint32_t worker, float value) {
    PushArrived push = Push(worker, 0, 2, value);
    push.header.weight = worker + 1;
    push.header.norm = value * std::sqrt(204.0f);  // Σ i² of 1 … 8
    return push;
  };
  const uint32_t one = normed(0, 1).header.payload_crc, eight = normed(1, 8).header.payload_crc;
  Step(normed(0, 1));
  Step(normed(1, 8));
  const auto effects = Step(normed(2, 1));
  const MergedRecord* kept = Kept(effects);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->contributors,
            (std::vector<Contributor>{{0, 1, 1, one}, {1, 2, 0.25, eight}, {2, 3, 1, one}}));
  const SegmentSnapshot state = aggregator_->Export(2);
  ASSERT_EQ(state.residual.size(), kTileSize);
  EXPECT_NE(state.residual[0], 0);
  EXPECT_EQ(kept->residual_hash, HashContent(std::as_bytes(std::span(state.residual))));
}

TEST_F(AggregatorLog, AsksTheLogForRoundsBeforeTheLastClosedOne) {
  Start(Logged(), Members(1, {0, 1}));
  for (uint32_t round = 0; round < 2; ++round) {
    Step(Push(0, round, 2));
    Step(Push(1, round, 2));
  }
  for (const AggregatorEvent& event :
       {AggregatorEvent(Push(1, 0, 2)), AggregatorEvent(Pull(1, 0, 2))}) {
    const auto effects = Step(event);
    ASSERT_EQ(effects.size(), 1u);
    const auto* request = std::get_if<AnswerFromDisk>(&effects[0].what);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->asked.worker, 1u);
    EXPECT_EQ(request->asked.round, 0u);
    EXPECT_EQ(request->asked.segment, 2u);
  }
  EXPECT_EQ(Merged(Step(Pull(1, 1, 2)))->header.round, 1u);  // the last one it has itself
  EXPECT_THAT(Step(Pull(1, 2, 2)), IsEmpty());

  // The reader of the log makes the answer, which counts the push.
  EXPECT_EQ(aggregator_->state().pushes_duplicate, 0u);
  const AnswerFrame answer = aggregator_->AnswerTo(Push(1, 0, 2).header, Outcome::kDuplicate);
  EXPECT_EQ(answer.outcome, Outcome::kDuplicate);
  EXPECT_EQ(answer.round, 0u);
  EXPECT_EQ(answer.open_round, 2u);
  EXPECT_EQ(aggregator_->state().pushes_duplicate, 1u);
  aggregator_->AnswerTo(Pull(1, 0, 2).header, Outcome::kCompacted);
  EXPECT_EQ(aggregator_->state().pushes_late, 0u);
}

TEST_F(AggregatorLog, WithoutALogTheyAreGone) {
  Start(DenseOptions(), Members(1, {0}));
  Step(Push(0, 0, 2));
  Step(Push(0, 1, 2));
  Only(Step(Push(0, 0, 2)), Outcome::kCompacted);
  Only(Step(Pull(0, 0, 2)), Outcome::kCompacted);
}

}  // namespace
}  // namespace longwave

#include "server/shard/aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/unit/shard/shard_testing.h"

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kRun = 0xabcd;
constexpr uint32_t kTileSize = 8;
constexpr PayloadFormat kAllFp32{Selection::kAll, ValueCodec::kFp32, 0};

// Four segments of one tile; shard 1 of two owns segments 2 and 3.
Layout FourSegments() { return SmallLayout(kTileSize, 1, 4, 2); }

AggregatorOptions DenseOptions() { return {kRun, 0, 1, kAllFp32, 1, kAllFp32}; }

Membership Members(uint32_t epoch, std::vector<uint32_t> workers, uint32_t first_round = 0) {
  Membership membership{epoch, {}};
  for (const uint32_t worker : workers) {
    membership.members.push_back({worker, "w" + std::to_string(worker), first_round});
  }
  return membership;
}

class AggregatorTest : public testing::Test {
 protected:
  void Start(const AggregatorOptions& options, const Membership& membership) {
    up_ = options.up;
    auto created = Aggregator::Create(options, FourSegments());
    ASSERT_TRUE(created.ok()) << created.status();
    aggregator_.emplace(*std::move(created));
    Step(MembershipChanged{membership});
  }

  std::vector<AggregatorEffect> Step(const AggregatorEvent& event) {
    return aggregator_->Step(event, absl::UnixEpoch());
  }

  static FrameHeader Header(FrameKind kind, uint32_t worker, uint32_t round, uint32_t segment) {
    FrameHeader header;
    header.kind = kind;
    header.run = kRun;
    header.epoch = 1;
    header.worker = worker;
    header.round = round;
    header.segment = segment;
    header.weight = kind == FrameKind::kPush ? 1 : 0;
    return header;
  }

  Buffer Payload(float value, uint32_t segment = 2) const {
    std::vector<float> dense(kTileSize);
    for (uint32_t i = 0; i < kTileSize; ++i) dense[i] = value * static_cast<float>(i + 1);
    return Buffer(EncodeDense(up_, layout_, segment, dense));
  }

  PushArrived Push(uint32_t worker, uint32_t round, uint32_t segment, float value = 1) const {
    return {Header(FrameKind::kPush, worker, round, segment), Payload(value)};
  }
  static PullArrived Pull(uint32_t worker, uint32_t round, uint32_t segment) {
    return {Header(FrameKind::kPull, worker, round, segment)};
  }

  // The only effect must be an answer of this outcome; returns its reason.
  std::string Only(const std::vector<AggregatorEffect>& effects, Outcome outcome) {
    EXPECT_EQ(effects.size(), 1u);
    if (effects.empty() || !std::holds_alternative<AnswerPush>(effects[0])) {
      ADD_FAILURE() << "wanted an answer";
      return "";
    }
    const auto& answer = std::get<AnswerPush>(effects[0]);
    EXPECT_EQ(Name(answer.header.outcome), Name(outcome)) << answer.reason;
    EXPECT_EQ(answer.header.kind, FrameKind::kAnswer);
    EXPECT_EQ(answer.header.run, kRun);
    return answer.reason;
  }

  static std::optional<SendMerged> Merged(const std::vector<AggregatorEffect>& effects) {
    for (const auto& effect : effects) {
      if (const auto* merged = std::get_if<SendMerged>(&effect)) return *merged;
    }
    return std::nullopt;
  }

  const Layout layout_ = FourSegments();
  PayloadFormat up_;
  std::optional<Aggregator> aggregator_;
};

TEST_F(AggregatorTest, ClosesASegmentWhenEveryMemberHasPushed) {
  Start(DenseOptions(), Members(1, {0, 1}));
  Only(Step(Push(0, 0, 2, 1)), Outcome::kAccepted);
  PushArrived second = Push(1, 0, 2, 5);
  second.header.weight = 3;
  const auto effects = Step(second);
  ASSERT_EQ(effects.size(), 2u);
  EXPECT_EQ(std::get<AnswerPush>(effects[0]).header.outcome, Outcome::kAccepted);
  const SendMerged& merged = std::get<SendMerged>(effects[1]);
  EXPECT_THAT(merged.workers, ElementsAre(0, 1));
  EXPECT_EQ(merged.header.kind, FrameKind::kMerged);
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
  Only(Step(Push(0, 0, 2, 1)), Outcome::kAccepted);
  Only(Step(Push(0, 0, 2, 100)), Outcome::kDuplicate);
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
  EXPECT_EQ(std::get<AnswerPush>(effects[0]).header.outcome, Outcome::kDuplicate);
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
  Only(Step(Push(1, 0, 2)), Outcome::kLate);
}

TEST_F(AggregatorTest, AnswersLateWhatIsOlderThanTheLastClosedRound) {
  Start(DenseOptions(), Members(1, {0}));
  Step(Push(0, 0, 2));
  Step(Push(0, 1, 2));
  Only(Step(Push(0, 0, 2)), Outcome::kLate);
}

TEST_F(AggregatorTest, RejectsAnotherRun) {
  Start(DenseOptions(), Members(1, {0}));
  PushArrived push = Push(0, 0, 2);
  push.header.run = 7;
  EXPECT_EQ(Only(Step(push), Outcome::kRejected),
            "push of worker 0, round 0, segment 2: run 0000000000000007, wanted 000000000000abcd");
}

TEST_F(AggregatorTest, RejectsSegmentsOfOthers) {
  Start(DenseOptions(), Members(1, {0}));
  for (const uint32_t segment : {0u, 1u, 4u, ~0u}) {
    EXPECT_THAT(Only(Step(Push(0, 0, segment)), Outcome::kRejected),
                HasSubstr("wanted a segment of shard 1, 2 to 3"));
  }
}

TEST_F(AggregatorTest, RejectsWhoIsNotAMember) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_EQ(Only(Step(Push(9, 0, 2)), Outcome::kRejected),
            "push of worker 9, round 0, segment 2: wanted one of the 1 members of epoch 1");
}

TEST_F(AggregatorTest, RejectsARoundThatIsNotOpenYet) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_EQ(Only(Step(Push(0, 1, 2)), Outcome::kRejected),
            "push of worker 0, round 1, segment 2: wanted round 0, which is open");
}

TEST_F(AggregatorTest, RejectsAMemberBeforeItsFirstRound) {
  Membership membership = Members(1, {0});
  membership.members.push_back({1, "w1", 2});
  Start(DenseOptions(), membership);
  EXPECT_EQ(Only(Step(Push(1, 0, 2)), Outcome::kRejected),
            "push of worker 1, round 0, segment 2: wanted round 2 or later, which the worker joins "
            "at");
}

TEST_F(AggregatorTest, RejectsWeightsOutOfRange) {
  Start(DenseOptions(), Members(1, {0}));
  for (const uint64_t weight : {uint64_t{0}, kWeightMax + 1}) {
    PushArrived push = Push(0, 0, 2);
    push.header.weight = weight;
    EXPECT_THAT(Only(Step(push), Outcome::kRejected), HasSubstr("wanted 1 to 4294967296"));
  }
  PushArrived push = Push(0, 0, 2);
  push.header.weight = kWeightMax;
  EXPECT_TRUE(Merged(Step(push)));
}

TEST_F(AggregatorTest, RejectsPayloadsThatDoNotFitAndTakesTheRightOneAfterwards) {
  Start(DenseOptions(), Members(1, {0}));
  const auto reason = [&](Buffer payload) {
    return Only(Step(PushArrived{Header(FrameKind::kPush, 0, 0, 2), std::move(payload)}),
                Outcome::kRejected);
  };
  const auto bytes = Payload(1).bytes();
  EXPECT_THAT(reason(Buffer()), HasSubstr("push of worker 0, round 0, segment 2: "));
  reason(Buffer(std::vector<std::byte>(bytes.begin(), bytes.end() - 1)));  // a byte short
  const std::vector<float> dense(2 * kTileSize, 1.0f);
  reason(Buffer(EncodeDense(kAllFp32, SmallLayout(kTileSize, 2), 0, dense)));  // two tiles
  const PayloadFormat bf16{Selection::kAll, ValueCodec::kBf16, 0};
  EXPECT_THAT(reason(Buffer(EncodeDense(bf16, layout_, 2, dense))),
              HasSubstr("payload is all in bf16, wanted all in fp32"));
  const PayloadFormat top{Selection::kTopK, ValueCodec::kFp32, 2};
  EXPECT_THAT(reason(Buffer(EncodeDense(top, layout_, 2, dense))),
              HasSubstr("payload is topk in fp32 with k 2, wanted all in fp32"));
  std::vector<std::byte> nan(bytes.begin(), bytes.end());
  std::fill(nan.end() - 4, nan.end(), std::byte{0xff});
  reason(Buffer(nan));
  EXPECT_EQ(aggregator_->state().pushes_rejected, 6u);
  EXPECT_TRUE(Merged(Step(Push(0, 0, 2))));
}

TEST_F(AggregatorTest, HoldsRandomSelectionToTheRunsK) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kRandom, ValueCodec::kInt8, 4};
  Start(options, Members(1, {0}));
  const std::vector<float> dense(kTileSize, 1.0f);
  const PayloadFormat other{Selection::kRandom, ValueCodec::kInt8, 5};
  EXPECT_THAT(Only(Step(PushArrived{Header(FrameKind::kPush, 0, 0, 2),
                                    Buffer(EncodeDense(other, layout_, 2, dense))}),
                   Outcome::kRejected),
              HasSubstr("payload is random in int8 with k 5, wanted random in int8 with k 4"));
}

TEST_F(AggregatorTest, TakesAnyCodecAndKOfTopk) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kTopK, ValueCodec::kSign, 2};
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
        const auto effects = Step(PushArrived{Header(FrameKind::kPush, 0, round++, 2), payload});
        const auto merged = Merged(effects);
        ASSERT_TRUE(merged);
        EXPECT_EQ(DecodeDense(merged->payload.bytes(), layout_, 2),
                  DecodeDense(payload.bytes(), layout_, 2));
      }
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
  Only(Step(Pull(1, 0, 2)), Outcome::kLate);
  EXPECT_EQ(Only(Step(Pull(1, 3, 2)), Outcome::kRejected),
            "pull of worker 1, round 3, segment 2: wanted round 2 or the one before");
  EXPECT_THAT(Only(Step(Pull(8, 0, 2)), Outcome::kRejected), HasSubstr("wanted one of the 2"));
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
  EXPECT_THAT(merged->workers, ElementsAre(0));
  Only(Step(Push(0, 1, 2)), Outcome::kAccepted);
  const auto both = Merged(Step(Push(1, 1, 2)));
  ASSERT_TRUE(both);
  EXPECT_THAT(both->workers, ElementsAre(0, 1));
}

TEST_F(AggregatorTest, CountsWhatBecameOfPushes) {
  Start(DenseOptions(), Members(1, {0}));
  Step(Push(0, 0, 2));
  Step(Push(0, 0, 2));
  Step(Push(0, 1, 2));
  Step(Push(0, 0, 2));
  Step(Push(5, 0, 2));
  const ShardState state = aggregator_->state();
  EXPECT_EQ(state.pushes_accepted, 2u);
  EXPECT_EQ(state.pushes_duplicate, 1u);
  EXPECT_EQ(state.pushes_late, 1u);
  EXPECT_EQ(state.pushes_rejected, 1u);
}

TEST_F(AggregatorTest, KeepsWhatTopkHoldsBackForTheNextRound) {
  AggregatorOptions options = DenseOptions();
  options.down = {Selection::kTopK, ValueCodec::kFp32, 7};
  Start(options, Members(1, {0}));
  Step(Push(0, 0, 2));  // 1 … 8 of which 1 stays
  EXPECT_EQ(aggregator_->ResidualSquareSum(), 1);
  Step(Push(0, 1, 2));  // 2, 2 … 8: the tie goes to the smaller index, so the second 2 stays
  EXPECT_EQ(aggregator_->ResidualSquareSum(), 4);
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
      PushArrived push{Header(FrameKind::kPush, worker, round, segment + 2),
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

TEST(AggregatorCreate, RefusesAShardWithoutSegments) {
  AggregatorOptions options = DenseOptions();
  options.shard = 2;
  const auto created = Aggregator::Create(options, FourSegments());
  EXPECT_EQ(created.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(created.status().message()), HasSubstr("shard 2 owns none"));
}

TEST(AggregatorCreate, RefusesOptionsOutOfRange) {
  AggregatorOptions options = DenseOptions();
  options.rho = -1;
  EXPECT_EQ(Aggregator::Create(options, FourSegments()).status().message(),
            "rho is -1, wanted 0 to 1");
  options = DenseOptions();
  options.down = {Selection::kStride, ValueCodec::kFp32, 4};
  EXPECT_FALSE(Aggregator::Create(options, FourSegments()).ok());
}

TEST(AggregatorCreate, RefusesSegmentsThatNoFrameCanCarry) {
  LayoutOptions layout_options;
  layout_options.segment_tiles = 4096;  // 64 MiB in fp32, and a head
  auto layout = Layout::Create({{{"w", {64, 64 * 4096}}}}, layout_options);
  ASSERT_TRUE(layout.ok());
  AggregatorOptions options = DenseOptions();
  options.shard = 0;
  const auto created = Aggregator::Create(options, *layout);
  EXPECT_EQ(created.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(created.status().message()), HasSubstr("segment 0 as all in fp32: "));
}

}  // namespace
}  // namespace longwave

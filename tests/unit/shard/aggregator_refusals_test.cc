#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/layout/layout.h"
#include "server/shard/aggregator_checks.h"
#include "tests/unit/shard/aggregator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;

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

// A membership may be under way, so the worker retries.
TEST_F(AggregatorTest, TellsWhoIsNotAMember) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_EQ(Only(Step(Push(9, 0, 2)), Outcome::kNotMember), "");
  EXPECT_EQ(Only(Step(Push(9, 5, 2)), Outcome::kNotMember), "");
  EXPECT_EQ(Only(Step(Pull(9, 0, 2)), Outcome::kNotMember), "");
  EXPECT_EQ(aggregator_->state().pushes_rejected, 0u);
  Step(MembershipChanged{Members(2, {0, 9})});
  Only(Step(Push(9, 0, 2)), Outcome::kAccepted);
}

// The residual's content was sent with later pushes, and would be merged twice.
TEST_F(AggregatorTest, RejectsAPushOfAResidualFromBeforeItsWorkersLastPush) {
  Start(DenseOptions(), Members(1, {0}));
  const auto push = [this](uint32_t round, uint32_t accounted) {
    PushArrived push = Push(0, round, 2);
    push.header.accounted = accounted;
    return push;
  };
  Merged(Step(push(0, 0)));
  Merged(Step(push(1, 1)));
  EXPECT_EQ(Only(Step(push(2, 1)), Outcome::kRejected),
            "push of worker 0, round 2, segment 2: its residual accounts for 1 rounds, wanted at "
            "least 2, as a push of the round before is merged: the worker's folder is a copy of an "
            "older time, which is to be set aside");
  EXPECT_TRUE(Merged(Step(push(2, 2))));
  // An empty residual contains nothing that was sent.
  EXPECT_TRUE(Merged(Step(push(3, 0))));
  // Rounds in which the worker was away need not be accounted for.
  Step(MembershipChanged{Members(2, {1})});
  EXPECT_TRUE(Merged(Step(Push(1, 4, 2))));
  Step(MembershipChanged{Members(3, {0})});
  EXPECT_TRUE(Merged(Step(push(5, 4))));
}

TEST_F(AggregatorTest, RejectsARoundThatIsNotOpenYet) {
  Start(DenseOptions(), Members(1, {0}));
  EXPECT_EQ(Only(Step(Push(0, 1, 2)), Outcome::kRejected),
            "push of worker 0, round 1, segment 2: wanted round 0, which is open");
}

// Members that have done every round push no more: who does would close rounds alone.
TEST_F(AggregatorTest, RejectsARoundBeyondTheRunsLast) {
  AggregatorOptions options = DenseOptions();
  options.rounds = 1;
  Start(options, Members(1, {0}));
  EXPECT_TRUE(Merged(Step(Push(0, 0, 2))));
  EXPECT_EQ(Only(Step(Push(0, 1, 2)), Outcome::kRejected),
            "push of worker 0, round 1, segment 2: wanted one of the run's 1 rounds");
  EXPECT_EQ(aggregator_->open_round(2), 1u);
}

TEST_F(AggregatorTest, TellsAMemberThatItsFirstRoundIsALaterOne) {
  Membership membership = Members(1, {0});
  membership.members.push_back({1, "w1", 2});
  membership.members.push_back({2, "w2", kRoundNever});
  Start(DenseOptions(), membership);
  EXPECT_EQ(Only(Step(Push(1, 0, 2)), Outcome::kNotMember), "");
  EXPECT_EQ(Only(Step(Push(2, 0, 2)), Outcome::kNotMember), "");
  EXPECT_TRUE(Merged(Step(Push(0, 0, 2))));
}

TEST_F(AggregatorTest, RejectsWeightsOutOfRange) {
  AggregatorOptions options = DenseOptions();
  options.weight_max = 61440;
  Start(options, Members(1, {0}));
  for (const uint64_t weight : {uint64_t{0}, options.weight_max + 1, kWeightMax}) {
    PushArrived push = Push(0, 0, 2);
    push.header.weight = weight;
    EXPECT_THAT(Only(Step(push), Outcome::kRejected), HasSubstr("wanted 1 to 61440"));
    const absl::Status replayed = aggregator_->Replay(PushRecord{push.header, push.payload});
    EXPECT_EQ(replayed.code(), absl::StatusCode::kDataLoss) << "a shard logs no such push";
  }
  PushArrived push = Push(0, 0, 2);
  push.header.weight = options.weight_max;
  EXPECT_TRUE(Merged(Step(push)));
}

TEST_F(AggregatorTest, RejectsPayloadsThatDoNotFitAndTakesTheRightOneAfterwards) {
  Start(DenseOptions(), Members(1, {0}));
  const auto reason = [&](Buffer payload) {
    return Only(Step(PushArrived{PushHeader(0, 0, 2), std::move(payload)}), Outcome::kRejected);
  };
  const Buffer whole = Payload(1);
  const auto bytes = whole.bytes();
  EXPECT_THAT(reason(Buffer()), HasSubstr("push of worker 0, round 0, segment 2: "));
  reason(Buffer(std::vector<std::byte>(bytes.begin(), bytes.end() - 1)));  // a byte short
  const std::vector<float> dense(2 * kTileSize, 1.0f);
  reason(Buffer(EncodeDense(kAllFp32, SmallLayout(kTileSize, 2), 0, dense)));  // two tiles
  const PayloadFormat top{Selection::kTopK, ValueCodec::kFp32, 2};
  EXPECT_THAT(reason(Buffer(EncodeDense(top, layout_, 2, dense))),
              HasSubstr("payload is topk 2 in fp32, wanted all in any codec"));
  std::vector<std::byte> nan(bytes.begin(), bytes.end());
  std::fill(nan.end() - 4, nan.end(), std::byte{0xff});
  reason(Buffer(nan));
  EXPECT_EQ(aggregator_->state().pushes_rejected, 5u);
  EXPECT_TRUE(Merged(Step(Push(0, 0, 2))));
}

TEST_F(AggregatorTest, RejectsFloatsWhereTheRunsCodecIsAnIntegerOne) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kTopK, ValueCodec::kSign, 4};
  Start(options, Members(1, {0, 1, 2, 3, 4, 5}));
  const std::vector<float> dense(kTileSize, 1.0f);
  for (uint32_t worker = 0; worker < 6; ++worker) {
    const auto codec = static_cast<ValueCodec>(worker);
    const Buffer payload(EncodeDense({Selection::kTopK, codec, 2}, layout_, 2, dense));
    const auto effects = Step(PushArrived{PushHeader(worker, 0, 2), payload});
    if (HasScale(codec)) {
      Only(effects, Outcome::kAccepted);
    } else {
      EXPECT_THAT(Only(effects, Outcome::kRejected),
                  HasSubstr(absl::StrCat("payload is topk 2 in ", std::string(Name(codec)),
                                         ", wanted topk in any integer codec")));
    }
  }
}

TEST_F(AggregatorTest, HoldsRandomSelectionToTheRunsK) {
  AggregatorOptions options = DenseOptions();
  options.up = {Selection::kRandom, ValueCodec::kInt8, 4};
  Start(options, Members(1, {0}));
  const std::vector<float> dense(kTileSize, 1.0f);
  const PayloadFormat other{Selection::kRandom, ValueCodec::kInt8, 5};
  EXPECT_THAT(
      Only(Step(PushArrived{PushHeader(0, 0, 2), Buffer(EncodeDense(other, layout_, 2, dense))}),
           Outcome::kRejected),
      HasSubstr("payload is random 5 in int8, wanted random 4 in any integer codec"));
}

TEST(AggregatorCreate, RefusesAShardThatTheLayoutHasNot) {
  AggregatorOptions options = DenseOptions();
  options.shard = 2;
  const auto created = Aggregator::Create(options, FourSegments());
  EXPECT_EQ(created.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(created.status().message(), "shard is 2, wanted one of the layout's 2");
}

// A small model has fewer segments than the run has shards.
TEST(AggregatorCreate, AShardWithoutSegmentsHoldsUpNoRound) {
  AggregatorOptions options = DenseOptions();
  options.shard = 1;
  options.run = kRun;
  auto created = Aggregator::Create(options, SmallLayout(kTileSize, 1, 1, 2));
  ASSERT_TRUE(created.ok()) << created.status();
  const absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(created->Step(MembershipChanged{Members(1, {0, 1})}, now).empty());
  EXPECT_TRUE(created->Step(TimePassed{}, now).empty());
  EXPECT_EQ(created->state().open_round, kRoundNever);
  EXPECT_EQ(created->state().newest_round, 0u);
  EXPECT_EQ(created->open_figures().waited_for, 0u);
  EXPECT_TRUE(created->OpenSegments().empty());
  const auto effects = created->Step(PullArrived{{.run = kRun, .worker = 0, .segment = 0}}, now);
  ASSERT_EQ(effects.size(), 1u);
  const auto answers = AllSent<AnswerFrame>(effects);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].header.outcome, Outcome::kRejected);
}

TEST(AggregatorCreate, RefusesOptionsOutOfRange) {
  AggregatorOptions options = DenseOptions();
  options.rho = -1;
  EXPECT_EQ(Aggregator::Create(options, FourSegments()).status().message(),
            "rho is -1, wanted 0 to 1");
  for (const double quorum : {-0.1, 1.1, std::nan("")}) {
    options = DenseOptions();
    options.quorum = quorum;
    EXPECT_THAT(std::string(Aggregator::Create(options, FourSegments()).status().message()),
                HasSubstr("quorum is "));
  }
  for (const double clip : {-1.0, std::nan(""), HUGE_VAL}) {
    options = DenseOptions();
    options.clip = clip;
    EXPECT_THAT(std::string(Aggregator::Create(options, FourSegments()).status().message()),
                HasSubstr("clip is "));
  }
  options = DenseOptions();
  options.grace_min = absl::Seconds(2);
  options.grace_max = absl::Seconds(1);
  EXPECT_EQ(Aggregator::Create(options, FourSegments()).status().message(),
            "grace is 2.0 s to 1.0 s, wanted 0 or more, ascending");
  options.grace_min = -absl::Seconds(2);
  EXPECT_FALSE(Aggregator::Create(options, FourSegments()).ok());
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

TEST(AggregatorCreate, RefusesWhatDoesNotFitIntoMemory) {
  auto layout = Layout::Create({{{"w", {6400, 640}}}}, {});
  ASSERT_TRUE(layout.ok());
  AggregatorOptions options = DenseOptions();
  options.shard = 0;
  options.up = {Selection::kTopK, ValueCodec::kSign, 64};
  // Which keeps E, 16.4 MB, and a merged round of at most 8.2 MB.
  options.down = {Selection::kAll, ValueCodec::kBf16, 0};
  options.available_bytes = 10'000'000;
  const auto created = Aggregator::Create(options, *layout);
  EXPECT_EQ(created.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(created.status().message()),
            "shard 0: 4.1 M coefficients and up to 1 workers want about 24.7 MB of memory (16.4 MB "
            "of state, 8.2 MB of merged rounds, 74.1 kB of open pushes, 0 B of snapshots, 0 B of "
            "queues), 10.0 MB are available; more shards, a smaller cluster.shard_memory_mb or a "
            "smaller cluster.workers_max need less");

  const auto fits = [&](uint64_t available_bytes) {
    options.available_bytes = available_bytes;
    return Aggregator::Create(options, *layout).ok();
  };
  EXPECT_FALSE(fits(24'000'000));
  EXPECT_TRUE(fits(25'000'000));
  // The pushes of all workers, of which each is 74 KB, as far as the limit lets them: all of the
  // largest segment's, which are 1.9 MB, and as much of others as it names.
  options.workers = 100;
  EXPECT_FALSE(fits(31'000'000));
  EXPECT_TRUE(fits(32'500'000));
  options.open_bytes_max = 500'000;
  EXPECT_FALSE(fits(26'500'000));
  EXPECT_TRUE(fits(27'500'000));
  // Memory that the process holds beside the aggregator.
  options.snapshot_bytes = 3'000'000;
  EXPECT_FALSE(fits(29'500'000));
  EXPECT_TRUE(fits(30'500'000));
  options.queue_bytes = 5'000'000;
  EXPECT_FALSE(fits(34'500'000));
  EXPECT_TRUE(fits(35'500'000));
  EXPECT_TRUE(fits(0));  // no check
  // A default limit leaves space for all of that.
  options.available_bytes = 35'100'000;
  options.open_bytes_max = 30'000'000;
  ASSERT_FALSE(Aggregator::Create(options, *layout).ok());
  const uint64_t left = OpenBytesLeft(options, *layout).value();
  options.open_bytes_max = left;
  EXPECT_TRUE(Aggregator::Create(options, *layout).ok()) << left;
  options.open_bytes_max = left + 2;
  EXPECT_FALSE(Aggregator::Create(options, *layout).ok()) << left;
  options.available_bytes = 1'000'000;
  EXPECT_EQ(OpenBytesLeft(options, *layout).value(), 1u);
}

TEST(AggregatorCreate, WantsMemoryForTheLastMergedRound) {
  auto layout = Layout::Create({{{"w", {6400, 640}}}}, {});
  ASSERT_TRUE(layout.ok());
  // The memory need in these forms, without pushes.
  const auto wanted = [&](const PayloadFormat& up, const PayloadFormat& down) {
    AggregatorOptions options = DenseOptions();
    options.shard = 0;
    options.up = up;
    options.down = down;
    options.workers = 0;
    uint64_t low = 1, high = 100'000'000;
    while (low < high) {
      options.available_bytes = (low + high) / 2;
      const bool fits = Aggregator::Create(options, *layout).ok();
      (fits ? high : low) = options.available_bytes + (fits ? 0 : 1);
    }
    return static_cast<double>(low);
  };
  constexpr double kCoefficients = 4'096'000;
  constexpr double kNear = 100'000;  // tables
  const PayloadFormat topk{Selection::kTopK, ValueCodec::kFp32, 64};
  const PayloadFormat random{Selection::kRandom, ValueCodec::kFp32, 64};
  // diloco and ddp: 4 bytes a coefficient and no E.
  EXPECT_NEAR(wanted(kAllFp32, kAllFp32), 4 * kCoefficients, kNear);
  // The union of many workers' choices may be everything.
  EXPECT_NEAR(wanted(topk, kAllFp32), 4 * kCoefficients, kNear);
  EXPECT_NEAR(wanted(random, kAllFp32), 4 * kCoefficients / 64, kNear);
  // E, and the k that goes down.
  EXPECT_NEAR(wanted(topk, {Selection::kTopK, ValueCodec::kInt2, 256}), (4 + 0.063) * kCoefficients,
              kNear);
}

}  // namespace
}  // namespace longwave

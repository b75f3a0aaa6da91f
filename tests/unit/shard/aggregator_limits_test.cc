#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "server/shard/aggregator_checks.h"
#include "server/shard/tile_threads.h"
#include "tests/unit/shard/aggregator_testing.h"

// The bound on memory (busy) and on the effect of one contribution (sync.clip).

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AggregatorLimits : public AggregatorTest {
 protected:
  // Room for one push beside the oldest segment's.
  AggregatorOptions OnePush() const {
    AggregatorOptions options = DenseOptions();
    options.open_bytes_max = 16 + 4 * kTileSize;
    return options;
  }
  PushArrived Normed(uint32_t worker, uint32_t round, uint32_t segment, float value) const {
    PushArrived push = Push(worker, round, segment, value);
    push.header.norm = std::fabs(value) * std::sqrt(204.0f);  // Σ i² of 1 … 8
    return push;
  }
};

TEST_F(AggregatorLimits, AnswersBusyWhatOpenRoundsHaveNoRoomFor) {
  Start(OnePush(), Members(1, {0, 1}));
  ASSERT_EQ(Payload(1).size(), OnePush().open_bytes_max);
  Only(Step(Push(0, 0, 3)), Outcome::kAccepted);
  EXPECT_EQ(Only(Step(Push(1, 0, 3)), Outcome::kBusy), "");
  EXPECT_EQ(aggregator_->state().pushes_busy, 1u);
  EXPECT_EQ(aggregator_->state().pushes_accepted, 1u);
  EXPECT_THAT(aggregator_->OpenSegments()[1].waiting_for, ElementsAre(1));
}

TEST_F(AggregatorLimits, TakesPushesToTheOldestOpenSegmentAndSoMakesRoom) {
  Start(OnePush(), Members(1, {0, 1}));
  Only(Step(Push(0, 0, 3)), Outcome::kAccepted);  // all there is
  // Segment 2 is the oldest: of the same round, and lower.
  Only(Step(Push(0, 0, 2)), Outcome::kAccepted);
  EXPECT_TRUE(Merged(Step(Push(1, 0, 2))));
  // The oldest segment is now segment 3, of the lower round.
  Only(Step(Push(0, 1, 2)), Outcome::kBusy);
  EXPECT_TRUE(Merged(Step(Push(1, 0, 3))));
  Only(Step(Push(0, 1, 2)), Outcome::kAccepted);
}

TEST_F(AggregatorLimits, WithoutALimitNothingIsBusy) {
  AggregatorOptions options = DenseOptions();
  options.open_bytes_max = 0;
  Start(options, Members(1, {0, 1, 2}));
  Only(Step(Push(0, 0, 3)), Outcome::kAccepted);
  Only(Step(Push(1, 0, 3)), Outcome::kAccepted);
  Only(Step(Push(0, 0, 2)), Outcome::kAccepted);
}

// For the first round only these two norms are known; for the next one, the norm of its update.
TEST_F(AggregatorLimits, ClipsOneOfTwoByTheUpdateOfTheRoundBefore) {
  AggregatorOptions options = DenseOptions();
  options.clip = 2;
  Start(options, Members(1, {0, 1}));
  Step(Normed(0, 0, 2, 1));
  auto merged = Merged(Step(Normed(1, 0, 2, 5)));
  ASSERT_TRUE(merged);
  EXPECT_FLOAT_EQ(DecodeDense(merged->payload.bytes(), layout_, 2)[0], 3);
  EXPECT_EQ(aggregator_->state().pushes_clipped, 0u);
  Step(Normed(0, 1, 2, 1));
  merged = Merged(Step(Normed(1, 1, 2, 99)));
  ASSERT_TRUE(merged);
  EXPECT_FLOAT_EQ(DecodeDense(merged->payload.bytes(), layout_, 2)[0], (1 + 2 * 3) / 2.0f);
  EXPECT_EQ(aggregator_->state().pushes_clipped, 1u);
}

// A single member's contributions can neither overflow the merge nor outweigh the others.
TEST_F(AggregatorLimits, LeavesOutWhatIsBeyondAllMeasureAndNamesWhoSentIt) {
  AggregatorOptions options = DenseOptions();
  options.clip = 2;
  Start(options, Members(1, {0, 1, 2}));
  Step(Normed(0, 0, 2, 1));
  Only(Step(Normed(1, 0, 2, 1e15f)), Outcome::kAccepted);
  const auto effects = Step(Normed(2, 0, 2, 3));
  const auto merged = Merged(effects);
  ASSERT_TRUE(merged);
  const std::vector<float> g = DecodeDense(merged->payload.bytes(), layout_, 2);
  for (uint32_t i = 0; i < kTileSize; ++i) EXPECT_FLOAT_EQ(g[i], 2 * static_cast<float>(i + 1));
  EXPECT_EQ(merged->header.weight, 2u);
  EXPECT_EQ(aggregator_->state().pushes_clipped, 1u);
  const ContributionClipped* clipped = nullptr;
  for (const ShardEffect& effect : effects) {
    if (clipped == nullptr) clipped = std::get_if<ContributionClipped>(&effect.what);
  }
  ASSERT_NE(clipped, nullptr);
  EXPECT_EQ(clipped->worker, 1u);
  EXPECT_TRUE(clipped->left_out);
  EXPECT_EQ(clipped->reason,
            "contribution of worker 1, round 0, segment 2: norm 1.42829e+16, left out of the "
            "merge: over a thousand times what sync.clip lets in");
}

// For any contributions of one member in three, round after round, the updates stay near the
// others'.
TEST_F(AggregatorLimits, EveryUpdateIsSaneWhateverOneOfThreeSends) {
  AggregatorOptions options = DenseOptions();
  options.clip = 10;
  Start(options, Members(1, {0, 1, 2}));
  for (uint32_t round = 0; round < 43; ++round) {
    std::vector<float> dense(kTileSize);
    dense[0] = std::ldexp(1.0f, 3 * static_cast<int>(round));
    PushArrived push = Push(1, round, 2);
    push.payload = Buffer(EncodeDense(up_, layout_, 2, dense));
    push.header.norm = dense[0];
    Only(Step(push), round <= 20 ? Outcome::kAccepted : Outcome::kRejected);  // up to 2^60
    Step(Normed(0, round, 2, 1));
    Step(Normed(2, round, 2, 1));
    if (round > 20) Step(Normed(1, round, 2, 1));
    ASSERT_EQ(aggregator_->open_round(2), round + 1);
    const std::vector<float> g =
        DecodeDense(aggregator_->Export(2).closed->payload.bytes(), layout_, 2);
    EXPECT_LT(g[0], 50) << round;
    EXPECT_GT(g[7], 5) << round;
  }
}

TEST_F(AggregatorLimits, RejectsANormThatIsNotThePayloads) {
  AggregatorOptions options = DenseOptions();
  options.clip = 2;
  Start(options, Members(1, {0, 1}));
  PushArrived push = Normed(0, 0, 2, 100);
  push.header.norm /= 100;
  EXPECT_THAT(Only(Step(push), Outcome::kRejected), HasSubstr("wanted its payload's, which is 14"));
  push = Normed(0, 0, 2, 1);
  push.header.norm *= 1.002f;
  Only(Step(push), Outcome::kRejected);
  push = Normed(0, 0, 2, 0);
  push.header.norm = 1;
  Only(Step(push), Outcome::kRejected);
  push = Normed(0, 0, 2, 1);
  push.header.norm *= 1.0005f;
  Only(Step(push), Outcome::kAccepted);
  Only(Step(Normed(1, 0, 3, 0)), Outcome::kAccepted);
}

// Norms where a share of them is less than the step from one float to the next, or none; and the
// largest that is taken.
TEST_F(AggregatorLimits, TakesTheNormOfAnyPayload) {
  AggregatorOptions options = DenseOptions();
  options.clip = 2;
  Start(options, Members(1, {0, 1}));
  uint32_t round = 0;
  for (const float value : {FLT_TRUE_MIN, 3 * FLT_TRUE_MIN, FLT_MIN / 16, FLT_MIN, 0.0f}) {
    Only(Step(Normed(0, round, 2, value)), Outcome::kAccepted);
    EXPECT_TRUE(Merged(Step(Normed(1, round++, 2, -value)))) << value;
  }
  std::vector<float> dense(kTileSize);
  const auto push = [&](float norm) {
    PushArrived push = Push(0, round, 2);
    push.payload = Buffer(EncodeDense(up_, layout_, 2, dense));
    push.header.norm = norm;
    return push;
  };
  dense[3] = kPushNormMax;
  Only(Step(push(kPushNormMax / 2)), Outcome::kRejected);
  dense[3] = 3e38f;
  EXPECT_THAT(Only(Step(push(3e38f)), Outcome::kRejected),
              HasSubstr("worker 0, round 5, segment 2: norm 3e+38, wanted at most 1.15292e+18"));
  Only(Step(push(1)), Outcome::kRejected);
  // No header can state the norm of two of them.
  dense[4] = 3e38f;
  Only(Step(push(FLT_MAX)), Outcome::kRejected);
  dense[3] = kPushNormMax;
  dense[4] = 0;
  Only(Step(push(kPushNormMax)), Outcome::kAccepted);
}

TEST_F(AggregatorLimits, RejectsANegativeNorm) {
  Start(DenseOptions(), Members(1, {0}));
  PushArrived push = Push(0, 0, 2);
  push.header.norm = -1;
  EXPECT_THAT(Only(Step(push), Outcome::kRejected), HasSubstr("norm -1, wanted 0 or more"));
}

// The whole aggregator on one thread and on several: each event has the same effects.
TEST(AggregatorThreads, GiveTheSameEffectsWhateverTheirNumber) {
  const Layout layout = LargeLayout(50);
  AggregatorOptions options;
  options.run = kRun;
  options.up = {Selection::kTopK, ValueCodec::kSign, 64};
  options.rho = 0.25;
  options.down = {Selection::kTopK, ValueCodec::kInt2, 256};
  auto serial = Aggregator::Create(options, layout);
  options.threads = std::make_shared<TileThreads>(3);
  auto threaded = Aggregator::Create(options, layout);
  ASSERT_TRUE(serial.ok() && threaded.ok());
  Rng rng(41);
  serial->Step(MembershipChanged{Members(1, {0, 1, 2, 3})}, absl::UnixEpoch());
  threaded->Step(MembershipChanged{Members(1, {0, 1, 2, 3})}, absl::UnixEpoch());
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t worker = 0; worker < 4; ++worker) {
      std::vector<float> dense(layout.coefficient_count());
      for (float& v : dense) v = static_cast<float>(rng.Uniform() - 0.5);
      PushFrame header;
      header.run = kRun;
      header.worker = worker;
      header.round = round;
      header.weight = 100;
      const PushArrived push{header, Buffer(EncodeDense(options.up, layout, 0, dense))};
      const auto a = serial->Step(push, absl::UnixEpoch());
      const auto b = threaded->Step(push, absl::UnixEpoch());
      ASSERT_EQ(a.size(), b.size());
      if (worker < 3) continue;
      const auto& wanted = Sent<MergedFrame>(a[1]);
      const auto& got = Sent<MergedFrame>(b[1]);
      EXPECT_EQ(got.header, wanted.header);
      EXPECT_TRUE(std::equal(got.payload.bytes().begin(), got.payload.bytes().end(),
                             wanted.payload.bytes().begin(), wanted.payload.bytes().end()));
    }
  }
}

}  // namespace
}  // namespace longwave

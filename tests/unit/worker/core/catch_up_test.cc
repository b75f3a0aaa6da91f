#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/worker/core/catch_up_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CatchUpTest, MergedUpdatesLeadToTheSameBits) {
  CloseRounds(6);
  const auto round = Join();
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(*round, 6u);
  ExpectAt(6);
  EXPECT_THAT(host_.ready_rounds, ElementsAre(kRoundNever, 6));
  EXPECT_EQ(initial_made_, 0);
}

TEST_F(CatchUpTest, ASnapshotAndTheUpdatesAfterItDoToo) {
  options_.update = UpdateKind::kNesterov;
  options_.mu = 0.9f;
  Make();
  CloseRounds(4);
  shards_->snapshots[1] = {4, PeerSnapshot(1)};
  CloseRounds(2);
  ASSERT_EQ(*Join(), 6u);
  ExpectAt(6);
  CloseRounds(1);
  ASSERT_EQ(*Join(), 7u);  // the velocity is right, too
  ExpectAt(7);
}

TEST_F(CatchUpTest, FragmentsAndOverlapChangeNothingOfIt) {
  options_.fragments = 2;
  options_.overlapped = true;
  Make();
  CloseRounds(3);
  ASSERT_EQ(*Join(), 3u);
  ExpectAt(3);
}

TEST_F(CatchUpTest, WaitsForItsFirstRoundAndTakesInWhatClosesMeanwhile) {
  CloseRounds(5);
  host_.first_round_ = kRoundNever;
  host_.on_ready = [&](uint32_t ready) {
    if (ready == 5) host_.first_round_ = 7;
  };
  shards_->on_wait = [&] {
    if (host_.first_round_ == 7 && hashes_.size() < 8) CloseRounds(1);
  };
  ASSERT_EQ(*Join(), 7u);
  ExpectAt(7);
  EXPECT_THAT(host_.ready_rounds, ElementsAre(kRoundNever, 5, 6, 7));
}

TEST_F(CatchUpTest, AFirstRoundThatBecomesLowerAgainIsTaken) {
  CloseRounds(5);
  host_.first_round_ = 9;
  int waits = 0;
  shards_->on_wait = [&] {
    if (++waits == 3) host_.first_round_ = 5;
  };
  ASSERT_EQ(*Join(), 5u);
  ExpectAt(5);
}

TEST_F(CatchUpTest, WaitsForTheSegmentsThatAreAboutToClose) {
  CloseRounds(2);
  const std::vector<Buffer> merged = PeerRound();
  shards_->logs[0].push_back(merged[0]);
  host_.first_round_ = 3;
  int waits = 0;
  shards_->on_wait = [&] {
    if (++waits != 2) return;
    for (uint32_t s = 1; s < segments(); ++s) shards_->logs[s].push_back(merged[s]);
  };
  ASSERT_EQ(*Join(), 3u);
  ExpectAt(3);
  EXPECT_TRUE(shards_->posts.empty());
}

TEST_F(CatchUpTest, KnowsWhenItIsBehind) {
  Parts parts = DefaultParts();
  parts.rounds = 2;
  CatchUp catch_up(parts);
  EXPECT_FALSE(catch_up.IsBehind(0));
  EXPECT_TRUE(catch_up.IsBehind(1));  // the anchor is
  host_.first_round_ = kRoundNever;
  EXPECT_TRUE(catch_up.IsBehind(0));
  EXPECT_FALSE(catch_up.IsBehind(2));  // after the last round there is nothing to catch up with
  host_.first_round_ = 0;
  shards_->rumoured_round = 1;
  EXPECT_TRUE(catch_up.IsBehind(0));
  shards_->rumoured_round = 0;
  EXPECT_FALSE(catch_up.IsBehind(0));
  // A snapshot of one segment led beyond.
  ASSERT_TRUE(worker_->pipeline->LoadSegment(1, 1, *worker_->pipeline->ExportSegment(1)).ok());
  EXPECT_TRUE(catch_up.IsBehind(0));
  parts.possible = false;
  EXPECT_FALSE(CatchUp(parts).IsBehind(0));
}

TEST_F(CatchUpTest, WithFragmentsTheNextRoundMayHaveBegunToClose) {
  options_.fragments = 2;
  Make();
  CatchUp catch_up(DefaultParts());
  shards_->rumoured_round = 1;
  EXPECT_FALSE(catch_up.IsBehind(0));
  shards_->rumoured_round = 2;
  EXPECT_TRUE(catch_up.IsBehind(0));
}

TEST_F(CatchUpTest, ARefusalOfAShardIsToldInItsWords) {
  shards_->refusal = "got no log as old as round 0";
  const auto round = Join();
  EXPECT_EQ(round.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(round.status().message()),
              HasSubstr("segment 0 to the present: got no log as old as round 0"));
}

TEST_F(CatchUpTest, IsRefusedWhereReplicasAreMoreThanMergedUpdates) {
  Parts parts = DefaultParts();
  parts.possible = false;
  CatchUp catch_up(parts);
  EXPECT_THAT(std::string(catch_up.Join().status().message()), HasSubstr("sync.update inner or"));
  EXPECT_FALSE(catch_up.Resume({}).ok());
  EXPECT_TRUE(shards_->fetches.empty());
}

TEST_F(CatchUpTest, ResumesWithItsResidualWhenItsPushesHadBeenAccepted) {
  const Checkpoint checkpoint = Crash(0);
  CloseRounds(3);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 3u);
  ExpectAt(3);
  EXPECT_EQ(worker_->momentum(), checkpoint.momentum);
  ASSERT_EQ(shards_->posts.size(), segments());
  EXPECT_EQ(shards_->posts[1].weight, 5u);
  EXPECT_EQ(shards_->posts[1].epoch, host_.directive().epoch);
}

TEST_F(CatchUpTest, WhatWasLateGoesBackIntoTheResidualAndWhatIsForgottenIsDropped) {
  const Checkpoint checkpoint = Crash(0);
  CloseRounds(2);
  shards_->on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    Settled settled{.round = push.round, .segment = push.segment};
    if (push.segment == 0) {
      settled.merged = shards_->logs[0][0];
    } else if (push.segment == 1) {
      settled.fate = Fate::kLate;
      settled.merged = shards_->logs[1][0];
    } else {
      settled.fate = Fate::kUnknown;
      settled.compacted = true;
    }
    return settled;
  };
  const std::vector<float> late = MomentumBefore(checkpoint, 1);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 2u);
  ExpectAt(2);
  const std::vector<float> momentum = worker_->momentum();
  EXPECT_EQ(Part(momentum, 0), Part(checkpoint.momentum, 0));
  EXPECT_EQ(Part(momentum, 1), late);
  EXPECT_NE(late, Part(checkpoint.momentum, 1));
  EXPECT_THAT(Part(momentum, 2), ::testing::Each(0.0f));
  EXPECT_EQ(catch_up.counts().accepted, 1u);
  EXPECT_EQ(catch_up.counts().late, 1u);
  EXPECT_EQ(catch_up.counts().unknown, segments() - 2);
}

// With topk a worker may be started again with another k and codec than it had.
TEST_F(CatchUpTest, ResumesWithWhatItHadEncodedInAnotherFormat) {
  CloseRounds(2);
  ASSERT_EQ(*Join(), 2u);
  const Checkpoint checkpoint = Crash(2);
  shards_->posts.clear();
  CloseRounds(1);
  const std::vector<float> late = MomentumBefore(checkpoint, 1);
  // Segment 1 was late, the round of segment 2 is open, and segment 0 was accepted.
  shards_->logs[2].pop_back();
  shards_->on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    auto& log = shards_->logs[push.segment];
    if (push.round == log.size()) log.push_back(push.payload);
    return Settled{.round = push.round,
                   .segment = push.segment,
                   .merged = log[push.round],
                   .fate = push.segment == 1 ? Fate::kLate : Fate::kAccepted};
  };
  options_.up = {.selection = Selection::kTopK, .codec = ValueCodec::kInt2, .k = 7};
  worker_ = std::make_unique<Worker>(options_, layout_, start_);
  CatchUp catch_up(DefaultParts());
  const absl::StatusOr<uint32_t> resumed = catch_up.Resume(checkpoint);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(*resumed, 3u);
  EXPECT_EQ(Part(worker_->momentum(), 0), Part(checkpoint.momentum, 0));
  EXPECT_EQ(Part(worker_->momentum(), 1), late);
  ASSERT_EQ(shards_->posts.size(), segments());
  for (uint32_t s = 0; s < segments(); ++s) {
    EXPECT_TRUE(
        std::ranges::equal(shards_->posts[s].payload.bytes(), checkpoint.pushes[s].payload.bytes()))
        << s;
  }
}

TEST_F(CatchUpTest, AnOpenRoundIsClosedByThePushThatIsPostedAgain) {
  CloseRounds(2);
  ASSERT_EQ(*Join(), 2u);
  const Checkpoint checkpoint = Crash(2);
  shards_->posts.clear();
  // The shard of segment 0 had the push, and closed the round. No other worker can close the
  // others.
  shards_->logs[0].push_back(checkpoint.pushes[0].payload);
  host_.first_round_ = kRoundNever;
  host_.on_ready = [&](uint32_t ready) {
    if (ready == 2) host_.first_round_ = 2;
  };
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 3u);
  for (uint32_t s = 0; s < segments(); ++s) EXPECT_EQ(shards_->open_round(s), 3u);
  EXPECT_EQ(shards_->posts.size(), segments());
  EXPECT_EQ(worker_->momentum(), checkpoint.momentum);
  EXPECT_TRUE(before_fill_.empty());
}

TEST_F(CatchUpTest, APushOfARoundThatNoShardHasBegunGoesBackIntoTheResidual) {
  const Checkpoint checkpoint = Crash(4);
  CloseRounds(2);
  const std::vector<float> late = MomentumBefore(checkpoint, 2);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 2u);
  EXPECT_EQ(Part(worker_->momentum(), 2), late);
  EXPECT_TRUE(shards_->posts.empty());
  EXPECT_EQ(catch_up.counts().late, segments());
}

TEST_F(CatchUpTest, SegmentsThatNobodyClosesAreFilledByWhoMayPush) {
  CloseRounds(2);
  const std::vector<Buffer> merged = PeerRound();
  shards_->logs[1].push_back(merged[1]);
  ASSERT_EQ(*Join(), 3u);
  ASSERT_EQ(before_fill_.size(), 1u);
  EXPECT_EQ(before_fill_[0].round, 2u);
  EXPECT_EQ(before_fill_[0].pushes.size(), segments() - 1);
  ASSERT_EQ(shards_->posts.size(), segments() - 1);
  for (const SegmentPush& push : shards_->posts) {
    EXPECT_NE(push.segment, 1u);
    EXPECT_EQ(push.round, 2u);
    EXPECT_EQ(push.weight, 1u);
    EXPECT_EQ(push.norm, 0.0f);  // a new worker has learnt nothing yet
  }
}

// Killed between a fill and its next sync, a worker still has its residual.
TEST_F(CatchUpTest, WhatWasKeptOfAFillIsResumed) {
  const Checkpoint crashed = Crash(0);
  CloseRounds(1);
  shards_->logs[1].push_back(PeerRound()[1]);
  shards_->on_settle = [&](const SegmentPush& push) -> std::optional<Settled> {
    auto& log = shards_->logs[push.segment];
    const Fate fate = push.segment == 0 ? Fate::kLate : Fate::kAccepted;
    if (push.round == log.size()) log.push_back(push.payload);
    return Settled{
        .round = push.round, .segment = push.segment, .merged = log[push.round], .fate = fate};
  };
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Resume(crashed), 2u);
  ASSERT_EQ(before_fill_.size(), 1u);
  EXPECT_EQ(before_fill_[0].round, 1u);
  const std::vector<float> momentum = worker_->momentum();
  const std::vector<uint64_t> hashes = worker_->hashes();
  EXPECT_NE(momentum, before_fill_[0].momentum);  // the late contribution is in it again
  EXPECT_EQ(catch_up.counts().late, 2u);          // of the crash, and of the fill
  EXPECT_EQ(catch_up.counts().accepted, segments() + before_fill_[0].pushes.size() - 2);

  worker_ = std::make_unique<Worker>(options_, layout_, start_);
  const Checkpoint kept = before_fill_[0];  // to which this may add
  ASSERT_EQ(*CatchUp(DefaultParts()).Resume(kept), 2u);
  EXPECT_EQ(worker_->momentum(), momentum);
  EXPECT_EQ(worker_->hashes(), hashes);
}

TEST_F(CatchUpTest, WhoMayNotPushFillsNothing) {
  CloseRounds(2);
  shards_->logs[1].push_back(PeerRound()[1]);
  host_.first_round_ = kRoundNever;
  int waits = 0;
  shards_->on_wait = [&] { host_.stop = ++waits == 20; };
  EXPECT_TRUE(absl::IsCancelled(Join().status()));
  EXPECT_TRUE(shards_->posts.empty());
}

}  // namespace
}  // namespace longwave

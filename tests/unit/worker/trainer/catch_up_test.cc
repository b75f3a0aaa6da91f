#include "worker/trainer/catch_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/layout/segment_elements.h"
#include "common/wire/snapshot_payload.h"
#include "kernels/ops.h"
#include "tests/unit/worker/trainer/trainer_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const KernelOps& Cpu() { return **OpsFor(BackendKind::kCpu); }

// A replica: arrays, and the pipeline on them.
struct Worker {
  Worker(const SyncOptions& options, const Layout& layout, std::vector<float> start)
      : theta(std::move(start)) {
    auto made = SyncPipeline::Create(options, &layout, &Cpu(), {}, {theta.data(), nullptr});
    EXPECT_TRUE(made.ok()) << made.status();
    pipeline = *std::move(made);
  }
  std::vector<uint64_t> hashes() const { return *pipeline->Hashes(); }
  std::vector<float> momentum() const { return *pipeline->ExportMomentum(); }

  std::vector<float> theta;
  std::unique_ptr<SyncPipeline> pipeline;
};

// A peer that trains alone fills the shards' log; its hashes are what whoever catches up must have.
class CatchUpTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.up = {.selection = Selection::kTopK, .codec = ValueCodec::kFp32, .k = 3};
    options_.beta = 0.5f;
    options_.eta_follows_learning_rate = true;
    std::iota(start_.begin(), start_.end(), 1.0f);
    Make();
  }

  void Make() {
    ASSERT_GE(segments(), 3u);
    peer_ = std::make_unique<Worker>(options_, layout_, start_);
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    shards_ = std::make_unique<FakeShards>(segments());
    hashes_ = {peer_->hashes()};
  }

  uint32_t segments() const { return static_cast<uint32_t>(layout_.segments().size()); }
  static double LearningRate(uint32_t round) { return 1.0 / (1 + round); }

  // The peer's next round. Its updates are in the log at once, or when the test lets them be.
  std::vector<Buffer> PeerRound() {
    const auto round = static_cast<uint32_t>(hashes_.size() - 1);
    SyncPipeline& pipeline = *peer_->pipeline;
    std::vector<Buffer> merged;
    for (uint32_t fragment = 0; fragment < pipeline.fragment_count(); ++fragment) {
      for (size_t i = 0; i < peer_->theta.size(); ++i) {
        peer_->theta[i] += std::sin(static_cast<float>(17 * i + 5 * round + fragment));
      }
      EXPECT_TRUE(pipeline.BeginFragment(round, fragment, LearningRate(round)).ok());
      for (uint32_t s = fragment; s < segments(); s += pipeline.fragment_count()) {
        auto push = pipeline.Encode(s);
        EXPECT_TRUE(push.ok()) << push.status();
        EXPECT_TRUE(pipeline.Apply(s, push->payload).ok());
        if (merged.size() <= s) merged.resize(s + 1);
        merged[s] = push->payload;
      }
      EXPECT_TRUE(pipeline.EndFragment().ok());
    }
    hashes_.push_back(peer_->hashes());
    return merged;
  }
  void CloseRounds(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const std::vector<Buffer> merged = PeerRound();
      for (uint32_t s = 0; s < segments(); ++s) shards_->logs[s].push_back(merged[s]);
    }
  }
  Buffer PeerSnapshot(uint32_t segment) {
    const auto arrays = *peer_->pipeline->ExportSegment(segment);
    return EncodeSnapshotPayload(std::vector<std::span<const float>>(arrays.begin(), arrays.end()));
  }

  CatchUpParts Parts() {
    return {.layout = &layout_,
            .pipeline = worker_->pipeline.get(),
            .exchange = shards_.get(),
            .host = &host_,
            .rounds = 100,
            .learning_rate = [](uint32_t round, uint32_t) { return LearningRate(round); },
            .initial_weights =
                [this] {
                  ++initial_made_;
                  return start_;
                },
            .clear_gradient = [] { return absl::OkStatus(); },
            .before_fill =
                [this](uint32_t round, uint32_t fragment, std::span<const SegmentPush> pushes) {
                  EXPECT_TRUE(shards_->pending.empty());
                  before_fill_.push_back({.round = round,
                                          .fragment = fragment,
                                          .momentum = worker_->momentum(),
                                          .pushes = Copies(pushes)});
                  return absl::OkStatus();
                },
            .fill_patience = absl::ZeroDuration()};
  }
  absl::StatusOr<uint32_t> Join() {
    CatchUp catch_up(Parts());
    return catch_up.Join();
  }
  // As a file has them.
  static std::vector<UnsettledPush> Copies(std::span<const SegmentPush> pushes) {
    std::vector<UnsettledPush> copies;
    for (const SegmentPush& push : pushes) {
      std::vector<std::byte> bytes(push.payload.bytes().begin(), push.payload.bytes().end());
      copies.push_back({.segment = push.segment,
                        .norm = push.norm,
                        .weight = push.weight,
                        .payload = Buffer(std::move(bytes))});
    }
    return copies;
  }
  // Encodes what the worker would push to `round`, with some progress in θ, as a process that died
  // after having written it down.
  Checkpoint Crash(uint32_t round) {
    SyncPipeline& pipeline = *worker_->pipeline;
    for (size_t i = 0; i < worker_->theta.size(); ++i) {
      worker_->theta[i] += std::cos(static_cast<float>(3 * i + round));
    }
    EXPECT_TRUE(pipeline.BeginFragment(round, 0, LearningRate(round)).ok());
    Checkpoint checkpoint{.round = round};
    for (uint32_t s = 0; s < segments(); s += pipeline.fragment_count()) {
      auto push = pipeline.Encode(s);
      EXPECT_TRUE(push.ok()) << push.status();
      const SegmentPush posted = {
          .segment = s, .payload = push->payload, .norm = push->norm, .weight = 5};
      checkpoint.pushes.push_back(Copies({&posted, 1})[0]);
    }
    checkpoint.momentum = worker_->momentum();
    worker_ = std::make_unique<Worker>(options_, layout_, start_);
    return checkpoint;
  }
  // What the checkpoint's process had in its residual before it encoded, of one segment.
  std::vector<float> MomentumBefore(const Checkpoint& checkpoint, uint32_t segment) {
    Worker other(options_, layout_, start_);
    EXPECT_TRUE(other.pipeline->LoadMomentum(checkpoint.momentum).ok());
    EXPECT_TRUE(
        other.pipeline->RestoreFrom(segment, checkpoint.round, checkpoint.pushes[segment].payload)
            .ok());
    return Part(other.momentum(), segment);
  }
  std::vector<float> Part(const std::vector<float>& coefficients, uint32_t segment) const {
    const auto begin = coefficients.begin() +
                       static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_begin);
    return {begin, begin + static_cast<ptrdiff_t>(layout_.segments()[segment].coefficient_count)};
  }

  std::vector<std::vector<float>> Given(size_t index) const {
    const auto& [ask, payload] = shards_->given[index];
    const auto arrays =
        DecodeSnapshotPayload(payload.bytes(), 1, worker_->pipeline->segment_elements(ask.segment));
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    return arrays.ok() ? *arrays : std::vector<std::vector<float>>();
  }

  void ExpectAt(uint32_t round) {
    EXPECT_EQ(worker_->hashes(), hashes_[round]);
    for (uint32_t s = 0; s < segments(); ++s) {
      EXPECT_EQ(worker_->pipeline->anchor_round(s), round);
    }
    const float* anchor = worker_->pipeline->anchor();
    EXPECT_EQ(worker_->theta, std::vector<float>(anchor, anchor + worker_->theta.size()));
  }

  const Layout layout_ = *Layout::Create(
      {{{"w", {8, 16}}, {"b", {24}}}}, {.tiling = Tiling::kTensor, .block = 8, .segment_tiles = 1});
  SyncOptions options_;
  std::vector<float> start_ = std::vector<float>(8 * 16 + 24);
  std::unique_ptr<Worker> peer_, worker_;
  std::unique_ptr<FakeShards> shards_;
  RecordingHost host_;
  std::vector<std::vector<uint64_t>> hashes_;  // of the peer, before each round
  int initial_made_ = 0;
  std::vector<Checkpoint> before_fill_;
};

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

TEST_F(CatchUpTest, ARunThatIsOverNeedsNoFirstRound) {
  CloseRounds(3);
  host_.first_round_ = kRoundNever;
  CatchUpParts parts = Parts();
  parts.rounds = 3;
  CatchUp catch_up(parts);
  EXPECT_EQ(*catch_up.Join(), 3u);
  ExpectAt(3);
}

TEST_F(CatchUpTest, KnowsWhenItIsBehind) {
  CatchUpParts parts = Parts();
  parts.rounds = 2;
  CatchUp catch_up(parts);
  EXPECT_FALSE(catch_up.IsBehind(0));
  EXPECT_TRUE(catch_up.IsBehind(1));  // its anchor is
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
  CatchUp catch_up(Parts());
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
  CatchUpParts parts = Parts();
  parts.possible = false;
  CatchUp catch_up(parts);
  EXPECT_THAT(std::string(catch_up.Join().status().message()), HasSubstr("sync.update inner or"));
  EXPECT_FALSE(catch_up.Resume({}).ok());
  EXPECT_TRUE(shards_->fetches.empty());
}

TEST_F(CatchUpTest, AStopEndsTheWait) {
  host_.first_round_ = kRoundNever;
  int waits = 0;
  shards_->on_wait = [&] { host_.stop = ++waits == 5; };
  EXPECT_TRUE(absl::IsCancelled(Join().status()));
}

TEST_F(CatchUpTest, ResumesWithItsResidualWhenItsPushesHadBeenAccepted) {
  const Checkpoint checkpoint = Crash(0);
  CloseRounds(3);
  CatchUp catch_up(Parts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 3u);
  ExpectAt(3);
  EXPECT_EQ(worker_->momentum(), checkpoint.momentum);
  ASSERT_EQ(shards_->posts.size(), segments());
  EXPECT_EQ(shards_->posts[1].weight, 5u);
  EXPECT_EQ(shards_->posts[1].epoch, host_.epoch());
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
      settled.gone = true;
    }
    return settled;
  };
  const std::vector<float> late = MomentumBefore(checkpoint, 1);
  CatchUp catch_up(Parts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 2u);
  ExpectAt(2);
  const std::vector<float> momentum = worker_->momentum();
  EXPECT_EQ(Part(momentum, 0), Part(checkpoint.momentum, 0));
  EXPECT_EQ(Part(momentum, 1), late);
  EXPECT_NE(late, Part(checkpoint.momentum, 1));
  EXPECT_THAT(Part(momentum, 2), ::testing::Each(0.0f));
}

TEST_F(CatchUpTest, AnOpenRoundIsClosedByThePushThatIsPostedAgain) {
  CloseRounds(2);
  ASSERT_EQ(*Join(), 2u);
  const Checkpoint checkpoint = Crash(2);
  shards_->posts.clear();
  // The shard of segment 0 had it, and closed the round; nobody else is there to close the others.
  shards_->logs[0].push_back(checkpoint.pushes[0].payload);
  host_.first_round_ = kRoundNever;
  host_.on_ready = [&](uint32_t ready) {
    if (ready == 2) host_.first_round_ = 2;
  };
  CatchUp catch_up(Parts());
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
  CatchUp catch_up(Parts());
  ASSERT_EQ(*catch_up.Resume(checkpoint), 2u);
  EXPECT_EQ(Part(worker_->momentum(), 2), late);
  EXPECT_TRUE(shards_->posts.empty());
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
  CatchUp catch_up(Parts());
  ASSERT_EQ(*catch_up.Resume(crashed), 2u);
  ASSERT_EQ(before_fill_.size(), 1u);
  EXPECT_EQ(before_fill_[0].round, 1u);
  const std::vector<float> momentum = worker_->momentum();
  const std::vector<uint64_t> hashes = worker_->hashes();
  EXPECT_NE(momentum, before_fill_[0].momentum);  // what was late is in it again

  worker_ = std::make_unique<Worker>(options_, layout_, start_);
  ASSERT_EQ(*CatchUp(Parts()).Resume(before_fill_[0]), 2u);
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

TEST_F(CatchUpTest, ASegmentThatDiffersIsMadeAgainFromTheRunsBeginning) {
  CloseRounds(4);
  ASSERT_EQ(*Join(), 4u);
  // A bit that fell over.
  auto arrays = *worker_->pipeline->ExportSegment(2);
  arrays[0][3] += 1;
  ASSERT_TRUE(worker_->pipeline->LoadSegment(2, 4, arrays).ok());
  ASSERT_NE(worker_->hashes(), hashes_[4]);
  shards_->fetches.clear();

  CatchUp catch_up(Parts());
  host_.repair_ = Repair{.round = 3, .segments = {2}};
  ASSERT_TRUE(catch_up.RepairIfTold(4).ok());
  ExpectAt(4);
  EXPECT_THAT(shards_->fetches, ElementsAre(FakeShards::FetchCall{2, 0, 4}));
  EXPECT_EQ(initial_made_, 1);
  // What is said again of the time before is done.
  ASSERT_TRUE(catch_up.RepairIfTold(5).ok());
  EXPECT_EQ(shards_->fetches.size(), 1u);
}

// With overlap and fragments θ is ahead of the anchor between two rounds.
TEST_F(CatchUpTest, ARepairLeavesTheProgressOfOtherSegmentsAlone) {
  options_.fragments = 2;
  options_.overlapped = true;
  Make();
  CloseRounds(4);
  ASSERT_EQ(*Join(), 4u);
  for (float& value : worker_->theta) value += 1;
  const std::vector<float> ahead = worker_->theta;
  CatchUp catch_up(Parts());
  host_.repair_ = Repair{.round = 3, .segments = {2}};
  ASSERT_TRUE(catch_up.RepairIfTold(4).ok());
  EXPECT_EQ(worker_->hashes(), hashes_[4]);
  std::vector<float> wanted = ahead;
  for (const auto& [begin, end] : SegmentElements(layout_, 2)) {
    std::copy(worker_->pipeline->anchor() + begin, worker_->pipeline->anchor() + end,
              wanted.begin() + static_cast<ptrdiff_t>(begin));
  }
  EXPECT_NE(wanted, ahead);
  EXPECT_EQ(worker_->theta, wanted);
}

TEST_F(CatchUpTest, ARepairTakesASnapshotWhereThereIsOne) {
  CloseRounds(3);
  shards_->snapshots[0] = {3, PeerSnapshot(0)};
  CloseRounds(1);
  ASSERT_EQ(*Join(), 4u);
  auto arrays = *worker_->pipeline->ExportSegment(0);
  arrays[0][0] = -7;
  ASSERT_TRUE(worker_->pipeline->LoadSegment(0, 4, arrays).ok());
  CatchUp catch_up(Parts());
  host_.repair_ = Repair{.round = 3, .segments = {0}};
  ASSERT_TRUE(catch_up.RepairIfTold(4).ok());
  ExpectAt(4);
  EXPECT_EQ(initial_made_, 0);
}

// What an earlier fetch still brings, its end included, is not taken for the repair.
TEST_F(CatchUpTest, ARepairLastsUntilItsSegmentsAreLoaded) {
  CloseRounds(3);
  ASSERT_EQ(*Join(), 3u);
  auto arrays = *worker_->pipeline->ExportSegment(1);
  arrays[0][0] += 1;
  ASSERT_TRUE(worker_->pipeline->LoadSegment(1, 3, arrays).ok());
  ASSERT_TRUE(shards_->Fetch(1, 2, kRoundNever).ok());
  CatchUp catch_up(Parts());
  host_.repair_ = Repair{.round = 2, .segments = {1}};
  ASSERT_TRUE(catch_up.RepairIfTold(3).ok());
  ExpectAt(3);
}

TEST_F(CatchUpTest, ARepairWhereNoneIsPossibleIsLeftOut) {
  CatchUpParts parts = Parts();
  parts.possible = false;
  CatchUp catch_up(parts);
  host_.repair_ = Repair{.round = 0, .segments = {0}};
  EXPECT_TRUE(catch_up.RepairIfTold(1).ok());
  EXPECT_TRUE(shards_->fetches.empty());
}

TEST_F(CatchUpTest, GivesSnapshotsOfTheRoundThatItIsAt) {
  CloseRounds(2);
  CatchUp catch_up(Parts());
  ASSERT_EQ(*catch_up.Join(), 2u);
  // Of segment 0 it is asked too late, for segment 2 too early.
  shards_->asks = {{0, 1}, {1, 2}, {2, 3}};
  const auto wanted = *peer_->pipeline->ExportSegment(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 1u);
  EXPECT_EQ(shards_->given[0].first, (SnapshotAsk{1, 2}));
  EXPECT_EQ(Given(0), wanted);
  CloseRounds(1);
  ASSERT_EQ(*catch_up.Join(), 3u);
  ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 2u);
  EXPECT_EQ(shards_->given[1].first, (SnapshotAsk{2, 3}));
  EXPECT_EQ(Given(1), *peer_->pipeline->ExportSegment(2));
}

TEST_F(CatchUpTest, FollowsShardsThatHaveMoved) {
  CatchUp catch_up(Parts());
  ASSERT_TRUE(catch_up.Attend().ok());
  EXPECT_TRUE(shards_->endpoints.empty());
  host_.new_endpoints = {"tcp://b:2"};
  ASSERT_TRUE(catch_up.Attend().ok());
  EXPECT_THAT(shards_->endpoints, ElementsAre("tcp://b:2"));
}

}  // namespace
}  // namespace longwave

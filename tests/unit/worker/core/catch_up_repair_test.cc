// A worker's services for its replica and the shards while it takes part: repairs, snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/layout/segment_elements.h"
#include "tests/unit/worker/core/catch_up_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;

class CatchUpRepairTest : public CatchUpTest {
 protected:
  // In the replica of a worker that is at this round.
  void FlipABit(uint32_t segment, uint32_t round) {
    auto arrays = *worker_->pipeline->ExportSegment(segment);
    arrays[0][3] += 1;
    ASSERT_TRUE(worker_->pipeline->LoadSegment(segment, round, arrays).ok());
  }
};

TEST_F(CatchUpRepairTest, ASegmentThatDiffersIsMadeAgainFromTheRunsBeginning) {
  CloseRounds(4);
  ASSERT_EQ(*Join(), 4u);
  FlipABit(2, 4);
  ASSERT_NE(worker_->hashes(), hashes_[4]);
  shards_->fetches.clear();

  CatchUp catch_up(DefaultParts());
  host_.repair_ = Repair{.round = 3, .segments = {2}};
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  ExpectAt(4);
  EXPECT_THAT(shards_->fetches, ElementsAre(FakeShards::FetchCall{2, 0, 4}));
  EXPECT_EQ(initial_made_, 1);
  // A repeated directive for the earlier round was already carried out.
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  EXPECT_EQ(shards_->fetches.size(), 1u);
}

// A round in progress while others were repaired has differences of its own.
TEST_F(CatchUpRepairTest, ARepairOfOneSegmentIsNoneOfAnother) {
  CloseRounds(4);
  ASSERT_EQ(*Join(), 4u);
  for (const uint32_t s : {1, 2}) FlipABit(s, 4);
  shards_->fetches.clear();
  CatchUp catch_up(DefaultParts());
  host_.repair_ = Repair{.round = 2, .segments = {2}};
  catch_up.before_advance = [&] {
    if (!shards_->fetches.empty() && worker_->hashes()[2] == hashes_[4][2])
      host_.repair_ = Repair{.round = 3, .segments = {1, 2}};
  };
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  EXPECT_THAT(shards_->fetches,
              ElementsAre(FakeShards::FetchCall{2, 0, 4}, FakeShards::FetchCall{1, 0, 4}));
  ExpectAt(4);
}

// With overlap and fragments θ is ahead of the anchor between two rounds.
TEST_F(CatchUpRepairTest, ARepairLeavesTheProgressOfOtherSegmentsAlone) {
  options_.fragments = 2;
  options_.overlapped = true;
  Make();
  CloseRounds(4);
  ASSERT_EQ(*Join(), 4u);
  CatchUp catch_up(DefaultParts());
  catch_up.StandBetweenRounds();
  for (float& value : worker_->theta) value += 1;
  const std::vector<float> ahead = worker_->theta;
  host_.repair_ = Repair{.round = 3, .segments = {2}};
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  EXPECT_EQ(worker_->hashes(), hashes_[4]);
  std::vector<float> wanted = ahead;
  for (const auto& [begin, end] : SegmentElements(layout_, 2)) {
    std::copy(worker_->pipeline->anchor() + begin, worker_->pipeline->anchor() + end,
              wanted.begin() + static_cast<ptrdiff_t>(begin));
  }
  EXPECT_NE(wanted, ahead);
  EXPECT_EQ(worker_->theta, wanted);
}

TEST_F(CatchUpRepairTest, ARepairTakesASnapshotWhereThereIsOne) {
  CloseRounds(3);
  shards_->snapshots[0] = {3, PeerSnapshot(0)};
  CloseRounds(1);
  ASSERT_EQ(*Join(), 4u);
  FlipABit(0, 4);
  CatchUp catch_up(DefaultParts());
  host_.repair_ = Repair{.round = 3, .segments = {0}};
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  ExpectAt(4);
  EXPECT_EQ(initial_made_, 0);
}

// Results of an earlier fetch, including its end, do not count for the repair.
TEST_F(CatchUpRepairTest, ARepairLastsUntilItsSegmentsAreLoaded) {
  CloseRounds(3);
  ASSERT_EQ(*Join(), 3u);
  FlipABit(1, 3);
  ASSERT_TRUE(shards_->Fetch(1, 2, kRoundNever).ok());
  CatchUp catch_up(DefaultParts());
  host_.repair_ = Repair{.round = 2, .segments = {1}};
  ASSERT_TRUE(catch_up.RepairIfTold().ok());
  ExpectAt(3);
}

TEST_F(CatchUpRepairTest, ARepairWhereNoneIsPossibleIsLeftOut) {
  Parts parts = DefaultParts();
  parts.possible = false;
  CatchUp catch_up(parts);
  ASSERT_TRUE(catch_up.BeginRun().ok());
  host_.repair_ = Repair{.round = 0, .segments = {0}};
  EXPECT_TRUE(catch_up.RepairIfTold().ok());
  EXPECT_TRUE(shards_->fetches.empty());
}

// The replica's own first weights are of no use, and no update fits them.
TEST_F(CatchUpRepairTest, WhoBeganWithOtherWeightsBeginsWithSnapshots) {
  for (uint32_t s = 0; s < segments(); ++s) shards_->snapshots[s] = {0, PeerSnapshot(s)};
  CloseRounds(2);
  shards_->snapshots[1] = {2, PeerSnapshot(1)};
  std::vector<float> other = start_;
  for (float& value : other) value += 3;
  worker_ = std::make_unique<Worker>(options_, layout_, other);
  host_.other_start_ = true;
  CatchUp catch_up(DefaultParts());
  // Though it might push to round 0 itself.
  ASSERT_TRUE(catch_up.BeginRun().ok());
  ExpectAt(2);
  EXPECT_EQ(initial_made_, 0);
  for (const FakeShards::FetchCall& fetch : shards_->fetches) {
    if (fetch.segment != 0) continue;
    EXPECT_EQ(fetch.from_round, kRoundNever);
    break;
  }
  // Nor does a repair begin with them.
  FlipABit(0, 2);
  shards_->fetches.clear();
  CatchUp repairing(DefaultParts());
  repairing.StandBetweenRounds();
  host_.repair_ = Repair{.round = 1, .segments = {0}};
  ASSERT_TRUE(repairing.RepairIfTold().ok());
  ExpectAt(2);
  EXPECT_THAT(shards_->fetches, ElementsAre(FakeShards::FetchCall{0, kRoundNever, 2}));
}

TEST_F(CatchUpRepairTest, GivesWhatTheRunBeganWithAtAnyTime) {
  const auto wanted = *peer_->pipeline->ExportSegment(1);
  CatchUp catch_up(DefaultParts());
  ASSERT_TRUE(catch_up.BeginRun().ok());
  const SnapshotRequest of_start{.segment = 1, .of_start = true};
  shards_->asks = {of_start};
  ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 1u);
  EXPECT_EQ(Given(0), wanted);
  EXPECT_EQ(initial_made_, 0) << "the replica has it";
  CloseRounds(3);
  ASSERT_EQ(*catch_up.Join(), 3u);
  shards_->asks = {of_start};
  ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 2u);
  EXPECT_EQ(shards_->given[1].first, (SnapshotRequest{1, 0}));
  EXPECT_EQ(Given(1), wanted);
  EXPECT_EQ(initial_made_, 1);
  // A worker that did not begin with it cannot.
  host_.other_start_ = true;
  CatchUp other(DefaultParts());
  for (uint32_t s = 0; s < segments(); ++s) shards_->snapshots[s] = {3, PeerSnapshot(s)};
  ASSERT_EQ(*other.Join(), 3u);
  shards_->asks = {of_start};
  ASSERT_TRUE(other.Attend().ok());
  EXPECT_EQ(shards_->given.size(), 2u);
}

TEST_F(CatchUpRepairTest, GivesSnapshotsOfTheRoundThatItIsAt) {
  CloseRounds(2);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Join(), 2u);
  // The request for segment 0 is too late, for segment 2 too early.
  shards_->asks = {{0, 1}, {1, 2}, {2, 3}};
  const auto wanted = *peer_->pipeline->ExportSegment(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 1u);
  EXPECT_EQ(shards_->given[0].first, (SnapshotRequest{1, 2}));
  EXPECT_EQ(Given(0), wanted);
  CloseRounds(1);
  ASSERT_EQ(*catch_up.Join(), 3u);
  ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 2u);
  EXPECT_EQ(shards_->given[1].first, (SnapshotRequest{2, 3}));
  EXPECT_EQ(Given(1), *peer_->pipeline->ExportSegment(2));
}

// If each worker served the lowest segment first, workers with equal requests would send equal
// snapshots.
TEST_F(CatchUpRepairTest, GivesSnapshotsInTheOrderInWhichTheyWereAskedFor) {
  CloseRounds(2);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Join(), 2u);
  shards_->asks = {{2, 2}, {0, 2}, {1, 2}};
  ASSERT_TRUE(catch_up.Attend().ok());
  shards_->asks = {{0, 2}};  // again
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(catch_up.Attend().ok());
  std::vector<uint32_t> segments;
  for (const auto& [request, payload] : shards_->given) segments.push_back(request.segment);
  EXPECT_THAT(segments, ElementsAre(2, 0, 1));
}

TEST_F(CatchUpRepairTest, GivesWhatItHasWhereALaterRoundWillDo) {
  CloseRounds(2);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Join(), 2u);
  shards_->asks = {{0, 1, /*or_later=*/true}, {2, 3, /*or_later=*/true}};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 1u);
  EXPECT_EQ(shards_->given[0].first, (SnapshotRequest{0, 2}));
  EXPECT_EQ(Given(0), *peer_->pipeline->ExportSegment(0));
}

TEST_F(CatchUpRepairTest, AnswersNoAskForASegmentThatIsNotThere) {
  CloseRounds(1);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Join(), 1u);
  shards_->asks = {{static_cast<uint32_t>(layout_.segments().size()), 1, /*or_later=*/true}};
  ASSERT_TRUE(catch_up.Attend().ok());
  EXPECT_TRUE(shards_->given.empty());
}

// Snapshots that wait to be sent take memory, and age with every round.
TEST_F(CatchUpRepairTest, MakesNoSnapshotWhileAnotherWaitsToBeSent) {
  CloseRounds(2);
  CatchUp catch_up(DefaultParts());
  ASSERT_EQ(*catch_up.Join(), 2u);
  shards_->asks = {{1, 2}, {2, 1}};  // the latter is too late whether there is room or not
  shards_->has_snapshot_room = false;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(catch_up.Attend().ok());
  EXPECT_TRUE(shards_->given.empty());
  EXPECT_EQ(catch_up.counts().snapshots_sent, 0u);
  shards_->has_snapshot_room = true;
  ASSERT_TRUE(catch_up.Attend().ok());
  ASSERT_EQ(shards_->given.size(), 1u);
  EXPECT_EQ(shards_->given[0].first, (SnapshotRequest{1, 2}));
}

}  // namespace
}  // namespace longwave

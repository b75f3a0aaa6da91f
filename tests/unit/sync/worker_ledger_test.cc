#include "worker/sync/worker_ledger.h"

#include "tests/unit/sync/ledger_fixture.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The interplay of the ledger's parts.
class WorkerLedgerTest : public LedgerTest {};

TEST_F(WorkerLedgerTest, RequestsGoBeforePushesAndSnapshotsLast) {
  PostSnapshot(2, 4);
  Post(4, 0);
  Fetch(1, 2);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 2/1", "push 4/0", "snapshot 4/2"));
}

TEST_F(WorkerLedgerTest, ASnapshotThatWaitedForLongGoesBeforePushes) {
  PostSnapshot(2, 4);
  Pass(WorkerLedger::kSnapshotPatience);
  PostSnapshot(1, 4);
  Post(4, 0);
  EXPECT_THAT(SendAll(), ElementsAre("hello 1", "snapshot 4/2", "push 4/0"));
  AnswerSnapshot(4, 2);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/1"));
}

TEST_F(WorkerLedgerTest, ASnapshotIsSentOnceAsItsSegmentsLatest) {
  PostSnapshot(0, 4, "old");
  PostSnapshot(0, 5, "new");
  const OutgoingFrame frame = ledger_.NextFrame(now_).value();
  const SnapshotFrame wanted{.run = kRun, .round = 5, .worker = kWorker, .segment = 0};
  EXPECT_EQ(frame.header, wanted);
  EXPECT_EQ(Text(frame.payload), "new");
  EXPECT_EQ(frame.connection, 0u);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 5/0"));
  EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty());
  EXPECT_EQ(ledger_.PostSnapshot(3, 0, Buffer(), now_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerLedgerTest, AHeldConnectionHoldsItsSnapshotsAlone) {
  PostSnapshot(0, 4);
  PostSnapshot(1, 4);
  ledger_.Held(ledger_.NextFrame(now_).value(), now_ + absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/1"));
  AnswerSnapshot(4, 1);
  EXPECT_EQ(ledger_.DueAt(), now_ + absl::Seconds(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
}

TEST_F(WorkerLedgerTest, TellsTheLatestAskOfEachSegment) {
  EXPECT_FALSE(ledger_.TakeRequest().has_value());
  Request(4, 0);
  Request(4, 1);
  Request(5, 0);
  Request(5, 9);  // of no model
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 1, .round = 4}));
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 0, .round = 5}));
  EXPECT_EQ(ledger_.TakeRequest(), std::nullopt);
}

TEST_F(WorkerLedgerTest, AnAskThatIsRepeatedKeepsItsPlace) {
  for (const uint32_t segment : {1u, 0u, 1u}) Request(4, segment);
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 1, .round = 4}));
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 0, .round = 4}));
  EXPECT_EQ(ledger_.TakeRequest(), std::nullopt);
}

TEST_F(WorkerLedgerTest, AnAskForTheStartLeavesAnotherOfItsSegmentAlone) {
  Request(4, 0);
  Request(kRoundNever, 0);
  Request(kRoundNever, 0);
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 0, .round = 4}));
  EXPECT_EQ(ledger_.TakeRequest(), (SnapshotRequest{.segment = 0, .of_start = true}));
  EXPECT_EQ(ledger_.TakeRequest(), std::nullopt);
}

// A shard that has the round open wants something to keep; one that restores has not.
TEST_F(WorkerLedgerTest, ALaterRoundWillDoWhereTheShardHasOpenedTheOneThatItAsksFor) {
  for (const uint32_t open : {0u, 3u, 4u, 5u}) {
    Deliver(0, RequestFrame{.run = kRun, .round = 4, .segment = 1, .open_round = open});
    EXPECT_EQ(ledger_.TakeRequest(),
              (SnapshotRequest{.segment = 1, .round = 4, .or_later = open >= 4}));
  }
}

// Frames that wait in the queue of a busy shard would arrive as often as they were sent.
TEST_F(WorkerLedgerTest, ARenewedConnectionCarriesHellosUntilOneIsAnswered) {
  Post(4, 0);
  Post(4, 2);
  Fetch(1, 2);
  SendAll();
  Answer(4, 2, Outcome::kAccepted, 4);
  EXPECT_FALSE(ledger_.TakeLost(now_).has_value());
  Pass(kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  Pass(Connections::kUnansweredHellos * kHelloEvery);
  EXPECT_EQ(ledger_.TakeLost(now_)->connection, 0u);
  EXPECT_EQ(ledger_.TakeLost(now_)->connection, 1u);
  EXPECT_FALSE(ledger_.TakeLost(now_).has_value());
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  // Only frames without an answer or an update are repeated.
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 4/0", "pull 4/2"));
  AnswerHello(1, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 2/1"));
}

// A megabyte takes eight seconds on the slowest link that is reckoned with.
TEST_F(WorkerLedgerTest, WhatIsOnItsWayPutsTheEndOfPatienceOff) {
  const size_t megabyte = 8 * kBytesPerSecondMin;
  PostSnapshot(0, 4, std::string(megabyte, 'x'));
  SendAll();
  Post(4, 0);
  Pass(kHelloEvery);
  SendAll();
  Pass(Connections::kUnansweredHellos * kHelloEvery + absl::Seconds(7));
  EXPECT_FALSE(ledger_.TakeLost(now_).has_value());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(ledger_.TakeLost(now_).has_value());
}

// By a pull of the round that is next, of whatever segment, and once for each request.
TEST_F(WorkerLedgerTest, TellsAShardThatAsksWhereItStands) {
  Post(4, 0);
  Post(4, 1);
  Fetch(2, 3);
  SendAll();
  Answer(4, 0, Outcome::kAccepted, 4);
  Merged(4, 0);
  EXPECT_THAT(Settle(), ElementsAre("4/0 accepted down"));
  for (const uint32_t segment : {0u, 1u, 2u}) Request(0, segment);
  Request(0, 0);  // again before it was told
  EXPECT_EQ(ledger_.TakeRequest(), std::nullopt) << "it wants no state";
  EXPECT_EQ(ledger_.DueAt(), absl::InfinitePast());
  EXPECT_THAT(SendAll(), ElementsAre("pull 4/1", "pull 3/2", "pull 5/0"));
  EXPECT_THAT(SendAll(), IsEmpty());
  Request(0, 0);
  EXPECT_THAT(SendAll(), ElementsAre("pull 5/0"));
}

// Pulls that waited in queues for the shard's process before are of earlier ones.
TEST_F(WorkerLedgerTest, WhereItStandsIsOfTheAsksEpoch) {
  Deliver(0, RequestFrame{.run = kRun, .epoch = 9, .segment = 0});
  const auto frame = ledger_.NextFrame(now_);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(Say(*frame), "pull 0/0");
  EXPECT_EQ(std::get<PullFrame>(frame->header).epoch, 9u);
}

TEST_F(WorkerLedgerTest, AContributionThatWasSettledWithoutItsUpdateStandsAtItsRound) {
  Post(4, 0);
  SendAll();
  Answer(4, 0, Outcome::kCompacted, 9);
  EXPECT_THAT(Settle(), ElementsAre("4/0 unknown compacted"));
  Request(0, 0);
  EXPECT_THAT(SendAll(), ElementsAre("pull 4/0"));
}

// Results of an earlier fetch that the caller did not take are dropped.
TEST_F(WorkerLedgerTest, AContributionSaysWhereItsSegmentStandsWhateverWasFetched) {
  Fetch(0, 2);
  SendAll();
  Answer(2, 0, Outcome::kAccepted, 4);
  SendAll();
  Merged(2, 0);
  Merged(3, 0);
  Post(2, 0);
  SendAll();
  Request(0, 0);
  EXPECT_THAT(SendAll(), ElementsAre("pull 2/0"));
}

// Both are of round 4, but an answer to the one does not answer the other (found by the simulator,
// seed 571: all workers waited for a round, and none pushed again).
TEST_F(WorkerLedgerTest, AnAnswerToAFetchIsNoneToAPushOfThatRound) {
  Fetch(0, 4);
  SendAll();
  Post(4, 0);
  SendAll();
  AnswerFrame answer{.outcome = Outcome::kAccepted,
                     .run = kRun,
                     .round = 4,
                     .open_round = 4,
                     .to = FrameKind::kFetch};
  Deliver(0, answer);
  Merged(4, 0);
  EXPECT_THAT(Settle(), ::testing::IsEmpty());
  answer.to = FrameKind::kPush;
  answer.open_round = 5;  // the round is closed
  Deliver(0, answer);
  EXPECT_THAT(Settle(), ::testing::ElementsAre("4/0 accepted down"));
}

TEST_F(WorkerLedgerTest, KnowsTheNewestOpenRoundOfWhateverIsSaid) {
  EXPECT_EQ(ledger_.newest_open_round(), 0u);
  Merged(4, 2);
  EXPECT_EQ(ledger_.newest_open_round(), 5u);
  Answer(1, 0, Outcome::kLate, 7);
  EXPECT_EQ(ledger_.newest_open_round(), 7u);
  Answer(1, 0, Outcome::kLate, 6);
  AnswerHello(0, kIncarnation);  // the answer's weight is not a round
  EXPECT_EQ(ledger_.newest_open_round(), 7u);
}

}  // namespace
}  // namespace longwave

// Snapshots between pushes: what of them is on its way at a time.
#include "tests/unit/sync/ledger_fixture.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SnapshotQueueTest : public LedgerTest {
 protected:
  // How long one of "state" is under way without an answer, `before` others unanswered.
  static absl::Duration Patience(int before) {
    LedgerOptions options;
    options.retry_after = kRetryAfter;
    return Silence(options, before, 10);
  }
  // What goes first, but hellos.
  std::string First() {
    for (;;) {
      const auto frame = ledger_.Due(now_);
      if (!frame.has_value()) return "nothing";
      if (frame->header.kind != FrameKind::kHello) return Say(*frame);
      ledger_.Sent(*frame, now_);
      AnswerHello(frame->connection, kIncarnation);
    }
  }
};

TEST_F(SnapshotQueueTest, OneIsUnderWayAtATimeWhateverTheConnection) {
  PostSnapshot(0, 4);
  PostSnapshot(1, 4);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
  EXPECT_GT(ledger_.DueAt(), now_);
  Pass(absl::Milliseconds(1));
  PostSnapshot(2, 4);  // of 0's connection
  Post(4, 0);
  Post(4, 1);
  EXPECT_THAT(SendAll(), ElementsAre("push 4/0", "push 4/1"));
  AnswerSnapshot(4, 0);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/1"));
  AnswerSnapshot(4, 1);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/2"));
}

TEST_F(SnapshotQueueTest, OneWaitsOnEachConnection) {
  PostSnapshot(0, 4);
  EXPECT_TRUE(ledger_.HasSnapshotRoom(0)) << "its next one takes its place";
  EXPECT_TRUE(ledger_.HasSnapshotRoom(1));
  EXPECT_FALSE(ledger_.HasSnapshotRoom(2));
  EXPECT_FALSE(ledger_.HasSnapshotRoom(3)) << "no such segment";
  EXPECT_EQ(ledger_.waiting_snapshot(0), 0u);
  EXPECT_EQ(ledger_.waiting_snapshot(1), std::nullopt);
  EXPECT_EQ(ledger_.PostSnapshot(2, 4, Bytes("state"), now_).message(),
            "got a snapshot of segment 2, wanted that the one of segment 0 on its connection is "
            "sent before");
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
  EXPECT_TRUE(ledger_.HasSnapshotRoom(2));
}

// A link that is never idle, and all of them old.
TEST_F(SnapshotQueueTest, PushesHaveTheLinkBetweenTwo) {
  PostSnapshot(0, 4);
  PostSnapshot(1, 4);
  PassAlive(absl::ZeroDuration());
  AnswerSnapshot(4, 0);
  PassAlive(absl::ZeroDuration());
  PostSnapshot(0, 5);
  Pass(WorkerLedger::kSnapshotPatience);
  AnswerSnapshot(4, 1);
  Post(5, 0);
  EXPECT_EQ(First(), "push 5/0") << "there was one just now";
  Pass(WorkerLedger::kSnapshotPatience - absl::Nanoseconds(1));
  EXPECT_EQ(First(), "push 5/0");
  Pass(absl::Nanoseconds(1));
  EXPECT_EQ(First(), "snapshot 5/0");
}

TEST_F(SnapshotQueueTest, WithoutAnAnswerTheNextGoesAfterAWhileThatGetsLonger) {
  PostSnapshot(0, 4);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
  for (int i = 1; i < 4; ++i) {
    PostSnapshot(2, 4 + i);
    AnswerHellos();  // the shard is there
    EXPECT_THAT(PassAlive(Patience(i - 1) - absl::Nanoseconds(1)), IsEmpty());
    EXPECT_THAT(PassAlive(absl::Nanoseconds(1)),
                ElementsAre("snapshot " + std::to_string(4 + i) + "/2"));
  }
  AnswerSnapshot(4, 0);  // it was given up
  PostSnapshot(0, 8);
  EXPECT_THAT(SendAll(), IsEmpty());
  AnswerSnapshot(7, 2);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 8/0"));
  PostSnapshot(2, 9);
  AnswerHellos();
  EXPECT_THAT(PassAlive(Patience(0)), ElementsAre("snapshot 9/2")) << "as the first time";
}

TEST_F(SnapshotQueueTest, WhoIsAwayGetsNoOtherAndHoldsUpNobodyElse) {
  Pass(absl::Milliseconds(1));  // nothing was heard since
  PostSnapshot(0, 4);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
  PostSnapshot(2, 4);
  PostSnapshot(1, 4);
  Pass(Patience(0));
  EXPECT_THAT(SendAll(), ::testing::Contains("snapshot 4/1"));
  AnswerSnapshot(4, 1);
  Pass(absl::Hours(1));
  EXPECT_THAT(SendAll(), ::testing::Not(::testing::Contains("snapshot 4/2")));
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/2"));
}

TEST_F(SnapshotQueueTest, ANewConnectionOrShardHasNothingUnderWay) {
  PostSnapshot(0, 4);
  SendAll();
  ledger_.Reconnected(0, now_);
  PostSnapshot(2, 4);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "snapshot 4/2"));
  PostSnapshot(0, 5);
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), IsEmpty());
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 5/0"));
}

TEST_F(SnapshotQueueTest, AnAnswerToSomethingElseSaysNothingOfIt) {
  PostSnapshot(0, 4);
  Post(4, 0);
  SendAll();
  PostSnapshot(2, 4);
  Answer(4, 0, Outcome::kAccepted);
  AnswerSnapshot(3, 0);
  AnswerSnapshot(4, 2);
  AnswerSnapshot(4, 9);  // of no model
  EXPECT_THAT(SendAll(), IsEmpty());
  AnswerSnapshot(4, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/2"));
}

}  // namespace
}  // namespace longwave

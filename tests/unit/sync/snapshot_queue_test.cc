// Snapshots between pushes: the parts that are on their way at a time.
#include "tests/unit/sync/ledger_fixture.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SnapshotQueueTest : public LedgerTest {
 protected:
  // The next frame, without hellos.
  std::string First() {
    for (;;) {
      const auto frame = ledger_.NextFrame(now_);
      if (!frame.has_value()) return "nothing";
      if (frame->header.kind() != FrameKind::kHello) return Say(*frame);
      Sent(*frame);
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

TEST_F(SnapshotQueueTest, TheNextOneGoesWhenTheOneBeforeOrItsAnswerWasLost) {
  for (const bool there : {true, false}) {
    PostSnapshot(0, 4);
    EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
    PostSnapshot(2, 4);
    EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty()) << "it may be on its way";
    there ? LoseThere(0) : LoseHere(0);
    EXPECT_THAT(PassHello(), ElementsAre("snapshot 4/2"));
    AnswerSnapshot(4, 2);
  }
}

TEST_F(SnapshotQueueTest, WhoIsAwayGetsNoOtherAndHoldsUpNobodyElse) {
  PostSnapshot(0, 4);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/0"));
  PostSnapshot(2, 4);
  PostSnapshot(1, 4);
  Pass(Connections::kIdleHellos * kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  AnswerHello(1, kIncarnation);
  Pass(Connections::kUnansweredHellos * kHelloEvery);
  EXPECT_EQ(ledger_.TakeLost(now_)->connection, 0u);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "snapshot 4/1"));
  AnswerSnapshot(4, 1);
  EXPECT_THAT(SendAll(), IsEmpty());
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/2"));
}

TEST_F(SnapshotQueueTest, ANewConnectionOrShardHasNothingUnderWay) {
  PostSnapshot(0, 4);
  SendAll();
  ledger_.Reconnected(0, now_);
  PostSnapshot(2, 4);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("snapshot 4/2"));
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

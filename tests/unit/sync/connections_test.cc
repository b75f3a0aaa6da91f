#include "worker/sync/connections.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

const absl::Duration kEvery = LedgerOptions().hello_every;

class ConnectionsTest : public ::testing::Test {
 protected:
  // Sends the hello that is due, if there is one.
  bool Greets() {
    const auto hello = connections_.NextFrame(now_);
    if (!hello.has_value()) return false;
    hello_ = std::get<HelloFrame>(hello->header);
    connections_.Sent(hello->connection, FrameKind::kHello, now_);
    return true;
  }
  Connections::News Hear(uint64_t incarnation, Outcome outcome = Outcome::kAccepted) {
    return connections_.OnFrame(0,
                                WelcomeFrame{.outcome = outcome,
                                             .run = 5,
                                             .frames_missing = missing_,
                                             .frames_sent = hello_.frames_sent,
                                             .incarnation = incarnation,
                                             .shard_frames_sent = sent_++},
                                now_);
  }
  // True: of another incarnation.
  bool Answer(uint64_t incarnation, Outcome outcome = Outcome::kAccepted) {
    return Hear(incarnation, outcome).another;
  }
  void HearAnswer() {
    ++sent_;
    connections_.OnFrame(0, AnswerFrame{.outcome = Outcome::kAccepted, .run = 5}, now_);
  }
  void HearRequest() {
    ++sent_;
    connections_.OnFrame(0, RequestFrame{.run = 5, .segment = 2}, now_);
  }
  void HearMerged() {
    ++sent_;
    connections_.OnFrame(0, MergedFrame{.run = 5, .segment = 2}, now_);
  }
  std::optional<Connections::Lost> TakeLost(absl::Duration on_the_way = absl::ZeroDuration()) {
    return connections_.TakeLost(now_, [&](uint32_t) { return on_the_way; });
  }

  HelloFrame hello_;      // the last one
  uint32_t missing_ = 0;  // frames that the shard lacks
  uint32_t sent_ = 0;     // by the shard
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Connections connections_{{.run = 5,
                            .worker = 6,
                            .connections = {},
                            .connection_count = 1,
                            .connection_number = 70,
                            .download_bytes_per_s = 4000,
                            .snapshot_bytes = {}}};
};

TEST_F(ConnectionsTest, HelloSaysWhoAndHowMuchMayBeSentThere) {
  const auto hello = connections_.NextFrame(now_);
  ASSERT_TRUE(hello.has_value());
  const HelloFrame wanted{.run = 5, .connection = 70, .worker = 6, .bytes_per_second_max = 4000};
  EXPECT_EQ(hello->header, wanted);
}

TEST_F(ConnectionsTest, HelloIsSaidUntilItIsWelcome) {
  EXPECT_TRUE(Greets());
  EXPECT_FALSE(Greets());
  now_ += kEvery;
  EXPECT_TRUE(Greets());
  for (const Outcome outcome : {Outcome::kRejected, Outcome::kNotMember}) {
    Answer(1, outcome);
    now_ += kEvery;
    EXPECT_TRUE(Greets()) << Name(outcome);
  }
  Answer(1);
  EXPECT_EQ(connections_.DueAt(), now_ + Connections::kIdleHellos * kEvery);
}

// A shard that had lost its folder waited for ever for a worker without requests, which the shard
// could not reach either (found by the simulator).
TEST_F(ConnectionsTest, HelloIsSaidNowAndThenWhileNothingIsOutstanding) {
  EXPECT_TRUE(Greets());
  Answer(1);
  for (int i = 0; i < 3; ++i) {
    now_ += Connections::kIdleHellos * kEvery - absl::Milliseconds(1);
    EXPECT_FALSE(Greets());
    now_ += absl::Milliseconds(1);
    EXPECT_TRUE(Greets());
    EXPECT_EQ(Answer(i < 2 ? 1 : 2), i == 2);
  }
}

// In rounds that are shorter than that, contributions and their updates are all that is sent.
TEST_F(ConnectionsTest, AShardThatAnswersIsNotGreetedMeanwhile) {
  EXPECT_TRUE(Greets());
  Answer(1);
  const absl::Duration silence = Connections::kIdleHellos * kEvery;
  for (int i = 0; i < 3; ++i) {
    now_ += silence - absl::Milliseconds(1);
    HearAnswer();
    EXPECT_FALSE(Greets());
  }
  now_ += silence - absl::Milliseconds(1);
  EXPECT_FALSE(Greets());
  now_ += absl::Milliseconds(1);
  EXPECT_TRUE(Greets());
}

// A shard that restored its segments asked every 2 s for a position, and the connection brought it
// nothing: no hello was due, and the run waited for ever (found by the simulator).
TEST_F(ConnectionsTest, AShardThatOnlyAsksIsGreeted) {
  EXPECT_TRUE(Greets());
  Answer(1);
  now_ += Connections::kIdleHellos * kEvery - absl::Milliseconds(1);
  HearRequest();
  HearMerged();
  EXPECT_FALSE(Greets());
  now_ += absl::Milliseconds(1);
  EXPECT_TRUE(Greets());
}

TEST_F(ConnectionsTest, HelloIsSaidForAsLongAsSomethingIsOutstanding) {
  EXPECT_TRUE(Greets());
  Answer(1);
  now_ += kEvery;
  connections_.Expect(0, now_);
  connections_.Expect(0, now_);
  EXPECT_FALSE(Greets());  // the answer may come at once
  for (int i = 0; i < 5; ++i) {
    now_ += kEvery;
    EXPECT_TRUE(Greets());
    Answer(1);
  }
  connections_.Relieve(0);
  now_ += kEvery;
  EXPECT_TRUE(Greets());
  Answer(1);
  connections_.Relieve(0);
  now_ += kEvery;
  EXPECT_FALSE(Greets());
}

// ZeroMQ does not reconnect after a protocol error, so a wait would never end.
TEST_F(ConnectionsTest, AConnectionWithoutAnAnswerIsLostOnceAPeriod) {
  EXPECT_TRUE(Greets());
  Answer(1);
  connections_.Expect(0, now_);
  now_ += kEvery;
  EXPECT_TRUE(Greets());
  const absl::Duration patience = Connections::kUnansweredHellos * kEvery;
  now_ += patience - absl::Milliseconds(1);
  EXPECT_FALSE(TakeLost().has_value());
  now_ += absl::Milliseconds(1);
  EXPECT_FALSE(TakeLost(absl::Milliseconds(1)).has_value()) << "something is still on its way";
  int patiences = 1;
  for (const int next : {1, 2, 4, 8, 16, 16}) {
    const auto lost = TakeLost();
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->connection, 0u);
    EXPECT_EQ(lost->unanswered, patiences * patience);
    EXPECT_EQ(lost->is_first, patiences == 1);
    EXPECT_TRUE(Greets()) << "at once";
    now_ += next * patience - absl::Milliseconds(1);
    EXPECT_FALSE(TakeLost().has_value()) << "the new one has its time, too";
    now_ += absl::Milliseconds(1);
    patiences += next;
  }
  EXPECT_EQ(hello_.connection, 76u) << "each has a number of its own";
  EXPECT_EQ(Hear(1).lost_up_to, Connections::kAllFrames);
  EXPECT_EQ(Hear(1).lost_up_to, 0u);
  EXPECT_FALSE(TakeLost().has_value());
  now_ += kEvery;
  EXPECT_TRUE(Greets());
  now_ += patience;
  EXPECT_TRUE(TakeLost()->is_first) << "it was welcome meanwhile";
  EXPECT_TRUE(Answer(2)) << "another incarnation is more than a resumed one";
}

// The worker's frames may be lost while updates with the others' pushes still arrive.
TEST_F(ConnectionsTest, UpdatesAreNoAnswer) {
  EXPECT_TRUE(Greets());
  Answer(1);
  connections_.Expect(0, now_);
  for (int i = 0; i <= Connections::kUnansweredHellos; ++i) {
    EXPECT_FALSE(TakeLost().has_value());
    now_ += kEvery;
    EXPECT_TRUE(Greets());
    HearMerged();
  }
  EXPECT_TRUE(TakeLost().has_value());
}

// The loss is noticed before the connection is needed again.
TEST_F(ConnectionsTest, AnIdleConnectionIsFoundLostAfterItsHello) {
  EXPECT_TRUE(Greets());
  Answer(1);
  now_ += Connections::kIdleHellos * kEvery;
  for (int i = 0; i < Connections::kUnansweredHellos; ++i) {
    EXPECT_FALSE(TakeLost().has_value());
    EXPECT_TRUE(Greets());
    now_ += kEvery;
  }
  EXPECT_TRUE(TakeLost().has_value());
}

// The socket of a connection that ZeroMQ has given up takes nothing, not even a hello. No frame is
// left in it, so a new connection costs nothing.
TEST_F(ConnectionsTest, AConnectionThatTakesNothingIsLostAgainAndAgain) {
  for (int lost = 0; lost < 5; ++lost) {
    connections_.Hold(0, now_);
    for (int i = 0; i < Connections::kUnansweredHellos; ++i) {
      EXPECT_FALSE(TakeLost().has_value());
      EXPECT_TRUE(connections_.NextFrame(now_).has_value()) << "a new one is not held";
      now_ += kEvery;
      connections_.Hold(0, now_);
    }
    EXPECT_TRUE(TakeLost(absl::Hours(1)).has_value()) << "nothing is on its way";
  }
}

// A queue that is full because its link is slow takes a frame now and then.
TEST_F(ConnectionsTest, AConnectionThatTakesSomethingHasTimeForWhatIsOnItsWay) {
  for (int i = 0; i < 10; ++i) {
    connections_.Hold(0, now_);
    now_ += kEvery;
    connections_.Sent(0, FrameKind::kPush, now_);
    EXPECT_FALSE(TakeLost(absl::Hours(1)).has_value());
  }
  EXPECT_TRUE(TakeLost().has_value());
}

TEST_F(ConnectionsTest, AnAnswerOfAnyKindKeepsAConnection) {
  EXPECT_TRUE(Greets());
  for (int i = 0; i < 10; ++i) {
    now_ += kEvery;
    ++sent_;
    connections_.OnFrame(0, AnswerFrame{.outcome = Outcome::kBusy, .run = 5, .segment = 2}, now_);
    EXPECT_FALSE(TakeLost().has_value());
    EXPECT_TRUE(Greets()) << "it was not welcome yet";
  }
}

// Both ends count frames: a frame that one has sent and the other has not got is missing from then
// on.
TEST_F(ConnectionsTest, AChangeOfWhatIsMissingIsALoss) {
  EXPECT_EQ(connections_.ready_at(0), absl::InfiniteFuture());
  EXPECT_TRUE(Greets());
  EXPECT_EQ(Hear(1).lost_up_to, Connections::kAllFrames) << "it was not welcome";
  EXPECT_LE(connections_.ready_at(0), now_);
  for (int i = 0; i < 3; ++i) connections_.Sent(0, FrameKind::kPush, now_);
  EXPECT_EQ(connections_.sent(0), 4u);
  HearMerged();
  now_ += Connections::kIdleHellos * kEvery;
  EXPECT_TRUE(Greets());
  EXPECT_EQ(hello_.frames_sent, 4u);
  EXPECT_EQ(Hear(1).lost_up_to, 0u);
  ++missing_;
  EXPECT_EQ(Hear(1).lost_up_to, 4u) << "there, of what was sent before the hello";
  EXPECT_EQ(Hear(1).lost_up_to, 0u) << "it is known";
  ++sent_;
  EXPECT_EQ(Hear(1).lost_up_to, Connections::kAllFrames) << "here";
  EXPECT_EQ(Hear(1).lost_up_to, 0u);
  missing_ = 7;  // ZeroMQ has connected anew, and the shard counts from there
  sent_ = 0;
  EXPECT_GT(Hear(1).lost_up_to, 0u);
}

TEST_F(ConnectionsTest, TellsOneIncarnationFromAnother) {
  EXPECT_FALSE(Answer(1));  // the first that is heard of
  EXPECT_FALSE(Answer(1));
  EXPECT_TRUE(Answer(2));
  EXPECT_FALSE(Answer(2));
  EXPECT_FALSE(Answer(3, Outcome::kRejected));  // nothing would be taken yet
  EXPECT_TRUE(Answer(3));
  connections_.Reconnected(0, now_);
  EXPECT_FALSE(Answer(4));
}

TEST_F(ConnectionsTest, AHeldConnectionIsNotGreeted) {
  connections_.Hold(0, now_ + absl::Seconds(1));
  EXPECT_FALSE(Greets());
  EXPECT_EQ(connections_.DueAt(), now_ + absl::Seconds(1));
  now_ += absl::Seconds(1);
  EXPECT_TRUE(Greets());
}

TEST_F(ConnectionsTest, HelloIsSaidAtOnceToAShardThatAsksForIt) {
  EXPECT_TRUE(Greets());
  Answer(1);
  const RequestFrame request{.run = 5, .worker = 6, .segment = kNoSegment};
  for (const bool outstanding : {false, true}) {
    if (outstanding) connections_.Expect(0, now_);
    EXPECT_FALSE(Greets());
    ++sent_;
    connections_.OnFrame(0, request, now_);
    EXPECT_FALSE(connections_.is_welcome(0));
    EXPECT_TRUE(Greets());
    EXPECT_FALSE(Greets());
    EXPECT_EQ(Answer(outstanding ? 2 : 1), outstanding) << "another incarnation is told as ever";
  }
}

}  // namespace
}  // namespace longwave

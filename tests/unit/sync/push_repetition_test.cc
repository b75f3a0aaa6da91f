#include "tests/unit/sync/ledger_fixture.h"
#include "worker/sync/push_ledger.h"

namespace longwave {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// When a contribution is sent again.
class PushRepetitionTest : public LedgerTest {
 protected:
  void RefuseTwelveTimes(Outcome outcome) {
    absl::Duration longest;
    for (int i = 0; i < 12; ++i) {
      Answer(0, 0, outcome);
      const absl::Time refused = now_;
      std::vector<std::string> sent = PassAlive(absl::ZeroDuration());
      EXPECT_THAT(sent, IsEmpty());
      while (sent.empty()) sent = PassAlive(ledger_.DueAt() - now_);
      EXPECT_THAT(sent, ElementsAre("push 0/0"));
      EXPECT_GE(now_ - refused, kBusyBackoffMin / 2);
      EXPECT_LE(now_ - refused, kBusyBackoffMax);
      longest = std::max(longest, now_ - refused);
    }
    EXPECT_GE(longest, kBusyBackoffMax / 2);
    Answer(0, 0, Outcome::kAccepted);
    Merged(0, 0);
    EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
  }
};

TEST_F(PushRepetitionTest, PushesAgainAfterASilenceAndEachTimeLater) {
  Post(0, 0);
  SendAll();
  EXPECT_THAT(PassAlive(kRetryAfter - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(PassAlive(absl::Milliseconds(1)), ElementsAre("push 0/0"));
  EXPECT_THAT(PassAlive(2 * kRetryAfter - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(PassAlive(absl::Milliseconds(1)), ElementsAre("push 0/0"));
  EXPECT_THAT(PassAlive(4 * kRetryAfter - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(PassAlive(absl::Milliseconds(1)), ElementsAre("push 0/0"));
}

// What is sent to one that is away waits in queues, and would all arrive at its return.
TEST_F(PushRepetitionTest, SaysNothingButHelloToAPeerThatIsAway) {
  Pass(absl::Seconds(1));
  Post(0, 0);
  SendAll();
  for (int i = 0; i < 50; ++i) {
    Pass(kHelloEvery);
    EXPECT_THAT(SendAll(), AllOf(Contains("hello 0"), Each(StartsWith("hello")))) << i;
  }
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
}

TEST_F(PushRepetitionTest, AnotherIncarnationIsSentAllThatIsOutstandingAtOnce) {
  for (const uint32_t segment : {0, 1, 2}) Post(0, segment);
  SendAll();
  Answer(0, 2, Outcome::kAccepted);
  Pass(kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  AnswerHello(0, kIncarnation + 1);
  AnswerHello(1, kIncarnation);
  // It may have lost what its predecessor had accepted.
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
  // It is known now.
  Pass(kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), IsEmpty());
}

// The copy had waited for the shard that lost its folder: what it answers comes before its hello.
TEST_F(PushRepetitionTest, AnotherIncarnationIsSentWhatItRefusedACopyOf) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kAccepted);
  Answer(0, 0, Outcome::kBusy);
  AnswerHello(0, kIncarnation + 1);
  Pass(kBusyBackoffMax);
  const std::vector<std::string> sent = SendAll();
  EXPECT_THAT(sent, Contains("push 0/0"));
  EXPECT_THAT(sent, Not(Contains("pull 0/0")));
}

// It may open the round again, and wait for nobody else.
TEST_F(PushRepetitionTest, AnotherIncarnationIsSentWhatWasLate) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kLate, 1);
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
  Answer(0, 0, Outcome::kAccepted);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

// The first answer to a hello need not be of the process that answered the push.
TEST_F(PushRepetitionTest, WhatWasAnsweredBeforeTheFirstHelloIsSentAgain) {
  ledger_.Reconnected(0, now_);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kAccepted);
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
  Answer(0, 0, Outcome::kDuplicate);
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(PushRepetitionTest, ANewConnectionIsOpenedAndSentAllThatIsOutstanding) {
  for (const uint32_t segment : {0, 1, 2}) Post(0, segment);
  SendAll();
  ledger_.Held(OutgoingFrame{.connection = 0, .header = {}, .payload = {}}, now_ + absl::Hours(1));
  ledger_.Reconnected(0, now_);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "push 0/0", "push 0/2"));
  // Whoever answers there is the first that is known.
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(PushRepetitionTest, NothingIsRepeatedWhileAnswersComeInOnItsConnection) {
  Post(0, 0);
  Post(0, 2);
  SendAll();
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(PassAlive(kRetryAfter * 0.9), Not(Contains("push 0/0"))) << i;
    Answer(0, 2, Outcome::kAccepted);
  }
  EXPECT_THAT(PassAlive(kRetryAfter), Contains("push 0/0"));
}

// The quorum goes on without this worker: updates of rounds to come say nothing of its push.
TEST_F(PushRepetitionTest, RoundsThatGoOnDoNotSilenceALostPush) {
  Post(0, 0);
  SendAll();
  std::vector<std::string> sent;
  for (uint32_t round = 1; round < 30 && sent.empty(); ++round) {
    Merged(round, 0);
    Merged(round, 2);
    sent = PassAlive(absl::Seconds(1));
  }
  EXPECT_THAT(sent, ElementsAre("push 0/0"));
}

// The push of segment 0 is lost. A shard whose memory is full refuses segment 2 for as long as just
// that one is missing.
TEST_F(PushRepetitionTest, AShardThatStaysBusyGetsTheOldestPushAgain) {
  Post(0, 0);
  Post(0, 2);
  SendAll();
  bool pushed_again = false;
  for (int turn = 0; turn < 100 && !pushed_again; ++turn) {
    Answer(0, 2, Outcome::kBusy);
    for (const std::string& sent : PassAlive(absl::Seconds(1))) pushed_again |= sent == "push 0/0";
  }
  EXPECT_TRUE(pushed_again);
}

TEST_F(PushRepetitionTest, AllThatWaitsIsSentAgainAfterASilence) {
  Post(0, 0);
  Post(0, 2);
  SendAll();
  EXPECT_THAT(PassAlive(kRetryAfter - absl::Milliseconds(1)), IsEmpty());
  Pass(absl::Milliseconds(1));
  // A link that takes one frame at a time: the answer to the first ends the silence for no other.
  auto frame = ledger_.Due(now_);
  while (frame.has_value() && Say(*frame) == "hello 0") {
    ledger_.Sent(*frame, now_);
    frame = ledger_.Due(now_);
  }
  ASSERT_TRUE(frame.has_value());
  ASSERT_EQ(Say(*frame), "push 0/0");
  ledger_.Sent(*frame, now_);
  Pass(absl::Milliseconds(100));
  Answer(0, 0, Outcome::kDuplicate);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/2"));
}

TEST_F(PushRepetitionTest, ALargePushIsGivenTheTimeOfASlowLink) {
  const auto bytes = static_cast<size_t>(4 * kBytesPerSecondMin);
  const SegmentPush push{.payload = Bytes(std::string(bytes, 'x')), .norm = 2, .weight = 9};
  ASSERT_TRUE(ledger_.Post(push, now_).ok());
  SendAll();
  // Four seconds up, and as much down.
  EXPECT_THAT(PassAlive(kRetryAfter + absl::Seconds(7)), IsEmpty());
  EXPECT_THAT(PassAlive(absl::Seconds(1)), ElementsAre("push 0/0"));
}

// Eleven workers, on the links of the same shards.
class SharedLinkTest : public LedgerTest {
 protected:
  SharedLinkTest() : LedgerTest(11) {}
  // Until when nothing is repeated, of a push of so many bytes whose update is as large.
  absl::Duration PauseAfter(uint64_t bytes) {
    const SegmentPush push{.payload = Bytes(std::string(bytes, 'x')), .norm = 2, .weight = 9};
    EXPECT_TRUE(ledger_.Post(push, now_).ok());
    SendAll();
    const absl::Time sent = now_;
    std::vector<std::string> again;
    while (again.empty() && now_ < sent + absl::Minutes(10)) {
      again = PassAlive(absl::Seconds(1));
    }
    EXPECT_THAT(again, ElementsAre("push 0/0"));
    return now_ - sent;
  }
};

// Of a shard's link the others' updates take ten times as long as the own one.
TEST_F(SharedLinkTest, APushIsGivenTheTimeThatTheOthersTake) {
  const uint64_t bytes =
      kShardBytesPerSecondMin / 5;  // 2 s there and 2 s back, of this worker's link
  EXPECT_EQ(PauseAfter(bytes), kRetryAfter + absl::Seconds(4) + absl::Seconds(4));
}

TEST_F(SharedLinkTest, ALostPushIsNotWaitedForForEver) {
  const uint64_t bytes = 4 * kShardBytesPerSecondMin;
  EXPECT_EQ(PauseAfter(bytes), kRetryAfter + absl::Seconds(80) + kSharedLinkMax);
}

TEST_F(PushRepetitionTest, ABusyShardGetsThePushAgainAfterABackoffThatGrows) {
  Post(0, 0);
  SendAll();
  RefuseTwelveTimes(Outcome::kBusy);
}

TEST_F(PushRepetitionTest, WhoIsNoMemberYetTriesAgainAfterABackoffThatGrows) {
  Post(0, 0);
  SendAll();
  RefuseTwelveTimes(Outcome::kNotMember);
  EXPECT_TRUE(ledger_.failure().ok());
}

// A push that was refused because the disk failed may be on that disk, and be merged after all
// (found by the simulator, seed 115).
TEST_F(PushRepetitionTest, ARoundThatClosesOverARefusalIsAskedWhatItTook) {
  for (const auto& [outcome, fate] :
       {std::pair{Outcome::kDuplicate, "accepted"}, std::pair{Outcome::kLate, "late"}}) {
    const uint32_t round = outcome == Outcome::kDuplicate ? 0 : 1;
    const std::string which = std::to_string(round) + "/0";
    Post(round, 0);
    SendAll();
    Answer(round, 0, Outcome::kBusy);
    Merged(round, 0);
    EXPECT_THAT(Settle(), IsEmpty());
    EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("push " + which));
    Answer(round, 0, outcome, round + 1);
    EXPECT_THAT(Settle(), ElementsAre(which + " " + fate + " down"));
  }
}

// What an earlier process of this worker sent may be in the merge.
TEST_F(PushRepetitionTest, AnUpdateThatWasAheadOfAPushSentBeforeSettlesNothing) {
  Merged(0, 0);
  const absl::Status posted = ledger_.Post({.epoch = 5,
                                            .round = 0,
                                            .segment = 0,
                                            .payload = Bytes("up"),
                                            .norm = 2,
                                            .weight = 9,
                                            .sent_before = true},
                                           now_);
  ASSERT_TRUE(posted.ok()) << posted;
  EXPECT_THAT(Settle(), IsEmpty());
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
  Answer(0, 0, Outcome::kDuplicate, 1);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushRepetitionTest, APullOfOneThatIsNoMemberAnyMoreIsSentAgain) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kAccepted);
  EXPECT_THAT(PassAlive(kRetryAfter), ElementsAre("pull 0/0"));
  Answer(0, 0, Outcome::kNotMember);
  EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("pull 0/0"));
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

// Pushed twice, refused once: the other copy may have been taken.
TEST_F(PushRepetitionTest, AFateIsUnknownWhileACopyIsUnanswered) {
  Post(0, 0);
  SendAll();
  EXPECT_THAT(PassAlive(kRetryAfter), ElementsAre("push 0/0"));
  Answer(0, 0, Outcome::kBusy);
  Merged(0, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  // Overtaken by the update: that of a round which is open could be another one's.
  Answer(0, 0, Outcome::kAccepted);
  EXPECT_THAT(Settle(), IsEmpty());
  EXPECT_THAT(PassAlive(kRetryAfter), ElementsAre("pull 0/0"));
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushRepetitionTest, AFullQueueHoldsItsConnectionAlone) {
  for (uint32_t segment : {0, 1, 2}) Post(0, segment);
  const OutgoingFrame first = ledger_.Due(now_).value();
  EXPECT_EQ(first.connection, 0u);
  ledger_.Held(first, now_ + absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/1"));
  EXPECT_EQ(ledger_.DueAt(), now_ + absl::Seconds(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
}

}  // namespace
}  // namespace longwave

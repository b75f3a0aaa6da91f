#include "tests/unit/sync/ledger_fixture.h"
#include "worker/sync/segment_ledger.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// When a contribution is sent again.
class PushRepetitionTest : public LedgerTest {};

TEST_F(PushRepetitionTest, WhatWasLostOnTheWayThereOrBackIsSentAgainOnce) {
  for (const bool there : {true, false}) {
    const uint32_t round = there ? 0 : 1;
    const std::string which = std::to_string(round) + "/0";
    Post(round, 0);
    SendAll();
    there ? LoseThere(0) : LoseHere(0);
    EXPECT_THAT(PassHello(), ElementsAre("push " + which));
    EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty());
    Answer(round, 0, Outcome::kAccepted);
    LoseHere(0);
    EXPECT_THAT(PassHello(), ElementsAre("pull " + which));
    Merged(round, 0);
    EXPECT_THAT(Settle(), ElementsAre(which + " accepted down"));
  }
}

// The push is on its way, and its answer, too.
TEST_F(PushRepetitionTest, WhatWasSentAfterTheHelloIsNotSentAgain) {
  Post(0, 0);
  SendAll();
  Pass(kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  Post(0, 2);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/2"));
  LoseThere(0);
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
}

// The answer to a hello did not arrive: the next answer states the same.
TEST_F(PushRepetitionTest, ALostHelloHidesNoLoss) {
  Post(0, 0);
  SendAll();
  LoseThere(0);
  for (int i = 0; i < 2; ++i) {
    Pass(kHelloEvery);
    EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  }
  LoseHere(0);
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
}

TEST_F(PushRepetitionTest, NothingButHelloIsSaidOnAConnectionThatIsNotWelcome) {
  ledger_.Reconnected(0, now_);
  Post(0, 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(SendAll(), ElementsAre("hello 0")) << i;
    Pass(kHelloEvery);
  }
  AnswerHello(0, kIncarnation, Outcome::kRejected);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
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
  // The incarnation may have lost pushes that its predecessor accepted.
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
  // The incarnation is known now.
  Pass(kHelloEvery);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1"));
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), IsEmpty());
}

// The copy had waited for the shard that lost its folder, whose answer comes before its hello.
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

// The shard may open the round again, and wait for this worker alone.
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

// An earlier message may be the earlier process's.
TEST_F(PushRepetitionTest, WhatComesBeforeTheAnswerToTheHelloCountsForNothing) {
  Post(0, 0);
  SendAll();
  ledger_.Reconnected(0, now_);
  Answer(0, 0, Outcome::kAccepted);
  Merged(0, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  AnswerHello(0, kIncarnation);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0"));
}

TEST_F(PushRepetitionTest, ANewConnectionIsOpenedAndSentAllThatIsOutstanding) {
  for (const uint32_t segment : {0, 1, 2}) Post(0, segment);
  SendAll();
  ledger_.Held(OutgoingFrame{.connection = 0, .header = {}, .payload = {}}, now_ + absl::Hours(1));
  ledger_.Reconnected(0, now_);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  // Any incarnation that answers there is the first known one.
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
}

TEST_F(PushRepetitionTest, ARefusalForNowIsTriedAgainAfterABackoffThatGrows) {
  for (const Outcome outcome : {Outcome::kBusy, Outcome::kNotMember}) {
    const uint32_t round = outcome == Outcome::kBusy ? 0 : 1;
    const std::string which = std::to_string(round) + "/0";
    Post(round, 0);
    SendAll();
    absl::Duration longest;
    for (int i = 0; i < 12; ++i) {
      Answer(round, 0, outcome);
      const absl::Time refused = now_;
      std::vector<std::string> sent = PassAlive(absl::ZeroDuration());
      EXPECT_THAT(sent, IsEmpty());
      while (sent.empty()) sent = PassAlive(ledger_.DueAt() - now_);
      EXPECT_THAT(sent, ElementsAre("push " + which));
      EXPECT_GE(now_ - refused, kBusyBackoffMin / 2);
      EXPECT_LE(now_ - refused, kBusyBackoffMax);
      longest = std::max(longest, now_ - refused);
    }
    EXPECT_GE(longest, kBusyBackoffMax / 2);
    Answer(round, 0, Outcome::kAccepted);
    Merged(round, 0);
    EXPECT_THAT(Settle(), ElementsAre(which + " accepted down"));
  }
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

// A push of an earlier process of this worker may be in the merge.
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

TEST_F(PushRepetitionTest, APullThatIsRefusedIsSentAgain) {
  for (const Outcome outcome : {Outcome::kNotMember, Outcome::kBusy}) {
    const uint32_t round = outcome == Outcome::kNotMember ? 0 : 1;
    const std::string which = std::to_string(round) + "/0";
    Post(round, 0);
    SendAll();
    Answer(round, 0, Outcome::kAccepted);
    LoseHere(0);
    EXPECT_THAT(PassHello(), ElementsAre("pull " + which));
    Answer(round, 0, outcome);
    EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("pull " + which));
    Merged(round, 0);
    EXPECT_THAT(Settle(), ElementsAre(which + " accepted down"));
  }
}

// Pushed twice, refused once: the other copy may have been taken.
TEST_F(PushRepetitionTest, AFateIsUnknownWhileACopyIsUnanswered) {
  Post(0, 0);
  SendAll();
  LoseHere(0);
  EXPECT_THAT(PassHello(), ElementsAre("push 0/0"));
  Answer(0, 0, Outcome::kBusy);
  Merged(0, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  // Overtaken by the update: that of a round which is open could be another one's.
  Answer(0, 0, Outcome::kAccepted);
  EXPECT_THAT(Settle(), IsEmpty());
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushRepetitionTest, AFullQueueHoldsItsConnectionAlone) {
  for (uint32_t segment : {0, 1, 2}) Post(0, segment);
  const OutgoingFrame first = ledger_.NextFrame(now_).value();
  EXPECT_EQ(first.connection, 0u);
  ledger_.Held(first, now_ + absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/1"));
  EXPECT_EQ(ledger_.DueAt(), now_ + absl::Seconds(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
}

}  // namespace
}  // namespace longwave

#include "worker/sync/push_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kRun = 7;
constexpr uint32_t kWorker = 3;
constexpr absl::Duration kRetryAfter = absl::Seconds(10);

Buffer Bytes(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(std::byte(c));
  return Buffer(std::move(bytes));
}

std::string Text(const Buffer& buffer) {
  return std::string(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size());
}

// "push 2/0" for a push of round 2 to segment 0, "hello 1" for one on connection 1.
std::string Say(const PushLedger::Outgoing& frame) {
  const std::string kind(Name(frame.header.kind));
  if (frame.header.kind == FrameKind::kHello) return kind + " " + std::to_string(frame.connection);
  return kind + " " + std::to_string(frame.header.round) + "/" +
         std::to_string(frame.header.segment);
}

// Two connections, three segments: 0 and 2 on the first, 1 on the second.
class PushLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1")); }

  // Everything that is due now is sent; what it was.
  std::vector<std::string> SendAll() {
    std::vector<std::string> sent;
    while (const auto frame = ledger_.Due(now_)) {
      sent.push_back(Say(*frame));
      ledger_.Sent(*frame, now_);
      if (sent.size() > 100) break;
    }
    return sent;
  }

  void Post(uint32_t round, uint32_t segment) {
    const absl::Status posted = ledger_.Post({.epoch = 5,
                                              .round = round,
                                              .segment = segment,
                                              .payload = Bytes("up"),
                                              .norm = 2,
                                              .weight = 9},
                                             now_);
    ASSERT_TRUE(posted.ok()) << posted;
  }

  void Take(FrameKind kind, uint32_t round, uint32_t segment, Outcome outcome = Outcome::kNone,
            const std::string& payload = "") {
    FrameHeader header{.kind = kind, .outcome = outcome, .run = kRun, .round = round};
    header.segment = segment;
    ledger_.Take(segment == kNoSegment ? 0 : segment % 2, header, Bytes(payload), now_);
  }
  void AnswerHellos() {
    for (const uint32_t connection : {0, 1}) {
      ledger_.Take(connection,
                   {.kind = FrameKind::kAnswer,
                    .outcome = Outcome::kAccepted,
                    .run = kRun,
                    .segment = kNoSegment},
                   Buffer(), now_);
    }
  }
  void Answer(uint32_t round, uint32_t segment, Outcome outcome) {
    Take(FrameKind::kAnswer, round, segment, outcome);
  }
  void Merged(uint32_t round, uint32_t segment, const std::string& payload = "down") {
    Take(FrameKind::kMerged, round, segment, Outcome::kNone, payload);
  }
  // "0/1 accepted down", one for each that was settled.
  std::vector<std::string> Settle() {
    std::vector<std::string> settled;
    for (const Settled& one : ledger_.TakeSettled()) {
      settled.push_back(std::to_string(one.round) + "/" + std::to_string(one.segment) +
                        (one.accepted ? " accepted " : " late ") + Text(one.merged));
    }
    return settled;
  }
  void Pass(absl::Duration time) { now_ += time; }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(5);
  PushLedger ledger_{{.run = kRun,
                      .worker = kWorker,
                      .connections = {0, 1, 0},
                      .connection_count = 2,
                      .download_bytes_per_s = 4000,
                      .retry_after = kRetryAfter}};
};

TEST_F(PushLedgerTest, PushesInTheOrderPostedAndSettlesInTheOrderAnswered) {
  for (uint32_t segment : {0, 1, 2}) Post(0, segment);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/1", "push 0/2"));
  for (uint32_t segment : {2, 0, 1}) {
    Answer(0, segment, Outcome::kAccepted);
    Merged(0, segment);
  }
  EXPECT_THAT(Settle(), ElementsAre("0/2 accepted down", "0/0 accepted down", "0/1 accepted down"));
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(PushLedgerTest, FramesSayWhoWhatAndHowMuch) {
  Post(4, 1);
  const PushLedger::Outgoing push = ledger_.Due(now_).value();
  EXPECT_EQ(push.connection, 1u);
  const FrameHeader wanted{.kind = FrameKind::kPush,
                           .run = kRun,
                           .epoch = 5,
                           .round = 4,
                           .worker = kWorker,
                           .segment = 1,
                           .weight = 9,
                           .norm = 2};
  EXPECT_EQ(push.header, wanted);
  EXPECT_EQ(Text(push.payload), "up");
  PushLedger fresh({.run = kRun, .connection_count = 1, .download_bytes_per_s = 4000});
  const PushLedger::Outgoing hello = fresh.Due(now_).value();
  EXPECT_EQ(hello.header.kind, FrameKind::kHello);
  EXPECT_EQ(hello.header.segment, kNoSegment);
  EXPECT_EQ(hello.header.weight, 4000u);
}

TEST_F(PushLedgerTest, ADuplicateIsAsGoodAsAccepted) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kDuplicate);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushLedgerTest, PushesAgainAfterSilenceAndOpensTheConnectionBefore) {
  Post(0, 0);
  SendAll();
  Pass(kRetryAfter - absl::Milliseconds(1));
  EXPECT_THAT(SendAll(), IsEmpty());
  Pass(absl::Milliseconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1", "push 0/0"));
  // The next silence is twice as long, and the third twice that.
  Pass(2 * kRetryAfter - absl::Milliseconds(1));
  EXPECT_THAT(SendAll(), IsEmpty());
  Pass(absl::Milliseconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "hello 1", "push 0/0"));
}

TEST_F(PushLedgerTest, NothingIsRepeatedWhileAnythingComesInOnItsConnection) {
  Take(FrameKind::kAnswer, 0, kNoSegment, Outcome::kAccepted);
  Post(0, 0);
  Post(0, 2);
  SendAll();
  for (int i = 0; i < 10; ++i) {
    Pass(kRetryAfter * 0.9);
    Answer(0, 2, Outcome::kAccepted);
    EXPECT_THAT(SendAll(), ::testing::Not(::testing::Contains("push 0/0"))) << i;
  }
  Pass(kRetryAfter);
  EXPECT_THAT(SendAll(), ::testing::Contains("push 0/0"));
}

// The push of segment 0 is lost. A shard whose memory is full refuses segment 2 for as long as just
// that one is missing.
TEST_F(PushLedgerTest, AShardThatStaysBusyGetsTheOldestPushAgain) {
  Post(0, 0);
  Post(0, 2);
  SendAll();
  bool pushed_again = false;
  for (int turn = 0; turn < 100 && !pushed_again; ++turn) {
    Answer(0, 2, Outcome::kBusy);
    Pass(absl::Seconds(1));
    for (const std::string& sent : SendAll()) pushed_again |= sent == "push 0/0";
  }
  EXPECT_TRUE(pushed_again);
}

TEST_F(PushLedgerTest, AllThatWaitsIsSentAgainAfterASilence) {
  AnswerHellos();
  Post(0, 0);
  Post(0, 2);
  SendAll();
  Pass(kRetryAfter);
  // A link that takes one frame at a time: the answer to the first ends the silence for no other.
  auto frame = ledger_.Due(now_);
  ASSERT_TRUE(frame.has_value());
  ASSERT_EQ(Say(*frame), "hello 0");
  ledger_.Sent(*frame, now_);
  AnswerHellos();
  frame = ledger_.Due(now_);
  ASSERT_TRUE(frame.has_value());
  ASSERT_EQ(Say(*frame), "push 0/0");
  ledger_.Sent(*frame, now_);
  Pass(absl::Milliseconds(100));
  Answer(0, 0, Outcome::kDuplicate);
  EXPECT_THAT(SendAll(), ElementsAre("push 0/2"));
}

TEST_F(PushLedgerTest, ALargePushIsGivenTheTimeOfASlowLink) {
  AnswerHellos();
  const auto bytes = static_cast<size_t>(4 * PushLedger::kBytesPerSecondMin);
  const SegmentPush push{.payload = Bytes(std::string(bytes, 'x')), .norm = 2, .weight = 9};
  ASSERT_TRUE(ledger_.Post(push, now_).ok());
  SendAll();
  Pass(kRetryAfter + absl::Seconds(7));  // four seconds up, and as much down
  EXPECT_THAT(SendAll(), IsEmpty());
  Pass(absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("hello 0", "push 0/0"));
}

TEST_F(PushLedgerTest, PullsAnUpdateThatDoesNotCome) {
  Post(0, 1);
  SendAll();
  Answer(0, 1, Outcome::kAccepted);
  Pass(kRetryAfter);
  EXPECT_THAT(SendAll(), ::testing::Contains("pull 0/1"));
  Merged(0, 1);
  EXPECT_THAT(Settle(), ElementsAre("0/1 accepted down"));
}

TEST_F(PushLedgerTest, ALatePushPullsAtOnceAndIsNotAccepted) {
  Post(0, 1);
  SendAll();
  Answer(0, 1, Outcome::kLate);
  EXPECT_THAT(SendAll(), ElementsAre("pull 0/1"));
  Merged(0, 1);
  EXPECT_THAT(Settle(), ElementsAre("0/1 late down"));
}

TEST_F(PushLedgerTest, AnUpdateBeforeTheAnswerWaitsForIt) {
  for (const auto& [outcome, said] :
       {std::pair{Outcome::kLate, "late"}, std::pair{Outcome::kAccepted, "accepted"}}) {
    const uint32_t round = outcome == Outcome::kLate ? 0 : 1;
    Post(round, 0);
    SendAll();
    Merged(round, 0);
    EXPECT_THAT(Settle(), IsEmpty());
    Answer(round, 0, outcome);
    EXPECT_THAT(Settle(), ElementsAre(std::to_string(round) + "/0 " + said + " down"));
    EXPECT_THAT(SendAll(), IsEmpty());
  }
}

// The answer was lost with a connection: a repetition brings it.
TEST_F(PushLedgerTest, AnUpdateWithoutAnAnswerPushesAgainToLearnItsFate) {
  Post(0, 0);
  SendAll();
  Merged(0, 0);
  Pass(kRetryAfter);
  EXPECT_THAT(SendAll(), ::testing::Contains("push 0/0"));
  Answer(0, 0, Outcome::kDuplicate);
  Merged(0, 0, "again");
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushLedgerTest, AnUpdateThatWasAheadIsKeptAndThePushNotSent) {
  Merged(0, 0, "first");
  Merged(0, 0, "again");
  Post(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 late first"));
  EXPECT_THAT(SendAll(), IsEmpty());
  // And of the round after one that is under way.
  Post(1, 0);
  SendAll();
  Merged(2, 0, "ahead");
  EXPECT_THAT(Settle(), IsEmpty());
  Answer(1, 0, Outcome::kAccepted);
  Merged(1, 0);
  EXPECT_THAT(Settle(), ElementsAre("1/0 accepted down"));
  Post(2, 0);
  EXPECT_THAT(Settle(), ElementsAre("2/0 late ahead"));
}

TEST_F(PushLedgerTest, ABusyShardGetsThePushAgainAfterABackoffThatGrows) {
  Post(0, 0);
  SendAll();
  absl::Duration longest;
  for (int i = 0; i < 12; ++i) {
    Answer(0, 0, Outcome::kBusy);
    EXPECT_THAT(SendAll(), IsEmpty());
    const absl::Duration backoff = ledger_.DueAt() - now_;
    EXPECT_GE(backoff, PushLedger::kBusyBackoffMin / 2);
    EXPECT_LE(backoff, PushLedger::kBusyBackoffMax);
    longest = std::max(longest, backoff);
    now_ = ledger_.DueAt();
    const auto frame = ledger_.Due(now_);
    ASSERT_TRUE(frame.has_value());
    if (Say(*frame) == "push 0/0")
      ledger_.Sent(*frame, now_);
    else
      SendAll();
  }
  EXPECT_GE(longest, PushLedger::kBusyBackoffMax / 2);
  Answer(0, 0, Outcome::kAccepted);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushLedgerTest, ARoundThatClosesOverABusyShardTookNothingOfThisWorker) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kBusy);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 late down"));
}

// Pushed twice, refused once: the other copy may have been taken.
TEST_F(PushLedgerTest, AFateIsUnknownWhileACopyIsUnanswered) {
  Post(0, 0);
  SendAll();
  Pass(kRetryAfter);
  EXPECT_THAT(SendAll(), ::testing::Contains("push 0/0"));
  Answer(0, 0, Outcome::kBusy);
  Merged(0, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  Answer(0, 0, Outcome::kAccepted);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushLedgerTest, RepetitionsAfterTheEndChangeNothing) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kAccepted);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
  for (const Outcome outcome : {Outcome::kAccepted, Outcome::kDuplicate, Outcome::kLate,
                                Outcome::kBusy, Outcome::kRejected}) {
    Answer(0, 0, outcome);
  }
  Merged(0, 0);
  EXPECT_THAT(Settle(), IsEmpty());
  EXPECT_TRUE(ledger_.failure().ok());
  Post(1, 0);
  Answer(0, 0, Outcome::kLate);  // of the round before
  Merged(0, 0, "old");
  EXPECT_THAT(SendAll(), ElementsAre("push 1/0"));
  EXPECT_THAT(Settle(), IsEmpty());
}

// The answer to a repetition that reached the shard after it had closed the round.
TEST_F(PushLedgerTest, WhatWasAcceptedIsNotLateAfterwards) {
  Post(0, 0);
  SendAll();
  Answer(0, 0, Outcome::kAccepted);
  Answer(0, 0, Outcome::kLate);
  Merged(0, 0);
  EXPECT_THAT(Settle(), ElementsAre("0/0 accepted down"));
}

TEST_F(PushLedgerTest, ARejectionIsFinalWithTheShardsSentence) {
  Post(2, 1);
  SendAll();
  Take(FrameKind::kAnswer, 2, 1, Outcome::kRejected, "weight 0, wanted 1 or more");
  EXPECT_EQ(ledger_.failure().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ledger_.failure().message()), HasSubstr("weight 0, wanted 1 or more"));
  EXPECT_THAT(std::string(ledger_.failure().message()), HasSubstr("round 2"));
}

TEST_F(PushLedgerTest, ARejectedHelloIsSaidAgain) {
  Take(FrameKind::kAnswer, 0, kNoSegment, Outcome::kRejected);
  EXPECT_TRUE(ledger_.failure().ok());
  EXPECT_THAT(SendAll(), IsEmpty());
  Pass(PushLedger::kBusyBackoffMax);
  EXPECT_THAT(SendAll(), ElementsAre("hello 0"));
  Take(FrameKind::kAnswer, 0, kNoSegment, Outcome::kAccepted);
  Pass(kRetryAfter / 2);
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(PushLedgerTest, AFullQueueHoldsItsConnectionAlone) {
  for (uint32_t segment : {0, 1, 2}) Post(0, segment);
  const PushLedger::Outgoing first = ledger_.Due(now_).value();
  EXPECT_EQ(first.connection, 0u);
  ledger_.Held(first, now_ + absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/1"));
  EXPECT_EQ(ledger_.DueAt(), now_ + absl::Seconds(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(SendAll(), ElementsAre("push 0/0", "push 0/2"));
}

TEST_F(PushLedgerTest, IgnoresOtherRunsAndSegmentsOfNoModel) {
  Post(0, 0);
  SendAll();
  FrameHeader header{
      .kind = FrameKind::kAnswer, .outcome = Outcome::kRejected, .run = kRun + 1, .round = 0};
  ledger_.Take(0, header, Buffer(), now_);
  Answer(0, 77, Outcome::kRejected);
  Merged(0, 77);
  EXPECT_TRUE(ledger_.failure().ok());
  EXPECT_THAT(Settle(), IsEmpty());
}

TEST_F(PushLedgerTest, ASegmentIsPostedOnceAtATime) {
  Post(0, 0);
  EXPECT_EQ(ledger_.Post({.round = 1, .segment = 0}, now_).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ledger_.Post({.round = 1, .segment = 3}, now_).code(),
            absl::StatusCode::kInvalidArgument);
}

// Frames lost both ways, answers doubled and out of order, against a shard that answers as a shard
// does: every round settles, once a segment, with the update of its round.
TEST_F(PushLedgerTest, SettlesEveryRoundOnceOverALinkThatLosesAndReorders) {
  uint64_t state = 1;
  const auto chance = [&state](uint32_t percent) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % 100 < percent;
  };
  std::vector<std::pair<FrameHeader, std::string>> back;  // on their way to the worker
  std::vector<int> open(3, 0), accepted(3, -1);           // by segment: rounds
  uint32_t settled_count = 0;
  for (uint32_t round = 0; round < 30; ++round) {
    for (uint32_t segment : {0, 1, 2}) Post(round, segment);
    for (int turn = 0; settled_count < 3 * (round + 1); ++turn) {
      ASSERT_LT(turn, 100'000) << "round " << round;
      while (const auto frame = ledger_.Due(now_)) {
        ledger_.Sent(*frame, now_);
        FrameHeader answer = frame->header;
        answer.kind = FrameKind::kAnswer;
        answer.outcome = Outcome::kAccepted;
        if (chance(20)) continue;
        if (frame->header.kind == FrameKind::kHello) {
          back.push_back({answer, ""});
          continue;
        }
        const uint32_t s = frame->header.segment;
        FrameHeader merged = frame->header;
        merged.kind = FrameKind::kMerged;
        const bool is_open = static_cast<int>(round) == open[s];
        if (frame->header.kind == FrameKind::kPush) {
          if (is_open && chance(20)) {
            answer.outcome = Outcome::kBusy;
            back.push_back({answer, ""});
            continue;
          }
          if (is_open && chance(10)) ++open[s];  // the quorum was ahead
          if (static_cast<int>(round) == open[s]) {
            accepted[s] = open[s]++;
          } else {
            answer.outcome =
                accepted[s] == static_cast<int>(round) ? Outcome::kDuplicate : Outcome::kLate;
          }
          back.push_back({answer, ""});
          if (chance(10)) back.push_back(back.back());
        }
        if (static_cast<int>(round) < open[s]) back.push_back({merged, std::to_string(round)});
      }
      if (back.size() > 1 && chance(30)) std::swap(back.front(), back.back());
      for (const auto& [header, payload] : back) {
        if (chance(20)) continue;
        ledger_.Take(header.segment == kNoSegment ? 0 : header.segment % 2, header, Bytes(payload),
                     now_);
      }
      back.clear();
      for (const Settled& settled : ledger_.TakeSettled()) {
        ++settled_count;
        EXPECT_EQ(settled.round, round);
        EXPECT_EQ(Text(settled.merged), std::to_string(round));
        EXPECT_EQ(settled.accepted, accepted[settled.segment] == static_cast<int>(round));
      }
      Pass(absl::Seconds(1));
    }
  }
  EXPECT_TRUE(ledger_.failure().ok());
  EXPECT_EQ(settled_count, 90u);
}

}  // namespace
}  // namespace longwave

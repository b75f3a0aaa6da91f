#include "tests/unit/sync/ledger_fixture.h"
#include "worker/sync/segment_ledger.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FetchTest : public LedgerTest {
 protected:
  // To the present, of segment 0 from round 3 on, in a log that goes up to `open`.
  void Pull(uint32_t open) {
    Fetch(0, 3);
    EXPECT_THAT(SendAll(), ElementsAre("fetch 3/0"));
    Answer(3, 0, Outcome::kAccepted, open);
  }
};

TEST_F(FetchTest, PullsUpToThePresentInAWindow) {
  Pull(9);
  EXPECT_THAT(SendAll(), ElementsAre("pull 3/0", "pull 4/0", "pull 5/0", "pull 6/0"));
  Merged(3, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down"));
  EXPECT_THAT(SendAll(), ElementsAre("pull 7/0"));
  for (const uint32_t round : {4, 5, 6, 7}) Merged(round, 0);
  EXPECT_THAT(SendAll(), ElementsAre("pull 8/0"));
  Merged(8, 0);
  EXPECT_THAT(TakeFetched(),
              ElementsAre("4/0 down", "5/0 down", "6/0 down", "7/0 down", "8/0 down", "up to 9/0"));
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(FetchTest, FramesSayWhoAndWhat) {
  Fetch(1, 4);
  const OutgoingFrame fetch = ledger_.NextFrame(now_).value();
  EXPECT_EQ(fetch.connection, 1u);
  const FetchFrame wanted{.run = kRun, .round = 4, .worker = kWorker, .segment = 1};
  EXPECT_EQ(fetch.header, wanted);
  EXPECT_TRUE(fetch.payload.empty());
}

// A shard that has lost its folder waits to hear its members' rounds (found by the simulator).
TEST_F(FetchTest, AFollowedSegmentIsAskedForAgainOfAnotherProcessOfTheShard) {
  AnswerHello(0, kIncarnation);
  Pull(3);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/0"));
  AnswerHello(0, kIncarnation + 1);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 3/0"));
  Answer(3, 0, Outcome::kAccepted, 3);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/0"));
}

// A shard that has lost its folder may close rounds again whose updates it had sent (found by the
// simulator).
TEST_F(FetchTest, WhatWasKeptIsForgottenWithTheProcessThatToldIt) {
  AnswerHello(0, kIncarnation);
  Pull(3);
  TakeFetched();
  Merged(3, 0, "of a round that happens again");
  AnswerHello(0, kIncarnation + 1);
  SendAll();
  Answer(3, 0, Outcome::kAccepted, 3);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/0"));
  Merged(3, 0);
  Fetch(0, 3, 4);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down", "up to 4/0"));
}

TEST_F(FetchTest, DeliversInOrderOnceWhateverTheOrderOfArrival) {
  Pull(7);
  SendAll();
  for (const uint32_t round : {6, 4, 4, 5, 6}) Merged(round, 0);
  EXPECT_THAT(TakeFetched(), IsEmpty());
  Merged(3, 0);
  Merged(3, 0, "again");
  EXPECT_THAT(TakeFetched(),
              ElementsAre("3/0 down", "4/0 down", "5/0 down", "6/0 down", "up to 7/0"));
}

// A shard that was restored from an older state.
TEST_F(FetchTest, WhoIsAheadOfItsShardIsUpToDate) {
  Pull(1);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/0"));
}

TEST_F(FetchTest, ASnapshotComesFirstAndWhatLeadsOnFromItIsAskedFor) {
  Fetch(0, 3);
  SendAll();
  Snapshot(40, 0);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 40/0"));
  Snapshot(40, 0);  // of a fetch that was repeated
  Answer(40, 0, Outcome::kAccepted, 42);
  EXPECT_THAT(SendAll(), ElementsAre("pull 40/0", "pull 41/0"));
  Merged(41, 0);
  Merged(40, 0);
  EXPECT_THAT(TakeFetched(),
              ElementsAre("snapshot 40/0 state", "40/0 down", "41/0 down", "up to 42/0"));
}

TEST_F(FetchTest, WhoHasNothingGetsASnapshotOfAnyRoundFirst) {
  Fetch(0, kRoundNever);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 4294967295/0"));
  Merged(0, 0);  // of a round that closes meanwhile
  EXPECT_THAT(TakeFetched(), IsEmpty());
  Answer(kRoundNever, 0, Outcome::kBusy, 1);
  EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("fetch 4294967295/0"));
  Snapshot(0, 0);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 0/0"));
  Answer(0, 0, Outcome::kAccepted, 1);
  EXPECT_THAT(SendAll(), ElementsAre("pull 0/0"));
  Merged(0, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("snapshot 0/0 state", "0/0 down", "up to 1/0"));
}

TEST_F(FetchTest, WhoHasNothingIsNotAtTheRoundUpToWhichItFetches) {
  Fetch(0, kRoundNever, 2);
  EXPECT_THAT(TakeFetched(), IsEmpty());
  SendAll();
  Snapshot(2, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("snapshot 2/0 state", "up to 2/0"));
}

// Found by the chaos test: a shard was restarted while a worker followed it, and both the ledger
// and the worker sent it requests.
TEST_F(FetchTest, WhatIsWantedTakesThePlaceOfWhatIsFetchedUnasked) {
  Pull(4);
  SendAll();
  Merged(3, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down", "up to 4/0"));
  AnswerHello(0, kIncarnation + 1);
  Fetch(0, 4);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 4/0"));
  AnswerHello(0, kIncarnation + 2);
  SendAll();
  Answer(4, 0, Outcome::kAccepted, 4);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 4/0"));
  // The earlier state is not the end of the new fetch.
  AnswerHello(0, kIncarnation + 3);
  SendAll();
  Answer(4, 0, Outcome::kAccepted, 4);
  Fetch(0, 4);
  EXPECT_THAT(TakeFetched(), IsEmpty());
  EXPECT_THAT(SendAll(), ElementsAre("fetch 4/0"));
}

TEST_F(FetchTest, GoneIsFetchedAgain) {
  Pull(9);
  SendAll();
  Merged(3, 0);
  Answer(4, 0, Outcome::kCompacted, 9);
  for (const uint32_t round : {5, 6}) Answer(round, 0, Outcome::kCompacted, 9);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 4/0"));
  Answer(4, 0, Outcome::kCompacted, 9);  // to a pull that came twice
  Snapshot(8, 0);
  SendAll();
  Answer(8, 0, Outcome::kAccepted, 9);
  EXPECT_THAT(SendAll(), ElementsAre("pull 8/0"));
  Merged(8, 0);
  EXPECT_THAT(TakeFetched(),
              ElementsAre("3/0 down", "snapshot 8/0 state", "8/0 down", "up to 9/0"));
}

TEST_F(FetchTest, AShardThatContradictsItselfIsNotAskedInATightCircle) {
  Pull(9);
  int fetches = 0;
  for (int i = 0; i < 1000; ++i) {
    for (const std::string& sent : SendAll()) fetches += sent == "fetch 3/0";
    Answer(3, 0, Outcome::kAccepted, 9);
    SendAll();
    Answer(3, 0, Outcome::kCompacted, 9);
    Pass(absl::Milliseconds(10));
  }
  EXPECT_LT(fetches, 20);
}

TEST_F(FetchTest, UpToARoundWaitsUntilItIsClosed) {
  Fetch(0, 3, 6);
  SendAll();
  Answer(3, 0, Outcome::kAccepted, 4);
  EXPECT_THAT(SendAll(), ElementsAre("pull 3/0", "pull 4/0"));
  Merged(3, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down"));
  // Round 5 is unknown yet.
  EXPECT_THAT(SendAll(), IsEmpty());
  Merged(4, 0);
  EXPECT_THAT(SendAll(), ElementsAre("pull 5/0"));
  Merged(5, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("4/0 down", "5/0 down", "up to 6/0"));
  // The next one is for the push of that round.
  Merged(6, 0, "ahead");
  Post(6, 0);
  EXPECT_THAT(Settle(), ElementsAre("6/0 late ahead"));
}

// The update of the open round was lost when it closed.
TEST_F(FetchTest, UpToARoundAsksAgainForWhatWasLost) {
  Fetch(0, 3, 4);
  SendAll();
  Answer(3, 0, Outcome::kAccepted, 3);
  EXPECT_THAT(SendAll(), ElementsAre("pull 3/0"));
  EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty());
  LoseHere(0);
  EXPECT_THAT(PassHello(), ElementsAre("pull 3/0"));
  Merged(3, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down", "up to 4/0"));
}

TEST_F(FetchTest, UpToARoundThatIsThereAsksNobody) {
  Fetch(0, 6, 6);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 6/0"));
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(FetchTest, WhatComesAfterThePresentWasReachedIsKeptForTheRest) {
  Pull(3);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/0"));
  Merged(3, 0);
  Merged(4, 0);
  EXPECT_THAT(TakeFetched(), IsEmpty());
  Fetch(0, 3, 5);
  EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down", "4/0 down", "up to 5/0"));
  EXPECT_THAT(SendAll(), IsEmpty());
}

TEST_F(FetchTest, KeepsABoundedNumberOfUpdatesAhead) {
  Pull(3);
  TakeFetched();
  for (uint32_t round = 3; round < 100; ++round) Merged(round, 0);
  Fetch(0, 3, 100);
  EXPECT_EQ(TakeFetched().size(), SegmentLedger::kAheadMax);
  // The lowest were kept, which lead on from here.
  EXPECT_THAT(SendAll(), ElementsAre("fetch 19/0"));
}

TEST_F(FetchTest, AsksAgainForWhatIsMissing) {
  Pull(7);
  SendAll();
  Merged(4, 0);
  LoseThere(0);
  EXPECT_THAT(PassHello(), ElementsAre("pull 3/0", "pull 5/0", "pull 6/0"));
  EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty());
}

TEST_F(FetchTest, AFetchThatWasLostIsSentAgain) {
  Fetch(0, 3);
  SendAll();
  EXPECT_THAT(PassHello(), IsEmpty());
  LoseThere(0);
  EXPECT_THAT(PassHello(), ElementsAre("fetch 3/0"));
}

TEST_F(FetchTest, AnotherIncarnationIsAskedAtOnce) {
  Pull(5);
  Fetch(2, 0);
  SendAll();
  Pass(kHelloEvery);
  SendAll();
  AnswerHello(0, kIncarnation + 1);
  const std::vector<std::string> sent = SendAll();
  EXPECT_THAT(sent, ::testing::UnorderedElementsAre("pull 3/0", "pull 4/0", "fetch 0/2"));
}

TEST_F(FetchTest, ARefusalForNowIsTriedAgainAfterABackoff) {
  for (const Outcome outcome : {Outcome::kBusy, Outcome::kNotMember}) {
    Fetch(0, 3);
    EXPECT_THAT(SendAll(), ElementsAre("fetch 3/0"));
    for (int i = 0; i < 20; ++i) {
      Answer(3, 0, outcome);
      EXPECT_THAT(SendAll(), IsEmpty());
      EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("fetch 3/0"));
    }
    Answer(3, 0, Outcome::kAccepted, 5);
    EXPECT_THAT(SendAll(), ElementsAre("pull 3/0", "pull 4/0"));
    Answer(3, 0, outcome);
    Answer(4, 0, outcome);
    EXPECT_THAT(SendAll(), IsEmpty());
    EXPECT_THAT(PassAlive(kBusyBackoffMax), ElementsAre("pull 3/0", "pull 4/0"));
    Merged(3, 0);
    Merged(4, 0);
    EXPECT_THAT(TakeFetched(), ElementsAre("3/0 down", "4/0 down", "up to 5/0"));
  }
}

TEST_F(FetchTest, ARejectionEndsTheFetchOfItsSegmentWithTheShardsSentence) {
  Fetch(0, 3);
  Fetch(1, 3);
  SendAll();
  Answer(3, 0, Outcome::kRejected, 0, "nothing is kept before round 7");
  EXPECT_THAT(TakeFetched(), ElementsAre("refused 3/0: nothing is kept before round 7"));
  EXPECT_TRUE(ledger_.failure().ok());
  Answer(3, 1, Outcome::kAccepted, 3);
  EXPECT_THAT(TakeFetched(), ElementsAre("up to 3/1"));
  Fetch(0, 0);  // the caller may try another way
  EXPECT_THAT(SendAll(), ElementsAre("fetch 0/0"));
}

TEST_F(FetchTest, ASegmentIsNotFetchedWhileItContributes) {
  EXPECT_EQ(ledger_.Fetch(3, 3, kRoundNever, now_).code(), absl::StatusCode::kInvalidArgument);
  Post(0, 1);
  EXPECT_EQ(ledger_.Fetch(1, 0, kRoundNever, now_).code(), absl::StatusCode::kFailedPrecondition);
}

// Found by the simulator (seed 8930 with damage alone): a repair was due while updates of the
// segment were being fetched.
TEST_F(FetchTest, AFetchEndsTheOneBefore) {
  Fetch(0, 3);
  EXPECT_THAT(SendAll(), ElementsAre("fetch 3/0"));
  Answer(3, 0, Outcome::kAccepted, 5);
  EXPECT_THAT(SendAll(), ElementsAre("pull 3/0", "pull 4/0"));
  Merged(3, 0);
  Fetch(0, 1, 3);
  EXPECT_THAT(TakeFetched(), IsEmpty());  // the results of the earlier fetch
  EXPECT_THAT(SendAll(), ElementsAre("fetch 1/0"));
  Merged(4, 0);
  Answer(1, 0, Outcome::kAccepted, 5);
  EXPECT_THAT(SendAll(), ElementsAre("pull 1/0", "pull 2/0"));
  for (const uint32_t round : {1, 2}) Merged(round, 0);
  EXPECT_THAT(TakeFetched(), ElementsAre("1/0 down", "2/0 down", "up to 3/0"));
}

TEST_F(FetchTest, AContributionEndsTheFetch) {
  Pull(9);
  SendAll();
  Post(3, 0);
  EXPECT_THAT(SendAll(), ElementsAre("push 3/0"));
  Answer(3, 0, Outcome::kAccepted);
  Merged(3, 0);
  EXPECT_THAT(Settle(), ElementsAre("3/0 accepted down"));
  EXPECT_THAT(TakeFetched(), IsEmpty());
}

TEST_F(FetchTest, AsksForNothingMoreWhileWhatIsThereIsNotTaken) {
  Pull(1000);
  uint32_t delivered = 0;
  for (std::vector<std::string> sent = SendAll(); !sent.empty(); sent = SendAll()) {
    for (size_t i = 0; i < sent.size(); ++i) Merged(3 + delivered++, 0);
    ASSERT_LT(delivered, 1000u);
  }
  EXPECT_LE(delivered, SegmentLedger::kReadyMax + SegmentLedger::kWindow);
  // Time alone changes nothing.
  EXPECT_THAT(PassAlive(absl::Hours(1)), IsEmpty());
  EXPECT_EQ(TakeFetched().size(), delivered);
  EXPECT_THAT(SendAll(), Contains("pull " + std::to_string(3 + delivered) + "/0"));
}

// Many segments: some at a time, all in the end, in the order in which they were wanted.
TEST(FetchOfManySegments, FetchesSomeAtATime) {
  constexpr uint32_t kSegments = 30;
  const absl::Time now = absl::UnixEpoch();
  WorkerLedger ledger({.run = 1,
                       .connections = std::vector<uint32_t>(kSegments, 0),
                       .connection_count = 1,
                       .snapshot_bytes = {}});
  ledger.Sent(ledger.NextFrame(now).value(), now);
  ledger.OnFrame(0, WelcomeFrame{.run = 1, .incarnation = 1}, Buffer(), now);
  for (uint32_t s = 0; s < kSegments; ++s) {
    ASSERT_TRUE(ledger.Fetch(s, 0, kRoundNever, now).ok());
  }
  std::vector<uint32_t> ended;
  for (int turn = 0; turn < 100 && ended.size() < kSegments; ++turn) {
    std::vector<FetchFrame> sent;
    while (const auto frame = ledger.NextFrame(now)) {
      ledger.Sent(*frame, now);
      if (const auto* fetch = std::get_if<FetchFrame>(&frame->header)) sent.push_back(*fetch);
    }
    EXPECT_LE(sent.size(), SegmentLedger::kSegmentsAtOnce);
    for (const FetchFrame& fetch : sent) {
      const AnswerFrame answer{.outcome = Outcome::kAccepted,
                               .run = fetch.run,
                               .round = fetch.round,
                               .segment = fetch.segment,
                               .to = FrameKind::kFetch};
      ledger.OnFrame(0, answer, Buffer(), now);
    }
    while (const auto event = ledger.TakeFetched()) {
      ASSERT_EQ(event->kind, FetchEvent::Kind::kUpToDate);
      ended.push_back(event->segment);
    }
  }
  ASSERT_EQ(ended.size(), kSegments);
  EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
}

}  // namespace
}  // namespace longwave

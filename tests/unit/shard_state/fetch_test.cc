// How a member that is behind gets to the present, and where the snapshots for it come from.
#include "common/layout/segment_elements.h"
#include "gmock/gmock.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Fetch : public ::testing::Test {
 protected:
  void Start(uint32_t snapshot_rounds) {
    disk_.options.snapshot_rounds = snapshot_rounds;
    ASSERT_TRUE(disk_.Open().ok());
    disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  }
  std::vector<ShardEffect> Close(uint32_t round) { return disk_.PushAll({0, 1}, round); }

  ShardOnDisk disk_;
};

TEST_F(Fetch, TheSegmentsOfTheRunTakeTurnsThroughTheSnapshotRounds) {
  Start(8);
  std::vector<std::string> asked;
  for (uint32_t round = 0; round < 24; ++round) {
    const auto effects = Close(round);
    for (const auto& request : AllSent<RequestFrame>(effects)) {
      asked.push_back(std::to_string(request.header.segment) + " before " +
                      std::to_string(request.header.round) + " of " +
                      std::to_string(request.header.worker));
    }
    disk_.AnswerRequests(effects);
  }
  // Segments 2 and 3 of four, at 2/4 and 3/4 of eight rounds; of (segment + round / 8) mod 2.
  EXPECT_THAT(asked, ElementsAre("2 before 4 of 0", "3 before 6 of 1", "2 before 12 of 1",
                                 "3 before 14 of 0", "2 before 20 of 0", "3 before 22 of 1"));
}

TEST_F(Fetch, WhoeverIsGoneIsFollowedByTheNextMemberAtOnce) {
  Start(8);
  for (uint32_t round = 0; round < 3; ++round) Close(round);
  ASSERT_THAT(AllSent<RequestFrame>(Close(3)), SizeIs(1));  // of worker 0
  const auto requests = AllSent<RequestFrame>(disk_.Do({MembershipChanged{Members(2, {1, 2})}}));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].header.segment, 2u);
  EXPECT_NE(requests[0].header.worker, 0u);
}

// Each shard has one snapshot request at a worker, and pushes have half of the worker's link.
TEST(RequestPatience, IsWhatASnapshotTakesOnASlowLink) {
  DurableShardOptions options = TestOptions();
  options.aggregator.shard = 0;
  const auto patience = [&](uint32_t shards) {
    // A million parameters a segment: 4 MiB, 33.6 s at 1 Mbit/s.
    auto layout = Layout::Create({{{"w", {64, int64_t{64} * 256 * shards}}}},
                                 {.segment_tiles = 256, .shard_count = shards});
    EXPECT_TRUE(layout.ok()) << layout.status();
    const auto shard = DurableShard::Open(options, *std::move(layout), nullptr);
    EXPECT_TRUE(shard.ok()) << shard.status();
    return (*shard)->RequestPatience(0) - DurableShard::kRequestPatience;
  };
  EXPECT_EQ(patience(1), absl::Seconds(67));
  EXPECT_EQ(patience(3), absl::Seconds(201));
  options.model_arrays = 2;
  EXPECT_EQ(patience(1), absl::Seconds(134));
}

TEST_F(Fetch, ASnapshotIsAnsweredWhateverItIsGoodFor) {
  Start(8);
  Close(0);
  SnapshotArrived stranger = TestSnapshot(1, 1, 2);
  stranger.header.run = kRun + 1;
  // No snapshot request; another shard's segment; another run.
  const auto effects = disk_.Do({TestSnapshot(1, 1, 2), TestSnapshot(1, 1, 1), stranger});
  ASSERT_THAT(Outcomes(effects), ElementsAre(Outcome::kAccepted));
  const AnswerFrame answer = AllSent<AnswerFrame>(effects)[0].header;
  EXPECT_EQ(answer.to, FrameKind::kSnapshot);
  EXPECT_EQ(answer.worker, 1u);
  EXPECT_EQ(answer.segment, 2u);
  EXPECT_EQ(answer.round, 1u);
  EXPECT_EQ(disk_.shard().state().pushes_accepted, 4u) << "no push";
}

// No member has the round of the first request any more.
TEST_F(Fetch, WhoeverIsAskedLaterIsAskedForTheRoundThatIsOpenThen) {
  Start(4);
  for (uint32_t round = 0; round < 6; ++round) Close(round);
  disk_.now += disk_.shard().RequestPatience(2);
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].header.round, 6u);
}

// Rounds may be shorter than a request's way. Its frame says that a later round will do.
TEST_F(Fetch, OfWhoeverWasAskedTooLateItTakesALaterRound) {
  Start(4);
  Close(0);
  const auto requests = AllSent<RequestFrame>(Close(1));
  ASSERT_THAT(requests, SizeIs(1));
  const RequestFrame& request = requests[0].header;
  EXPECT_EQ(request.round, 2u);
  EXPECT_EQ(request.open_round, 2u);
  for (uint32_t round = 2; round < 4; ++round) Close(round);
  disk_.Do({TestSnapshot(requests[0].header.worker, 4, request.segment)});
  disk_.Do({HashChecksArrived{{{request.segment, 4, true}}}});
  disk_.Do({});
  const auto kept =
      disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, request.segment);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->key.round, 4u);
}

TEST_F(Fetch, AStartThatFindsNoRecentSnapshotAsksForOne) {
  Start(4);
  Close(0);
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({})), IsEmpty()) << "none was due yet";
  for (uint32_t round = 1; round < 5; ++round) Close(round);
  ASSERT_TRUE(disk_.Open().ok());  // before any member has answered
  const auto requests = disk_.Do({});
  ASSERT_THAT(AllSent<RequestFrame>(requests), SizeIs(2));
  EXPECT_EQ(AllSent<RequestFrame>(requests)[0].header.round, 5u);
  disk_.AnswerRequests(requests);
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({})), IsEmpty());
  Close(5);  // before round 6 segment 2 is due again, and segment 3 is not
  ASSERT_TRUE(disk_.Open().ok());
  const auto due = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(due, SizeIs(1));
  EXPECT_EQ(due[0].header.segment, 2u);
}

// The first request of a shard's new process was lost, since no member had said hello yet, and was
// not repeated for a minute.
TEST_F(Fetch, AStartRequestsASnapshotOnceAMemberHasSaidHello) {
  Start(2);
  Close(0);
  Close(1);
  disk_.members_say_hello = false;
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({})), IsEmpty()) << "no member would get it";
  disk_.shard().Greeted(1);
  EXPECT_LE(disk_.shard().NextDue(), disk_.now);
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(1)) << "a member sends one at a time";
  EXPECT_EQ(requests[0].header.worker, 1u);
}

TEST_F(Fetch, OfSnapshotsThatAreConfirmedTogetherEachTendWritesOne) {
  Start(2);
  Close(0);
  Close(1);
  disk_.Do({TestSnapshot(0, 2, 2), TestSnapshot(1, 2, 3)});
  const auto is_kept = [&](uint32_t segment) {
    return disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, segment).has_value();
  };
  disk_.Do({HashChecksArrived{{{2, 2, true}, {3, 2, true}}}});
  EXPECT_TRUE(is_kept(2));
  EXPECT_FALSE(is_kept(3));
  EXPECT_EQ(disk_.shard().NextDue(), absl::InfinitePast());
  disk_.Do({});
  EXPECT_TRUE(is_kept(3));
  EXPECT_GT(disk_.shard().NextDue(), disk_.now);
}

TEST_F(Fetch, ASnapshotCountsOnceItIsConfirmed) {
  Start(2);
  ASSERT_THAT(AllSent<RequestFrame>(Close(0)), SizeIs(2));
  Close(1);
  disk_.Do({TestSnapshot(0, 2, 2)});
  const Layout layout = FourSegments();
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(),
              ElementsAre(SnapshotHash{2, 2, SegmentHash(layout, 2, TestParameters(2, 2))}));
  EXPECT_FALSE(disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2).has_value());
  disk_.Do({HashChecksArrived{{{2, 1, true}}}});  // of another round: nothing
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), SizeIs(1));
  disk_.Do({HashChecksArrived{{{2, 2, true}}}});
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  const auto kept = disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->key.round, 2u);
}

TEST_F(Fetch, ASnapshotThatDiffersIsForgottenAndTheNextMemberAsked) {
  Start(8);
  for (uint32_t round = 0; round < 4; ++round) Close(round);
  disk_.Do({TestSnapshot(0, 4, 2)});
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({HashChecksArrived{{{2, 4, false}}}})), IsEmpty());
  const auto requests = AllSent<RequestFrame>(Close(4));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].header.worker, 1u);
  EXPECT_EQ(requests[0].header.round, 5u);
  EXPECT_FALSE(disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2).has_value());
}

TEST_F(Fetch, WithoutAVerdictASnapshotIsForgottenAfterAWhile) {
  Start(2);
  Close(0);
  Close(1);
  disk_.Do({TestSnapshot(0, 2, 2), TestSnapshot(1, 2, 3)});
  EXPECT_EQ(disk_.shard().NextDue(), disk_.now + DurableShard::kHashCheckPatience);
  disk_.now = disk_.shard().NextDue();
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({})), IsEmpty());
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  EXPECT_THAT(AllSent<RequestFrame>(Close(2)), SizeIs(2));
}

TEST_F(Fetch, SnapshotsThatAreOfNoUseAreRefused) {
  Start(4);
  Close(0);
  disk_.Do({TestSnapshot(0, 1, 2)});  // without a snapshot request
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  const uint32_t asked = AllSent<RequestFrame>(Close(1)).at(0).header.worker;
  disk_.Do({TestSnapshot(1 - asked, 2, 2)});  // by a member that was not asked
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  SnapshotArrived cut = TestSnapshot(asked, 2, 2);
  cut.payload =
      Buffer(std::vector<std::byte>(cut.payload.bytes().begin(), cut.payload.bytes().end() - 1));
  disk_.Do({TestSnapshot(asked, 3, 2)});  // of a round that is not open yet
  disk_.Do({TestSnapshot(7, 2, 2)});      // no member
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({cut})), IsEmpty());
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(), IsEmpty());
  EXPECT_THAT(disk_.shard().TakeNotices(),
              ::testing::Contains(HasSubstr("its round is 3, wanted 1 to 2")));
}

TEST_F(Fetch, OfTheTwoWaysTheCheaperIsTaken) {
  Start(10);
  for (uint32_t round = 0; round < 29; ++round) {
    const auto effects = Close(round);
    disk_.AnswerRequests(effects);
  }
  const auto kept = disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2);
  ASSERT_TRUE(kept.has_value());
  ASSERT_EQ(kept->key.round, 25u);
  const uint64_t update = disk_.shard().store()->log().MergedPayloadBytes(2, 28, 28).value();
  for (uint32_t from = 0; from <= 29; ++from) {
    const auto effects = disk_.Do({TestFetch(1, from, 2)});
    ASSERT_THAT(effects, SizeIs(1)) << from;
    const bool is_snapshot = !AllSent<SnapshotFrame>(effects).empty();
    EXPECT_EQ(is_snapshot, from < 25 && (29 - from) * update > kept->stored_bytes + 4 * update)
        << from;
    if (!is_snapshot) {
      EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kAccepted));
      EXPECT_EQ(AllSent<AnswerFrame>(effects)[0].header.open_round, 29u);
      EXPECT_EQ(AllSent<AnswerFrame>(effects)[0].header.round, from);
      continue;
    }
    const auto sent = AllSent<SnapshotFrame>(effects)[0];
    EXPECT_EQ(sent.header.worker, 1u);
    EXPECT_EQ(sent.header.round, 25u);
    const auto arrays = DecodeSnapshotPayload(sent.payload.bytes(), 1, kTileSize);
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    EXPECT_EQ(arrays->front(), TestParameters(2, 25));
  }
}

TEST_F(Fetch, WhatCannotBeReadForNowIsAskedForAgain) {
  Start(4);
  for (uint32_t round = 0; round < 40; ++round) disk_.AnswerRequests(Close(round));
  const std::vector<ShardEvent> events = {TestPush(1, 38, 2), TestPull(0, 38, 2),
                                          TestFetch(1, 0, 2)};
  disk_.files.faults.reads_fail = true;
  EXPECT_THAT(Outcomes(disk_.Do(events)),
              ElementsAre(Outcome::kBusy, Outcome::kBusy, Outcome::kBusy));
  disk_.files.faults.reads_fail = false;
  const auto effects = disk_.Do(events);
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kDuplicate));
  EXPECT_THAT(AllSent<MergedFrame>(effects), SizeIs(2));
  EXPECT_THAT(AllSent<SnapshotFrame>(effects), SizeIs(1));
}

TEST_F(Fetch, ACommitReadsALimitedNumberOfBytesForAnswers) {
  disk_.options.read_bytes_max = 1;  // the answer that exceeds it is the last
  Start(4);
  for (uint32_t round = 0; round < 40; ++round) disk_.AnswerRequests(Close(round));
  const std::vector<ShardEvent> fetches(20, TestFetch(1, 0, 2)), pulls(20, TestPull(0, 38, 2));
  for (int i = 0; i < 2; ++i) {  // each time
    const auto fetched = disk_.Do(fetches), pulled = disk_.Do(pulls);
    EXPECT_THAT(AllSent<SnapshotFrame>(fetched), SizeIs(1));
    EXPECT_EQ(Outcomes(fetched), std::vector<Outcome>(19, Outcome::kBusy));
    EXPECT_GE(AllSent<MergedFrame>(pulled).size(), 1u);
    EXPECT_LE(AllSent<MergedFrame>(pulled).size(), 10u);
  }
}

TEST_F(Fetch, ADamagedSnapshotGivesWayToTheOneBefore) {
  Start(4);
  for (uint32_t round = 0; round < 40; ++round) disk_.AnswerRequests(Close(round));
  const auto kept = disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2);
  ASSERT_EQ(kept->key.round, 38u);
  disk_.files.Corrupt("state/snap/" + SnapshotName(kept->key), 95, std::byte{4});
  const auto sent = AllSent<SnapshotFrame>(disk_.Do({TestFetch(1, 0, 2)}));
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].header.round, 34u);
  EXPECT_THAT(disk_.shard().TakeNotices(), ::testing::Contains(HasSubstr("hash")));
}

TEST_F(Fetch, WhatTheDiskCannotGiveIsLoggedAtDoublingNumbers) {
  Start(100);
  for (uint32_t round = 0; round < 3; ++round) Close(round);
  disk_.shard().TakeNotices();
  disk_.files.faults.reads_fail = true;
  for (int i = 0; i < 100; ++i)
    EXPECT_THAT(Outcomes(disk_.Do({TestPull(0, 0, 2)})), ElementsAre(Outcome::kBusy));
  const std::vector<std::string> notices = disk_.shard().TakeNotices();
  EXPECT_THAT(notices, SizeIs(7));
  EXPECT_THAT(notices.back(), HasSubstr("64 unreadable so far"));
}

// A worker that is behind does not end because of an old record that nobody can read any more.
TEST_F(Fetch, ADamagedUpdateGivesWayToASnapshot) {
  Start(4);
  for (uint32_t round = 0; round < 40; ++round) disk_.AnswerRequests(Close(round));
  ASSERT_EQ(disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2)->key.round, 38u);
  disk_.shard().TakeNotices();
  const std::vector<std::string> logs = disk_.files.List("state/log").value();
  for (const std::string& name : logs) {
    const size_t bytes = ReadWhole(disk_.files, "state/log/" + name, 1 << 20)->size();
    for (uint64_t at = 64; at < bytes; at += 16)
      disk_.files.Corrupt("state/log/" + name, at, std::byte{1});
  }
  const auto snapshots_of = [&](uint32_t from) {
    std::vector<uint32_t> rounds;
    for (const auto& sent : AllSent<SnapshotFrame>(disk_.Do({TestFetch(1, from, 2)})))
      rounds.push_back(sent.header.round);
    return rounds;
  };
  for (const uint32_t round : {37, 38})
    EXPECT_THAT(Outcomes(disk_.Do({TestPull(1, round, 2)})), ElementsAre(Outcome::kCompacted));
  EXPECT_THAT(disk_.shard().TakeNotices(), ::testing::Contains(HasSubstr("2 unreadable so far")));
  EXPECT_THAT(snapshots_of(37), ElementsAre()) << "round 38 would be missing after it";
  // The worker waits for a snapshot that the shard requests at once.
  auto effects = disk_.Do({TestFetch(1, 37, 2)});
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kBusy));
  disk_.now = std::max(disk_.now, disk_.shard().NextDue());
  auto requests = disk_.Do({});
  requests.insert(requests.end(), effects.begin(), effects.end());
  disk_.AnswerRequests(requests);
  EXPECT_THAT(snapshots_of(37), ElementsAre(40u));
  EXPECT_THAT(Outcomes(disk_.Do({TestFetch(1, 40, 2)})), ElementsAre(Outcome::kAccepted));
}

TEST_F(Fetch, SaysWhatIsWrongWithAFetch) {
  Start(100);
  Close(0);
  FetchArrived stranger = TestFetch(1, 0, 2);
  stranger.header.run = kRun + 1;
  const auto effects =
      disk_.Do({TestFetch(1, 2, 2), TestFetch(1, 0, 1), TestFetch(9, 0, 2), stranger});
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kRejected, Outcome::kRejected,
                                             Outcome::kNotMember, Outcome::kRejected));
  std::vector<std::string> reasons;
  for (const auto& answer : AllSent<AnswerFrame>(effects)) reasons.push_back(answer.reason());
  EXPECT_THAT(reasons, ::testing::Contains(HasSubstr("wanted round 1 or earlier")));
  EXPECT_THAT(reasons, ::testing::Contains(HasSubstr("segment 2 to 3")));
}

TEST_F(Fetch, SaysSoWhenNothingLeadsFromThere) {
  disk_.options.can_catch_up = false;  // no snapshots, and the log goes with the shard's own state
  Start(100);
  for (uint32_t round = 0; round < 30; ++round) Close(round);
  const auto effects = disk_.Do({TestFetch(1, 0, 2)});
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kRejected));
  EXPECT_THAT(AllSent<AnswerFrame>(effects)[0].reason(), HasSubstr("keeps neither"));
}

TEST_F(Fetch, ModelsWithTwoArraysKeepBoth) {
  disk_.options.model_arrays = 2;
  Start(1);
  const uint32_t asked = AllSent<RequestFrame>(Close(0)).at(0).header.worker;
  const std::vector<float> theta = TestParameters(2, 1);
  const std::vector<float> velocity = TestParameters(3, 9);
  const std::span<const float> arrays[] = {theta, velocity};
  disk_.Do(
      {SnapshotArrived{TestHeader<SnapshotFrame>(asked, 1, 2), EncodeSnapshotPayload(arrays)}});
  const std::vector<std::vector<float>> both = {theta, velocity};
  EXPECT_THAT(disk_.shard().UnconfirmedSnapshots(),
              ElementsAre(SnapshotHash{2, 1, SegmentStateHash(FourSegments(), 2, both)}));
  disk_.Do({HashChecksArrived{{{2, 1, true}}}});
  for (uint32_t round = 1; round < 30; ++round) Close(round);
  const auto sent = AllSent<SnapshotFrame>(disk_.Do({TestFetch(1, 0, 2)}));
  // A single update may be smaller than both arrays; the test then has nothing to check.
  ASSERT_TRUE(disk_.shard().store()->snapshots().Latest(SnapshotKind::kModel, 2).has_value());
  if (sent.empty()) return;
  const auto decoded = DecodeSnapshotPayload(sent[0].payload.bytes(), 2, kTileSize);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ((*decoded)[0], theta);
  EXPECT_EQ((*decoded)[1], velocity);
}

}  // namespace
}  // namespace longwave

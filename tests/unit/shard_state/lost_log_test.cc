// A disk that lies about syncs has lost the end of what a shard had confirmed, and nobody but the
// members knows.
#include "gmock/gmock.h"
#include "server/shard_state/replica_restore.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kLog[] = "state/log/00000001.lwlog";
constexpr uint32_t kRounds = 6;

class LostLog : public ::testing::Test {
 protected:
  // Two workers have been told of kRounds rounds, of which the log lacks the last `lost` ones.
  void Lose(uint32_t lost) {
    disk_.options.state_rounds = disk_.options.snapshot_rounds = 1000;
    ASSERT_TRUE(disk_.Open().ok());
    disk_.Do({MembershipChanged{Members(1, {0, 1})}});
    uint64_t kept = 0;
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (round == kRounds - lost) kept = *(*disk_.files.OpenToRead(kLog))->Size();
      disk_.PushAll({0, 1}, round);
    }
    disk_.Close();
    ASSERT_TRUE(CutFile(disk_.files, kLog, kept).ok());
    ASSERT_TRUE(disk_.Open().ok());
    disk_.Do({MembershipChanged{Members(2, {0, 1})}});
    EXPECT_EQ(disk_.shard().state().open_round, kRounds - lost);
  }
  // Both workers state that they wait for the round.
  std::vector<RequestFrame> Named(uint32_t round) {
    std::vector<RequestFrame> requests;
    for (const auto& sent :
         AllSent<RequestFrame>(disk_.Do({TestPull(0, round, 2), TestPull(1, round, 2),
                                         TestPull(0, round, 3), TestPull(1, round, 3)})))
      requests.push_back(sent.header);
    return requests;
  }
  void ExpectGoesOn(uint32_t round) {
    EXPECT_EQ(disk_.shard().restoring_count(), 0u);
    EXPECT_EQ(disk_.shard().state().open_round, round);
    EXPECT_THAT(Outcomes(disk_.PushAll({0, 1}, round)), Each(Outcome::kAccepted));
    EXPECT_EQ(disk_.shard().state().open_round, round + 1);
  }

  ShardOnDisk disk_ = ShardOnDisk(1, TestOptions(), 1 << 20);
};

// Pushes or pulls of worker 0 show that the log's end is lost.
class LostLogShownBy : public LostLog, public ::testing::WithParamInterface<FrameKind> {};

TEST_P(LostLogShownBy, AMemberThatIsAheadOfItTheStateComesBack) {
  Lose(1);
  std::vector<ShardEvent> events;
  for (uint32_t segment = 2; segment < 4; ++segment) {
    PullArrived pull = TestPull(0, kRounds, segment);
    pull.header.epoch = 1;  // of before this process
    events.push_back(pull);
    if (GetParam() == FrameKind::kPush) events.back() = TestPush(0, kRounds, segment);
  }
  EXPECT_THAT(Outcomes(disk_.Do(events)), ElementsAre(Outcome::kBusy, Outcome::kBusy));
  EXPECT_EQ(disk_.shard().restoring_count(), 2u);
  EXPECT_THAT(disk_.shard().TakeNotices(),
              Contains(HasSubstr("the end of the log is lost: segment 2 has the rounds before 5, "
                                 "and worker 0 all before 6")));
  const std::vector<RequestFrame> requests = Named(kRounds);
  ASSERT_THAT(requests, SizeIs(2));
  for (const RequestFrame& request : requests) {
    EXPECT_EQ(request.round, kRounds);
    disk_.Do({TestSnapshot(request.worker, kRounds, request.segment)});
  }
  ExpectGoesOn(kRounds);
  // The restore is durable, and the log's gap is known.
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.shard().state().open_round, kRounds + 1);
  disk_.Do({MembershipChanged{Members(3, {0, 1})}});
  EXPECT_THAT(Outcomes(disk_.Do({TestPull(0, kRounds - 1, 2)})), ElementsAre(Outcome::kCompacted));
  EXPECT_THAT(AllSent<SnapshotFrame>(disk_.Do({TestFetch(0, 2, 2)})), SizeIs(1));
  ExpectGoesOn(kRounds + 1);
}

INSTANTIATE_TEST_SUITE_P(Frames, LostLogShownBy,
                         ::testing::Values(FrameKind::kPush, FrameKind::kPull),
                         [](const auto& info) { return std::string(Name(info.param)); });

// The disk is full when the restored state is written: the log is as short as before.
TEST_F(LostLog, ARestoreThatCannotBeWrittenIsDoneAgain) {
  Lose(1);
  disk_.Do({TestPush(0, kRounds, 2)});
  disk_.files.faults.capacity_bytes = 1;
  for (const RequestFrame& request : Named(kRounds))
    disk_.Do({TestSnapshot(request.worker, kRounds, request.segment)});
  EXPECT_THAT(disk_.shard().trouble(), Not(IsEmpty()));
  disk_.files.faults.capacity_bytes.reset();
  disk_.AfterReopening();
  EXPECT_THAT(disk_.shard().trouble(), IsEmpty());
  EXPECT_EQ(disk_.shard().state().open_round, kRounds - 1);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds, 2)})), ElementsAre(Outcome::kBusy));
  for (const RequestFrame& request : Named(kRounds))
    disk_.Do({TestSnapshot(request.worker, kRounds, request.segment)});
  ExpectGoesOn(kRounds);
}

TEST_F(LostLog, AFetchShowsItToo) {
  Lose(1);
  EXPECT_THAT(Outcomes(disk_.Do({TestFetch(1, kRounds, 3)})), ElementsAre(Outcome::kBusy));
  EXPECT_EQ(disk_.shard().restoring_count(), 1u);
}

// The member that was ahead is lost, with its replica.
TEST_F(LostLog, WhatNobodyHasIsMadeAgain) {
  Lose(1);
  disk_.Do({TestPush(0, kRounds, 2)});
  EXPECT_EQ(disk_.shard().restoring_count(), 1u);
  disk_.Do({MembershipChanged{Members(3, {1})}});
  disk_.Do({TestPull(1, kRounds - 1, 2)});
  EXPECT_EQ(disk_.shard().restoring_count(), 0u);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(1, kRounds - 1, 2)})), ElementsAre(Outcome::kAccepted));
}

TEST_F(LostLog, MoreThanAHeartbeatLosesIsAnOlderFolder) {
  Lose(3);
  const std::string why =
      "the folder is from an older time: segment 2 has the rounds before 3, and worker 0 all "
      "before 6. Put the newest folder back;";
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(1, 3, 2), TestPush(0, kRounds, 2), TestPush(1, 3, 3)})),
              ElementsAre(Outcome::kBusy, Outcome::kBusy, Outcome::kBusy));
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr(why));
  // The trouble stays, however often the folder is opened.
  disk_.AfterReopening();
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr("segment 2 has the rounds before 3, wanted all "
                                                 "before 4"));
  EXPECT_THAT(Outcomes(disk_.PushAll({0, 1}, 3)), Each(Outcome::kBusy));
}

// A member's own mistake, long after the start, is its own.
TEST_F(LostLog, ARoundThatClosesProvesTheLogWhole) {
  Lose(1);
  ExpectGoesOn(kRounds - 1);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds + 1, 2)})), ElementsAre(Outcome::kRejected));
}

class LostLogOfAQuorum : public LostLog {
 protected:
  LostLogOfAQuorum() {
    disk_.options.aggregator.quorum = 0.5;
    disk_.options.aggregator.grace_min = disk_.options.aggregator.grace_max = absl::Seconds(5);
    disk_.options.join_patience = absl::Seconds(30);
  }
};

// A quorum without the member that is ahead would make another update of the round.
TEST_F(LostLogOfAQuorum, NoRoundClosesBeforeAllAreHeard) {
  Lose(1);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds - 1, 2)})), ElementsAre(Outcome::kBusy));
  disk_.now += ReplicaRestore::kHearEvery;
  const auto questions = AllSent<RequestFrame>(disk_.Do({}));
  EXPECT_THAT(questions, SizeIs(4));
  for (const auto& question : questions) EXPECT_EQ(question.header.round, 0u);
  EXPECT_EQ(disk_.shard().restoring_count(), 0u);
  EXPECT_THAT(
      AllSent<RequestFrame>(disk_.Do({TestPull(0, kRounds - 1, 2), TestPull(1, kRounds, 2)})),
      SizeIs(1));
  EXPECT_EQ(disk_.shard().restoring_count(), 1u);
}

TEST_F(LostLogOfAQuorum, WhereNobodyIsAheadItGoesOn) {
  Lose(1);
  EXPECT_THAT(Named(kRounds - 1), IsEmpty());
  ExpectGoesOn(kRounds - 1);
}

TEST_F(LostLogOfAQuorum, WhoIsNotHeardIsNotWaitedForForEver) {
  Lose(1);
  disk_.Do({TestPull(0, kRounds - 1, 2), TestPull(0, kRounds - 1, 3)});
  disk_.now += absl::Seconds(59);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds - 1, 2)})), ElementsAre(Outcome::kBusy));
  disk_.now += absl::Seconds(1);
  disk_.Do({});
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds - 1, 2)})), ElementsAre(Outcome::kAccepted));
}

// Everybody was restarted, and a worker without a folder is the first one back.
TEST_F(LostLog, WhoTookPartByTheLogIsWaitedFor) {
  disk_.options.join_patience = absl::Seconds(30);
  Lose(1);
  ASSERT_TRUE(disk_.Open().ok());
  disk_.Do({MembershipChanged{Members(3, {5})}});
  EXPECT_THAT(Outcomes(disk_.Do({TestPull(5, kRounds - 1, 2), TestPush(5, kRounds - 1, 2)})),
              ElementsAre(Outcome::kBusy, Outcome::kBusy));
  disk_.Do({MembershipChanged{Members(4, {0, 1, 5})}});
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(5, kRounds - 1, 2)})), ElementsAre(Outcome::kBusy));
  disk_.Do({TestPull(0, kRounds - 1, 2), TestPull(1, kRounds - 1, 2)});
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(5, kRounds - 1, 2)})), ElementsAre(Outcome::kAccepted));
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, kRounds, 2)})), ElementsAre(Outcome::kBusy));
}

}  // namespace
}  // namespace longwave

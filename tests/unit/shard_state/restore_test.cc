// A shard that has lost its folder takes its state from the members' replicas.
#include "gmock/gmock.h"
#include "server/shard_state/replica_restore.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

// All members were lost, for example with the coordinator's link, and a new one comes first. The
// others have the finished rounds, so the shard must not begin anew without them.
TEST(ReplicaRestore, WaitsForSomebodyWhoHasWhatTheRunHasFinished) {
  ReplicaRestore restore(/*turn=*/0, /*at_least=*/8);
  restore.Heard(0, 0);
  restore.Heard(1, 7);
  EXPECT_FALSE(restore.TakeDue({0, 1}, kNow).has_value());
  EXPECT_EQ(restore.NextDue(), absl::InfiniteFuture());
  restore.Heard(2, 8);
  EXPECT_EQ(restore.TakeDue({0, 1, 2}, kNow)->worker, 2u);
}

TEST(ReplicaRestore, AsksWhoSaysNothingAgainAndAgainWhereTheyStand) {
  ReplicaRestore restore;
  const std::vector<uint32_t> live = {0, 1, 2};
  restore.Heard(0, 7);
  EXPECT_THAT(restore.Silent(live, kNow), IsEmpty()) << "they may come by themselves";
  EXPECT_EQ(restore.NextDue(), kNow + ReplicaRestore::kHearEvery);
  EXPECT_THAT(restore.Silent(live, restore.NextDue()), ElementsAre(1u, 2u));
  EXPECT_THAT(restore.Silent(live, kNow + ReplicaRestore::kHearEvery), IsEmpty()) << "asked once";
  restore.Heard(1, 6);
  EXPECT_THAT(restore.Silent(live, restore.NextDue()), ElementsAre(2u));
  restore.Heard(2, 7);
  EXPECT_THAT(restore.Silent(live, restore.NextDue()), IsEmpty());
  EXPECT_EQ(restore.NextDue(), absl::InfiniteFuture());
}

TEST(ReplicaRestore, GoesOnWithoutWhoIsNoMemberAnyMore) {
  ReplicaRestore restore;
  restore.Heard(0, 7);
  EXPECT_FALSE(restore.TakeDue({0, 1}, kNow).has_value());
  EXPECT_EQ(restore.TakeDue({0}, kNow)->round, 7u);
  // A member that has left since it was heard gets no request.
  restore.Heard(1, 8);
  EXPECT_EQ(restore.TakeDue({0, 1}, kNow)->worker, 1u);
  restore.KeepOnly({0});
  const auto choice = restore.TakeDue({0}, kNow);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->round, 7u);
  EXPECT_EQ(choice->worker, 0u);
}

TEST(ReplicaRestore, ANewcomerAloneDecidesNothing) {
  ReplicaRestore restore;
  restore.Heard(5, 0);  // joins, and begins at round 0
  EXPECT_FALSE(restore.TakeDue({0, 1}, kNow + absl::Hours(1)).has_value());
  restore.Heard(0, 7);
  restore.Heard(1, 7);
  ASSERT_TRUE(restore.TakeDue({0, 1}, kNow).has_value());
  EXPECT_EQ(restore.choice()->round, 7u);
}

TEST(ReplicaRestore, AsksAnotherOfTheRoundWhenOneDoesNotAnswerOrWrongly) {
  ReplicaRestore restore;
  for (const uint32_t worker : {0u, 1u, 2u}) restore.Heard(worker, worker == 1 ? 6 : 7);
  EXPECT_EQ(restore.TakeDue({0, 1, 2}, kNow)->worker, 0u);
  EXPECT_FALSE(restore.Expects(2, 7)) << "nobody confirms what it would send unasked";
  EXPECT_EQ(restore.TakeDue({0, 1, 2}, restore.NextDue())->worker, 2u);
  EXPECT_TRUE(restore.Expects(2, 7));
  EXPECT_TRUE(restore.Expects(0, 7)) << "may still answer";
  EXPECT_FALSE(restore.Expects(0, 6));
  restore.Refuse();
  EXPECT_EQ(restore.TakeDue({0, 1, 2}, kNow)->worker, 0u);
}

TEST(ReplicaRestore, ALaterRoundPutsTheChoiceAside) {
  ReplicaRestore restore;
  restore.Heard(0, 7);
  restore.Heard(1, 7);
  EXPECT_EQ(restore.TakeDue({0, 1}, kNow)->round, 7u);
  restore.Heard(1, 8);
  EXPECT_EQ(restore.TakeDue({0, 1}, kNow)->round, 8u);
}

DurableShardOptions RestoringOptions() {
  DurableShardOptions options = TestOptions();
  options.restore = true;
  return options;
}

class DurableShardRestore : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.Open().ok()); }

  ShardOnDisk disk_ = ShardOnDisk(1, RestoringOptions());
};
// While nobody takes part, half a minute passes before those who came decide.
class PatientRestore : public DurableShardRestore {
 protected:
  PatientRestore() { disk_.options.join_patience = absl::Seconds(30); }
};

// Checks for `count` answers `busy`, and no other effects.
void ExpectBusy(const std::vector<ShardEffect>& effects, size_t count) {
  EXPECT_THAT(effects, SizeIs(count));
  EXPECT_EQ(Outcomes(effects), std::vector(count, Outcome::kBusy));
}

// Both segments, from workers that wait for rounds 20 and 21.
void Restore(ShardOnDisk& disk) {
  disk.Do({MembershipChanged{Members(4, {0, 1})}});
  ExpectBusy(disk.Do({TestPull(0, 20, 2), TestPull(0, 20, 3)}), 2);
  const auto requests = AllSent<RequestFrame>(disk.Do({TestPull(1, 21, 2), TestPull(1, 21, 3)}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].header.worker, 1u);
  EXPECT_EQ(requests[0].header.round, 21u);
  disk.Do({TestSnapshot(1, 21, 2), TestSnapshot(1, 21, 3)});
  EXPECT_EQ(disk.shard().restoring_count(), 0u);
}

TEST_F(DurableShardRestore, OpensTheRoundThatTheMembersWaitFor) {
  EXPECT_GT(disk_.shard().restoring_count(), 0u);
  Restore(disk_);
  EXPECT_THAT(disk_.shard().TakeNotices(),
              ::testing::Contains(HasSubstr("segment 2 is restored: round 21 is open")));
  EXPECT_EQ(disk_.shard().state().open_round, 21u);
  // A worker that is behind gets the snapshot.
  const auto fetched = disk_.Do({TestPull(0, 20, 2), TestFetch(0, 20, 2)});
  EXPECT_THAT(Outcomes(fetched), ElementsAre(Outcome::kCompacted));
  const auto sent = AllSent<SnapshotFrame>(fetched);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].header.round, 21u);
  EXPECT_THAT(
      Outcomes(disk_.PushAll({0, 1}, 21)),
      ElementsAre(Outcome::kAccepted, Outcome::kAccepted, Outcome::kAccepted, Outcome::kAccepted));
  EXPECT_EQ(disk_.shard().state().open_round, 22u);
}

TEST_F(DurableShardRestore, WhatIsRestoredIsDurable) {
  Restore(disk_);
  disk_.PushAll({0, 1}, 21);
  disk_.options.restore = false;  // the folder holds the run now
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.shard().restoring_count(), 0u);
  EXPECT_EQ(disk_.shard().state().open_round, 22u);
  EXPECT_THAT(AllSent<MergedFrame>(disk_.Do({TestPull(0, 21, 2)})), SizeIs(1));
}

TEST(RestoreOfAShard, GoesOnWhereItWasInterrupted) {
  // Stopped at every operation from the first on, and then with a coordinator that says nothing
  // more of restoring, since the folder may hold the run by then.
  uint64_t operations = 0;
  for (uint64_t crash_at = 0; crash_at == 0 || crash_at < operations; ++crash_at) {
    SCOPED_TRACE(crash_at);
    ShardOnDisk disk(1 + crash_at % 7, RestoringOptions());
    if (crash_at > 0) disk.files.faults.crash_at = crash_at;
    for (int starts = 0; starts < 3; ++starts) {
      if (disk.Open().ok()) {
        disk.Do({MembershipChanged{Members(4, {0, 1})}});
        for (int wakes = 0; wakes < 4 && !disk.files.crashed(); ++wakes) {
          std::vector<ShardEvent> events;
          for (uint32_t segment = 2; segment < 4; ++segment) {
            for (const uint32_t worker : {0u, 1u}) {
              events.push_back(TestPull(worker, 21, segment));
              events.push_back(TestPush(worker, 21, segment));
            }
          }
          const auto effects = disk.Do(events);
          events.clear();
          for (const auto& request : AllSent<RequestFrame>(effects)) {
            events.push_back(
                TestSnapshot(request.header.worker, request.header.round, request.header.segment));
          }
          disk.Do(events);
        }
      }
      if (crash_at == 0) operations = disk.files.operations();
      if (!disk.files.crashed()) break;
      disk.Close();
      disk.files.Restart(SimFileSystem::Stop::kPower);
      const auto owner = OwnerOfFolder(disk.files, "state");
      ASSERT_TRUE(owner.ok()) << owner.status();
      disk.options.restore = owner->run == 0;  // as the coordinator decides
    }
    ASSERT_TRUE(disk.is_open());
    ASSERT_EQ(disk.shard().restoring_count(), 0u);
    ASSERT_EQ(disk.shard().state().open_round, 22u);
    for (uint32_t segment = 2; segment < 4; ++segment) {
      ASSERT_TRUE(disk.shard().store()->snapshots().Latest(SnapshotKind::kModel, segment))
          << "nobody behind could catch up";
    }
    if (HasFailure()) return;
  }
}

// After a cut all members have been lost and join again. They fetch, and push nothing. They state
// their rounds when the shard requests them.
TEST_F(DurableShardRestore, MembersThatAllJoinAgainAreAskedWhereTheyStand) {
  disk_.Do({MembershipChanged{Members(4, {0, 1}, kRoundNever)}});
  ExpectBusy(disk_.Do({TestFetch(0, 6, 2), TestFetch(1, 0, 2)}), 2);
  disk_.now = disk_.shard().NextDue();
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({})), SizeIs(4)) << "two members, two segments";
  ExpectBusy(disk_.Do({TestPull(0, 6, 2)}), 1);
  const auto requests = AllSent<RequestFrame>(disk_.Do({TestPull(1, 0, 2)}));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].header.worker, 0u);
  EXPECT_EQ(requests[0].header.round, 6u);
  disk_.Do({TestSnapshot(0, 6, 2)});
  EXPECT_THAT(AllSent<SnapshotFrame>(disk_.Do({TestFetch(1, 0, 2)})), SizeIs(1));
}

// A coordinator that was cut off from all of them, and knows of no finished round, hears a new
// worker first: those who went on without it come within the time after which they are lost.
TEST_F(PatientRestore, JoinersAloneBeginNothingAnewBeforeTheOthersCanBeHeard) {
  disk_.Do({MembershipChanged{Members(4, {5}, kRoundNever)}});
  const absl::Time decides_at = disk_.now + absl::Seconds(30);
  disk_.Do({TestPull(5, 0, 2), TestPull(5, 0, 3)});
  EXPECT_GT(disk_.shard().restoring_count(), 0u);
  EXPECT_EQ(disk_.shard().NextDue(), decides_at);
  disk_.Do(
      {MembershipChanged{Members(5, {0, 5}, kRoundNever)}, TestPull(0, 6, 2), TestPull(5, 0, 2)});
  disk_.now = decides_at;
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_FALSE(requests.empty());
  EXPECT_EQ(requests[0].header.worker, 0u);
  EXPECT_EQ(requests[0].header.round, 6u);
  EXPECT_GT(disk_.shard().NextDue(), disk_.now);
  // Only joining members have come for segment 3, so they begin it anew.
  disk_.Do({TestPull(0, 0, 3), TestPull(5, 0, 3)});
  EXPECT_EQ(disk_.shard().restoring_count(), 1u);
}

// If no member has begun, a returning one is soon ready, however far behind it is.
TEST_F(PatientRestore, TheFirstToTakePartAgainDoesNotDecideWithoutTheOthers) {
  disk_.Do({MembershipChanged{Members(4, {0, 1}, kRoundNever)}});
  const absl::Time decides_at = disk_.now + absl::Seconds(30);
  Membership one_is_ready = Members(5, {0, 1});
  one_is_ready.members[0].first_round = kRoundNever;
  disk_.Do({MembershipChanged{one_is_ready}, TestPull(1, 0, 2), TestPull(1, 0, 3)});
  EXPECT_EQ(disk_.shard().restoring_count(), 2u);
  disk_.Do({MembershipChanged{Members(6, {0, 1})}, TestPull(0, 1, 2), TestPull(0, 1, 3)});
  disk_.now = decides_at;
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].header.worker, 0u);
  EXPECT_EQ(requests[0].header.round, 1u);
}

// The one that is ahead is lost, and comes again a second later.
TEST_F(PatientRestore, WhoWasLostAMomentAgoIsWaitedFor) {
  disk_.Do({MembershipChanged{Members(4, {0, 1})}, TestPull(1, 21, 2)});
  disk_.Do({MembershipChanged{Members(5, {0})}, TestPull(0, 20, 2), TestPull(0, 20, 3)});
  EXPECT_TRUE(AllSent<RequestFrame>(disk_.Do({})).empty());
  const absl::Time decides_at = disk_.now + absl::Seconds(30);
  EXPECT_LE(disk_.shard().NextDue(), decides_at);
  disk_.Do({MembershipChanged{Members(6, {0, 1})}, TestPull(1, 21, 2), TestPull(1, 20, 3)});
  disk_.now = decides_at;
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].header.worker, 1u);
  EXPECT_EQ(requests[0].header.round, 21u);
}

TEST_F(PatientRestore, WhoTakesPartDecidesAtOnce) { Restore(disk_); }

TEST_F(DurableShardRestore, ARunThatNeverClosedARoundBeginsAgain) {
  disk_.Do({MembershipChanged{Members(1, {0, 1})}});
  for (const uint32_t worker : {0u, 1u}) {
    for (uint32_t segment = 2; segment < 4; ++segment) disk_.Do({TestPull(worker, 0, segment)});
  }
  EXPECT_EQ(disk_.shard().restoring_count(), 0u);
  EXPECT_EQ(AllSent<MergedFrame>(disk_.PushAll({0, 1}, 0)).size(), 2u);
}

TEST(RestoreOfAShard, WithoutAFolderItGoesTheSameWay) {
  auto opened = DurableShard::Open(RestoringOptions(), FourSegments(), nullptr);
  ASSERT_TRUE(opened.ok()) << opened.status();
  DurableShard& shard = **opened;
  shard.Step(MembershipChanged{Members(4, {0, 1})}, kNow);
  for (uint32_t segment = 2; segment < 4; ++segment) {
    shard.Step(TestPull(0, 20, segment), kNow);
    shard.Step(TestPull(1, 21, segment), kNow);
  }
  EXPECT_THAT(AllSent<RequestFrame>(shard.Commit(kNow)), SizeIs(2));
  shard.Step(TestSnapshot(1, 21, 2), kNow);
  shard.Step(TestSnapshot(1, 21, 3), kNow);
  shard.Step(TestFetch(0, 20, 2), kNow);
  EXPECT_THAT(AllSent<SnapshotFrame>(shard.Commit(kNow)), SizeIs(1));
  // A round later the snapshot and the last update suffice; two rounds later nothing does.
  for (uint32_t round = 21; round < 23; ++round) {
    shard.Step(TestPush(0, round, 2), kNow);
    shard.Step(TestPush(1, round, 2), kNow);
    shard.Step(TestFetch(0, 20, 2), kNow);
    const auto effects = shard.Commit(kNow);
    EXPECT_THAT(AllSent<SnapshotFrame>(effects), SizeIs(round == 21 ? 1 : 0)) << round;
  }
}

TEST_F(DurableShardRestore, ASnapshotOfNoUseLetsItAskTheNext) {
  disk_.Do({MembershipChanged{Members(4, {0, 1})}});
  const auto requests = AllSent<RequestFrame>(disk_.Do({TestPull(0, 21, 2), TestPull(1, 21, 2)}));
  ASSERT_THAT(requests, SizeIs(1));
  SnapshotArrived bad = TestSnapshot(requests[0].header.worker, 21, 2);
  bad.payload = Buffer(std::vector<std::byte>(30));
  const auto again = AllSent<RequestFrame>(disk_.Do({bad}));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_NE(again[0].header.worker, requests[0].header.worker);
  disk_.Do(
      {TestSnapshot(requests[0].header.worker, 20, 2)});  // of another round than the request's
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 21, 2)})), ElementsAre(Outcome::kBusy));
  // A snapshot of the round counts from any member: the first one's comes late.
  disk_.Do({TestSnapshot(requests[0].header.worker, 21, 2)});
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 21, 2)})), ElementsAre(Outcome::kAccepted));
}

TEST_F(DurableShardRestore, OneThatIsAheadIsWaitedForAndNotRejected) {
  disk_.Do({MembershipChanged{Members(4, {0, 1})}, TestPull(0, 20, 2)});
  disk_.now += absl::Hours(1);
  for (const auto& request : AllSent<RequestFrame>(disk_.Do({TestPull(0, 20, 2)}))) {
    EXPECT_EQ(request.header.round, 0u) << "asked for its state";
  }
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(1, 21, 2)})), ElementsAre(Outcome::kBusy));
  const auto effects = disk_.Do({TestPull(1, 21, 2)});
  ASSERT_THAT(AllSent<RequestFrame>(effects), SizeIs(1));
  EXPECT_EQ(AllSent<RequestFrame>(effects)[0].header.round, 21u);
}

// Each waits for a segment that waits for the other one, and neither says anything of its own.
TEST_F(DurableShardRestore, AsksWhereTheyStandWhoSayNothingOfASegment) {
  disk_.Do({MembershipChanged{Members(4, {0, 1})}, TestPull(0, 20, 2), TestPull(1, 20, 3)});
  EXPECT_EQ(disk_.shard().NextDue(), disk_.now + ReplicaRestore::kHearEvery);
  disk_.now = disk_.shard().NextDue();
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].header.worker, 1u);
  EXPECT_EQ(requests[0].header.segment, 2u);
  EXPECT_EQ(requests[0].header.round, 0u);
  EXPECT_EQ(requests[1].header.worker, 0u);
  EXPECT_EQ(requests[1].header.segment, 3u);
  const auto states = AllSent<RequestFrame>(disk_.Do({TestPull(1, 21, 2), TestPull(0, 21, 3)}));
  ASSERT_THAT(states, SizeIs(2));
  EXPECT_EQ(states[0].header.worker, 1u);
  EXPECT_EQ(states[0].header.round, 21u);
  disk_.Do({TestSnapshot(1, 21, 2), TestSnapshot(0, 21, 3)});
  EXPECT_EQ(disk_.shard().restoring_count(), 0u);
}

// A copy of a push can have waited in queues since before its worker was told that round's update:
// it would make a shard open a round again that the worker has (found by the simulator).
TEST_F(DurableShardRestore, APushSaysNothingOfWhereItsSenderStands) {
  disk_.Do({MembershipChanged{Members(4, {0})}});
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kBusy));
  EXPECT_GT(disk_.shard().restoring_count(), 0u);
  const auto requests = AllSent<RequestFrame>(disk_.Do({TestPull(0, 1, 2)}));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].header.round, 1u);
}

// A copy of a pull or fetch can do so as well. Answers to a request of this process are of an epoch
// that began with it (found by the simulator).
TEST_F(DurableShardRestore, AQuestionFromBeforeItsTimeSaysNothingEither) {
  PullArrived old_pull = TestPull(0, 0, 2);
  FetchArrived old_fetch = TestFetch(0, 0, 2);
  old_pull.header.epoch = 3;
  ExpectBusy(disk_.Do({MembershipChanged{Members(4, {0})}, old_pull, old_fetch}), 2);
  EXPECT_EQ(disk_.shard().restoring_count(), 2u);
  disk_.now += ReplicaRestore::kHearEvery;
  const auto requests = AllSent<RequestFrame>(disk_.Do({}));
  ASSERT_THAT(requests, SizeIs(2)) << "it was not heard of either segment";
  EXPECT_EQ(requests[0].header.round, 0u);
  EXPECT_EQ(requests[0].header.epoch, 4u);
  PullArrived position = TestPull(0, 1, 2);
  position.header.epoch = requests[0].header.epoch;
  const auto states = AllSent<RequestFrame>(disk_.Do({position}));
  ASSERT_THAT(states, SizeIs(1));
  EXPECT_EQ(states[0].header.round, 1u);
}

TEST_F(DurableShardRestore, WhoIsLostMeanwhileIsWaitedForNoMore) {
  disk_.Do({MembershipChanged{Members(4, {0, 1})}, TestPull(0, 20, 2)});
  EXPECT_THAT(AllSent<RequestFrame>(disk_.Do({MembershipChanged{Members(5, {0})}})), SizeIs(1));
}

TEST(RestoreOfAShard, WhereNobodyCanCatchUpTheRoundAloneIsTaken) {
  DurableShardOptions options = RestoringOptions();
  options.can_catch_up = false;
  ShardOnDisk disk(1, options);
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(4, {0, 1})}});
  std::vector<ShardEvent> events;
  for (uint32_t segment = 2; segment < 4; ++segment) {
    for (const uint32_t worker : {0u, 1u}) events.push_back(TestPull(worker, 21, segment));
  }
  EXPECT_THAT(AllSent<RequestFrame>(disk.Do(events)), IsEmpty());
  EXPECT_EQ(disk.shard().restoring_count(), 0u);
  EXPECT_EQ(disk.shard().state().open_round, 21u);
}

TEST(RestoreOfAShard, AFolderWithALogIsNotRestored) {
  ShardOnDisk disk;
  ASSERT_TRUE(disk.Open().ok());
  disk.Do({MembershipChanged{Members(1, {0, 1})}, TestPush(0, 0, 2)});
  disk.options.restore = true;
  ASSERT_TRUE(disk.Open().ok());
  EXPECT_EQ(disk.shard().restoring_count(), 0u);
  EXPECT_THAT(Outcomes(disk.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kDuplicate));
}

}  // namespace
}  // namespace longwave

// Differing replicas: repairs, their duration, and their effect on the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;

class CoordinatorRepairTest : public CoordinatorTest {
 protected:
  std::optional<Repair> RepairOf(uint32_t worker) {
    return Only<WorkerHeartbeatReply>(Step(Beat(worker))).repair;
  }
  // All workers report the round; worker i with hashes[i].
  std::vector<CoordinatorEffect> Round(uint32_t round,
                                       const std::vector<std::vector<uint64_t>>& hashes) {
    std::vector<CoordinatorEffect> effects;
    for (uint32_t i = 0; i < hashes.size(); ++i)
      effects = Step(Beat(i, {Report(round, hashes[i])}));
    return effects;
  }
};

TEST_F(CoordinatorRepairTest, TheMinorityIsToldWhichSegmentsToFetch) {
  Begin(Options(3, 1));
  const auto effects = Round(0, {{1, 2}, {1, 3}, {1, 2}});
  const std::string sentence =
      "round 0: worker 1 (worker-1) has hash 0000000000000003 in segment 1, wanted "
      "0000000000000002 as 2 of 3 members have";
  EXPECT_EQ(Notices(effects),
            "worker 1 (worker-1) is to fetch 1 segment anew, which differed after round 0\n"
            "replicas differ: " +
                sentence + "\n");
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));
  EXPECT_EQ(RepairOf(0), std::nullopt);
  EXPECT_EQ(RepairOf(2), std::nullopt);
  EXPECT_FALSE(Status().replicas_equal);
  EXPECT_EQ(Status().inequality, sentence);
  EXPECT_EQ(Status().repairs, 1u);
}

TEST_F(CoordinatorRepairTest, ARepairStandsUntilALaterRoundsHashesAgree) {
  Begin(Options(3, 1));
  Round(0, {{1, 2}, {1, 3}, {1, 2}});
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));  // the answer may have been lost
  Round(1, {{1, 2}, {9, 3}, {1, 2}});
  EXPECT_EQ(RepairOf(1), (Repair{1, {0, 1}}));              // from the latest round
  EXPECT_EQ(Status().repairs, 1u);                          // one repair, not two
  EXPECT_EQ(Status().inequality.substr(0, 8), "round 0:");  // the first
  const auto effects = Round(2, {{4, 5}, {4, 5}, {4, 5}});
  EXPECT_EQ(RepairOf(1), std::nullopt);
  EXPECT_THAT(Notices(effects), HasSubstr("has the others' state again, after round 2"));
  EXPECT_TRUE(Status().replicas_equal);
  EXPECT_EQ(Status().inequality, "");
  EXPECT_FALSE(Status().records[1].replicas_equal);  // history is unchanged
  Round(3, {{4, 5}, {4, 6}, {4, 5}});
  EXPECT_EQ(Status().repairs, 2u);
}

TEST_F(CoordinatorRepairTest, WithoutAMajorityEverybodyFetches) {
  Begin(Options(2, 1));
  Round(0, {{1, 2}, {1, 3}});
  EXPECT_EQ(RepairOf(0), (Repair{0, {1}}));
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));
  // The record has the lower index's.
  EXPECT_EQ(Status().state_hash, CombineHashes({1, 2}));
}

TEST_F(CoordinatorRepairTest, ItsOwnWordAloneEndsNoRepair) {
  Begin(Options(2, 1));
  Round(0, {{1, 2}, {1, 3}});
  Step(Beat(1, {Report(1, {4, 6})}));
  const auto effects = Step(Beat(0, {Report(2, {7, 8})}));  // skips round 1
  EXPECT_EQ(Only<RoundFinished>(effects).record.round, 1u);
  EXPECT_EQ(Notices(effects), "");
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));
  EXPECT_THAT(Notices(Step(Beat(1, {Report(2, {7, 8})}))),
              HasSubstr("worker 1 (worker-1) has the others' state again, after round 2"));
  EXPECT_EQ(RepairOf(1), std::nullopt);
}

TEST_F(CoordinatorRepairTest, AnotherProcessDoesNotInheritARepair) {
  Begin(Options(3, 1));
  Round(0, {{1, 2}, {1, 3}, {1, 2}});
  Step(Returning(1, 5));
  WorkerHeartbeat heartbeat = Beat(1);
  heartbeat.incarnation = 5;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(heartbeat)).repair, std::nullopt);
}

TEST_F(CoordinatorRepairTest, WhoMakesItsReplicaAnewIsNotJudgedByTheOneBefore) {
  Begin(Options(3, 1));
  Step(Beat(1, {Report(0, {1, 3})}));
  Step(Returning(1, 5));
  Step(Beat(0, {Report(0)}));
  Step(Beat(2, {Report(0)}));
  ASSERT_EQ(Status().record_count, 1u);
  WorkerHeartbeat heartbeat = Beat(1);
  heartbeat.incarnation = 5;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(heartbeat)).repair, std::nullopt);
  EXPECT_EQ(Status().repairs, 0u);
}

TEST_F(CoordinatorRepairTest, ARepairedRunFinishes) {
  Begin(Options(3, 1, 2));
  Round(0, {{1, 2}, {1, 3}, {1, 2}});
  Round(1, {{4, 5}, {4, 5}, {4, 5}});
  Round(2, {{4, 5}, {4, 5}, {4, 5}});
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

// --- after the last round ------------------------------------------------------------------------

using SealingTest = CoordinatorRepairTest;

TEST_F(SealingTest, WhatDiffersIsRepairedAndTheRunFinishes) {
  Begin(Options(3, 1, 1));
  Round(0, {{1, 2}, {1, 3}, {1, 2}});
  EXPECT_EQ(RepairOf(1), (Repair{0, {1}}));
  // The worker had reported the sealing round before it heard of the repair.
  Round(1, {{1, 2}, {1, 3}, {1, 2}});
  EXPECT_EQ(RepairOf(1), (Repair{1, {1}}));
  WorkerHeartbeatReply reply = Only<WorkerHeartbeatReply>(Step(FinalBeat(0)));
  EXPECT_EQ(reply.sealing_round, 2u);
  EXPECT_FALSE(reply.sealed);
  // Old news, said again because an answer was lost.
  Step(SealBeat(1, {1, 3}));
  EXPECT_EQ(RepairOf(1), (Repair{1, {1}}));

  for (const uint32_t worker : {0, 2}) Step(SealBeat(worker, {1, 2}, 1));
  reply = Only<WorkerHeartbeatReply>(Step(SealBeat(1, {1, 2}, 1)));
  EXPECT_TRUE(reply.sealed);
  EXPECT_EQ(RepairOf(1), std::nullopt);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);  // the final report was of a state before
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
  EXPECT_EQ(Status().record_count, 1u);
  EXPECT_TRUE(Status().replicas_equal);
  EXPECT_EQ(Status().repairs, 1u);
}

TEST_F(SealingTest, WhereNoMajorityIsRightAfterARepairTheRunFails) {
  Begin(Options(2, 1, 1));
  Round(0, {{1, 2}, {1, 3}});
  Round(1, {{1, 2}, {1, 3}});
  EXPECT_EQ(RepairOf(0), (Repair{1, {1}}));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  Step(SealBeat(0, {1, 2}, 1));
  EXPECT_EQ(Only<PhaseChanged>(Step(SealBeat(1, {1, 3}, 1))).phase, RunPhase::kFailed);
  EXPECT_EQ(Status().failure.substr(0, 24), "replicas differ: round 0");
}

// The other one may have been wrong until now.
TEST_F(SealingTest, OneThatWasNotToldToRepairYetIsWaitedFor) {
  Begin(Options(2, 1, 1));
  Round(0, {{1, 2}, {1, 2}});
  Round(1, {{1, 2}, {1, 3}});
  Step(Returning(1, 5));
  Step(ShardAt(0, 1, Status().epoch));
  Step(Ready(1, 5, 1, Status().epoch));
  Step(SealBeat(0, {1, 2}, 1));
  WorkerHeartbeat other = SealBeat(1, {1, 3}, 1);
  other.incarnation = 5;
  EXPECT_THAT(All<PhaseChanged>(Step(other)), testing::IsEmpty());
  EXPECT_EQ(RepairOf(0), (Repair{2, {1}}));
  Step(SealBeat(0, {1, 3}, 2));
  other = SealBeat(1, {1, 3}, 2);
  other.incarnation = 5;
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(other)).sealed);
}

TEST_F(SealingTest, WhoIsLostBeforeItsRepairCountsNoMore) {
  Begin(Options(2, 1, 1));
  Round(0, {{1, 2}, {1, 2}});
  Round(1, {{1, 2}, {1, 3}});
  Step(SealBeat(0, {1, 2}, 1));
  Pass(31, {0});
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorRepairTest, ShardsGetAVerdictOnTheirSnapshotsOnceTheRoundIsFinished) {
  Begin(Options(2, 1));
  ShardHeartbeat heartbeat = ShardBeat(0, 1, true);
  heartbeat.snapshots = {{0, 1, 1}, {1, 1, 9}, {0, 2, 4}};
  EXPECT_TRUE(Only<ShardHeartbeatReply>(Step(heartbeat)).hash_checks.empty());
  Round(0, {{1, 2}, {1, 2}});
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(heartbeat)).hash_checks,
            (std::vector<HashCheck>{{0, 1, true}, {1, 1, false}}));
}

// --- who ends without having been compared -------------------------------------------------------

class LateEndTest : public CoordinatorRepairTest {
 protected:
  // The heartbeat from the process `incarnation`.
  static WorkerHeartbeat As(uint64_t incarnation, WorkerHeartbeat heartbeat) {
    heartbeat.incarnation = incarnation;
    return heartbeat;
  }
  // Both have done some of ten rounds, all shards have closed them all, and both come back in other
  // processes, which have nothing to train.
  void RestartAtTheEnd() {
    Begin(Options(2, 1));
    Round(0, {{1, 2}, {1, 2}});
    Step(ShardAt(0, 10));
    for (const uint32_t worker : {0, 1}) Step(Returning(worker, 5 + worker));
    Step(ShardAt(0, 10, Status().epoch));
    for (const uint32_t worker : {0, 1}) Step(Ready(worker, 5 + worker, 10, Status().epoch));
    ASSERT_EQ(FirstRound(0), 10u);
    ASSERT_EQ(FirstRound(1), 10u);
  }
};

TEST_F(LateEndTest, ProcessesThatHaveTrainedNothingAreCompared) {
  RestartAtTheEnd();
  for (const uint32_t worker : {0, 1}) Step(As(5 + worker, SealBeat(worker, {7, 8})));
  EXPECT_EQ(Only<PhaseChanged>(Step(As(5, FinalBeat(0)))).phase, RunPhase::kFinished);
  // Replaces the record of the last round, which no member has reported.
  EXPECT_EQ(Status().records.back().round, 9u);
  EXPECT_EQ(Status().records.back().members, 0u);
  EXPECT_EQ(Status().records.back().train_loss, 2);
  EXPECT_EQ(Status().state_hash, CombineHashes({7, 8}));
}

TEST_F(LateEndTest, AFinalReportWithoutTheHashesEndsNothing) {
  for (const bool promises : {true, false}) {
    CoordinatorOptions options = Options(1, 1, 1);
    options.promises_equal_replicas = promises;
    Begin(options);
    Step(ShardAt(0, 1));
    Step(Beat(0, {Report(0)}));
    EXPECT_THAT(All<PhaseChanged>(Step(FinalBeat(0))), testing::IsEmpty());
    WorkerHeartbeat last = FinalBeat(0);
    last.rounds = {Report(1)};
    EXPECT_EQ(Only<PhaseChanged>(Step(last)).phase, RunPhase::kFinished);
  }
}

TEST_F(LateEndTest, WhatDiffersInAProcessThatHasTrainedNothingIsRepaired) {
  RestartAtTheEnd();
  Step(As(5, SealBeat(0, {7, 8})));
  Step(As(6, SealBeat(1, {7, 9})));
  for (const uint32_t worker : {0, 1}) {
    const auto effects = Step(As(5 + worker, Beat(worker)));
    EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).repair, (Repair{10, {1}}));
  }
  for (const uint32_t worker : {0, 1}) Step(As(5 + worker, SealBeat(worker, {7, 8}, 1)));
  Step(As(5, FinalBeat(0)));
  EXPECT_EQ(Status().phase, RunPhase::kFinished);
  EXPECT_TRUE(Status().replicas_equal);
}

TEST_F(LateEndTest, WhoComesBackBeforeTheSealIsCompared) {
  Begin(Options(3, 1, 1));
  Round(0, {{1, 2}, {1, 2}, {1, 2}});
  Seal({0});
  Step(Returning(1, 5));
  // A joining member's report may come before its first round does.
  Step(As(5, SealBeat(1, {1, 3})));
  Step(ShardAt(0, 1, Status().epoch));
  Step(As(5, Ready(1, 5, 1, Status().epoch)));
  Seal({2});
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(As(5, Beat(1)))).repair, (Repair{1, {1}}));
}

TEST_F(LateEndTest, ASealedRunWaitsForNobodyWhoComesBack) {
  Begin(Options(2, 1, 1));
  Round(0, {{1, 2}, {1, 2}});
  Seal({0, 1});
  Step(Returning(1, 5));
  Step(ShardAt(0, 1, Status().epoch));
  const auto reply = Only<WorkerHeartbeatReply>(Step(As(5, Ready(1, 5, 1, Status().epoch))));
  EXPECT_EQ(reply.sealing_round, 0u);
  EXPECT_EQ(FirstRound(1), kRoundNever);
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

}  // namespace
}  // namespace longwave

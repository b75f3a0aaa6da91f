// A member's reports decide about that member alone, and neither end the run for others nor hold it
// up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorWordTest : public CoordinatorTest {
 protected:
  static WorkerHeartbeat Writes(uint32_t worker) {
    WorkerHeartbeat heartbeat = FinalBeat(worker);
    heartbeat.final->model_file = "model.safetensors";
    return heartbeat;
  }
  // All but one of the run's workers report the round, with the same hashes.
  void OthersReport(uint32_t round, uint32_t workers, uint32_t but) {
    for (uint32_t i = 0; i < workers; ++i) {
      if (i != but) Step(Beat(i, {Report(round)}));
    }
  }
};

// --- rounds --------------------------------------------------------------------------------------

TEST_F(CoordinatorWordTest, AReportOfARoundThatNoShardHasOpenedFinishesNothing) {
  CoordinatorOptions options = Options(3, 1, 100);
  options.rounds_behind_max = 8;
  Begin(options, 0);
  WorkerHeartbeat liar = Writes(0);
  liar.rounds = {Report(99)};
  EXPECT_THAT(All<PhaseChanged>(Step(liar)), IsEmpty());
  for (const uint32_t worker : {1, 2}) EXPECT_EQ(Notices(Step(Beat(worker))), "");
  Step(ShardAt(0, 1));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().record_count, 0u);
  EXPECT_EQ(Status().model_file, "");
  // The others' rounds are finished without it.
  for (const uint32_t worker : {1, 2}) Step(Beat(worker, {Report(0)}));
  EXPECT_EQ(Status().records.at(0).members, 2u);
}

TEST_F(CoordinatorWordTest, ARoundThatIsReportedBeforeTheShardSaysSoIsFinishedThen) {
  Begin(Options(1, 2, 1), 0);
  EXPECT_THAT(All<RoundFinished>(Step(Beat(0, {Report(0)}))), IsEmpty());
  Seal({0});
  EXPECT_EQ(Notices(Step(FinalBeat(0))), "");
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_THAT(All<RoundFinished>(Step(ShardAt(0, 1))), IsEmpty());  // one of two shards
  const auto effects = Step(ShardAt(1, 1));
  EXPECT_EQ(Only<RoundFinished>(effects).record.round, 0u);
  EXPECT_EQ(Only<PhaseChanged>(effects).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, WhatIsReportedFarAheadOfTheShardsIsToComeAgain) {
  Begin(Options(1, 1, 5000), 0);
  now_ = 29;
  EXPECT_THAT(
      Refusal(Step(Beat(0, {Report(2000)})), absl::StatusCode::kUnavailable),
      HasSubstr("worker 0 (worker-0) reported round 2000, the shards have closed 0 rounds"));
  now_ = 31;
  Step(ShardAt(0, 2000));
  Step(Tick{});
  EXPECT_NE(Status().members[0].state.phase, WorkerPhase::kLost);  // a retrying worker is alive
  Step(Beat(0, {Report(2000)}));
}

// A shard that makes its range again stands before round 0 for a moment.
TEST_F(CoordinatorWordTest, WhatIsClosedStaysClosed) {
  Begin(Options(1, 1, 3), 1);
  Step(ShardAt(0, 0));
  EXPECT_EQ(Only<RoundFinished>(Step(Beat(0, {Report(0)}))).record.round, 0u);
}

// --- hashes --------------------------------------------------------------------------------------

TEST_F(CoordinatorWordTest, WhoReportsAnotherNumberOfHashesThanOfSegmentsIsRefusedAndNobodyElse) {
  Begin(Options(2, 1));
  EXPECT_THAT(Refusal(Step(Beat(1, {Report(0, {1, 2, 3})})), absl::StatusCode::kInvalidArgument),
              HasSubstr("3 segment hashes, wanted 2, one for each segment"));
  EXPECT_THAT(Refusal(Step(Beat(1, {Report(0, {})})), absl::StatusCode::kInvalidArgument),
              HasSubstr("0 segment hashes"));
  Refusal(Step(SealBeat(1, {1, 2, 3})), absl::StatusCode::kInvalidArgument);
  Step(Beat(0, {Report(0)}));
  EXPECT_EQ(Only<RoundFinished>(Step(Beat(1, {Report(0)}))).record.round, 0u);
}

TEST_F(CoordinatorWordTest, AModelThatHasNoLayoutIsRefused) {
  CoordinatorOptions options = Options(1, 1);
  options.segment_count = [](const Manifest&, uint64_t) {
    return absl::InvalidArgumentError("too large");
  };
  Make(options);
  EXPECT_EQ(Refusal(Step(Worker(0)), absl::StatusCode::kInvalidArgument), "too large");
  EXPECT_FALSE(coordinator_->manifest());
}

TEST_F(CoordinatorWordTest, OneThatDiffersInASealingRoundAndRepairsNothingIsLeftOutInTime) {
  Begin(Options(4, 1, 1));
  OthersReport(0, 4, 4);
  for (const uint32_t worker : {0, 1, 3}) Step(SealBeat(worker));
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(SealBeat(2, {1, 3}))).repair, (Repair{1, {1}}));
  for (const uint32_t worker : {0, 1, 3}) Step(SealBeat(worker, {1, 2}, 1));
  // The worker lives, and reports arbitrary hashes.
  EXPECT_THAT(All<PhaseChanged>(Pass(32, {0, 1, 2, 3})), IsEmpty());
  EXPECT_THAT(Status().trouble, HasSubstr("worker 2 (worker-2) has to repair its replica"));
  EXPECT_THAT(All<PhaseChanged>(Pass(300, {0, 1, 2, 3})), IsEmpty());
  EXPECT_THAT(Notices(Pass(302, {0, 1, 2, 3})),
              HasSubstr("worker 2 (worker-2) has not reported the hashes of its replica with all "
                        "rounds for 301.0 s after another worker; epoch"));
  EXPECT_EQ(Status().members[2].state.phase, WorkerPhase::kFailed);
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, OneThatReportsAWrongHashAgainIsLeftOutAtOnce) {
  Begin(Options(4, 1, 1));
  OthersReport(0, 4, 4);
  Seal({1, 2, 3});
  Step(SealBeat(0, {1, 3}));
  for (const uint32_t worker : {1, 2, 3}) Step(SealBeat(worker, {1, 2}, 1));
  WorkerHeartbeat liar = Writes(0);
  liar.rounds = {Report(2, {1, 4})};
  const auto effects = Step(liar);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  EXPECT_THAT(Notices(effects),
              HasSubstr("worker 0 (worker-0) has another state after the last round than the "
                        "majority, and has not repaired it; epoch"));
  // The weights that the worker names do not count.
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().model_file, "");
  const auto reply = Only<WorkerHeartbeatReply>(Step(Beat(1)));
  EXPECT_TRUE(reply.validates);
  EXPECT_FALSE(reply.sealed);
  for (const uint32_t worker : {1, 2, 3}) Step(SealBeat(worker, {1, 2}, 2));
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(1))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, OneThatNamesWeightsAndReportsNoHashesIsLeftOutInTime) {
  Begin(Options(3, 1, 2));
  Step(Writes(0));
  for (const uint32_t round : {0, 1, 2}) OthersReport(round, 3, 0);
  EXPECT_EQ(Status().model_file, "");
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_THAT(Notices(Pass(302, {0, 1, 2})),
              HasSubstr("worker 0 (worker-0) has not reported the hashes of its replica with all "
                        "rounds for 301.0 s after another worker; epoch"));
  EXPECT_EQ(Status().model_file, "");
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(1))).phase, RunPhase::kFinished);
}

// --- failures ------------------------------------------------------------------------------------

TEST_F(CoordinatorWordTest, AFailureInAFinalReportTakesOutItsMemberAlone) {
  Begin(Options(3, 1, 2));
  WorkerHeartbeat liar = FinalBeat(1);
  liar.failure = "all is lost";
  const auto effects = Step(liar);
  EXPECT_THAT(All<PhaseChanged>(effects), IsEmpty());
  EXPECT_THAT(Notices(effects), HasSubstr("worker 1 (worker-1) failed (1 of 3 have): all is lost"));
  for (const uint32_t round : {0, 1, 2}) OthersReport(round, 3, 1);
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, AFailureAfterTheOthersWeightsAreWrittenChangesNothing) {
  Begin(Options(2, 1, 1));
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
  Seal({0});
  Step(FinalBeat(0));
  WorkerHeartbeat liar = Beat(1);
  liar.failure = "all is lost";
  EXPECT_EQ(Only<PhaseChanged>(Step(liar)).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, AFailureDoesNotEndARunToWhichOthersMayComeBack) {
  Begin(Options(2, 1));
  Pass(31, {1});
  ASSERT_EQ(Status().members[0].state.phase, WorkerPhase::kLost);
  WorkerHeartbeat liar = Beat(1);
  liar.failure = "all is lost";
  EXPECT_THAT(All<PhaseChanged>(Step(liar)), IsEmpty());
  Step(Beat(0));
  EXPECT_THAT(All<PhaseChanged>(Pass(400, {0})), IsEmpty());
}

// --- the end -------------------------------------------------------------------------------------

TEST_F(CoordinatorWordTest, TheDutyToWriteTheWeightsPassesOnFromOneThatDoesNot) {
  Begin(Options(3, 1, 1));
  OthersReport(0, 3, 3);
  Seal({0, 1, 2});
  WorkerHeartbeat idle = FinalBeat(0);
  idle.final->model_file.clear();
  Step(idle);
  Step(Writes(2));  // a worker without the duty
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().model_file, "");
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  EXPECT_THAT(Notices(Pass(302, {0, 1, 2})),
              HasSubstr("worker 0 (worker-0) has not written the weights for 301.0 s; worker 1 "
                        "(worker-1) is to do it"));
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(1))).phase, RunPhase::kFinished);
}

// Large weights, or a validation before them, take long: the named file counts when it comes.
TEST_F(CoordinatorWordTest, OneThatTakesLongToWriteIsNotPassedOver) {
  Begin(Options(2, 1, 1));
  OthersReport(0, 2, 2);
  Seal({0, 1});
  EXPECT_THAT(All<PhaseChanged>(Pass(310, {0, 1})), IsEmpty());
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(0))).phase, RunPhase::kFinished);

  now_ = 0;
  Begin(Options(1, 1, 1));
  Step(Beat(0, {Report(0)}));
  Seal({0});
  EXPECT_THAT(All<PhaseChanged>(Pass(299, {0})), IsEmpty());
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, WhatIsReportedAfterTheSealChangesNothing) {
  Begin(Options(2, 1, 1));
  OthersReport(0, 2, 2);
  Seal({0, 1});
  Step(SealBeat(1, {7, 7}, 1));
  const auto reply = Only<WorkerHeartbeatReply>(Step(Beat(0)));
  EXPECT_TRUE(reply.sealed);
  EXPECT_EQ(reply.sealing_round, 0u);
  EXPECT_EQ(Only<PhaseChanged>(Step(Writes(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorWordTest, HashesOfOneThatOnlyJoinsAreComparedWithNobodys) {
  Begin(Options(2, 1, 1));
  OthersReport(0, 2, 2);
  Step(Worker(2));
  Step(SealBeat(2, {9, 9}));
  Seal({0});
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(SealBeat(1))).sealed);
  EXPECT_TRUE(Status().replicas_equal);
}

TEST_F(CoordinatorWordTest, ASealingRoundThatNobodyReportsIsWaitedForInTime) {
  Begin(Options(2, 1, 1));
  OthersReport(0, 2, 2);
  Step(SealBeat(0));
  Step(SealBeat(1, {1, 3}));
  EXPECT_THAT(Notices(Pass(302, {0, 1})), HasSubstr("has not reported the hashes of its replica"));
  EXPECT_EQ(Status().members[0].state.phase, WorkerPhase::kFailed);
}

}  // namespace
}  // namespace longwave

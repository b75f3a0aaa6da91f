#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// --- losing members --------------------------------------------------------------------------

TEST_F(CoordinatorTest, ASilentWorkerIsLostAndTheNextEpochGoesOn) {
  Begin(Options(2, 1));
  Step(Beat(1, {Report(0)}));
  now_ = 20;
  Step(Beat(1));
  Step(ShardBeat(0, 1, true));
  now_ = 30;
  EXPECT_THAT(Step(Tick{}), IsEmpty());
  now_ = 30.5;
  const auto effects = Step(Tick{});
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 0 (worker-0) was not heard for 30.5 s, wanted a heartbeat within 30.0 s; epoch "
            "2 goes on with 1 worker");
  // The round waited for worker 0 alone.
  EXPECT_EQ(Only<RoundFinished>(effects).record.members, 1u);
  const RunStatus status = Status();
  EXPECT_EQ(status.epoch, 2u);
  EXPECT_EQ(status.members[0].state.phase, WorkerPhase::kLost);
  EXPECT_EQ(status.members[0].heartbeat_age_s, 30.5);

  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0, 1, true))).membership->epoch, 2u);
  // The shard has known worker 1 since epoch 1.
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 1))).membership->epoch, 2u);
}

TEST_F(CoordinatorTest, WhoeverFailsLeavesAndTheLastOnesSentenceEndsTheRun) {
  Begin(Options(3, 1));
  Step(Beat(0, {Report(0)}));
  Step(Beat(1, {Report(0)}));
  WorkerHeartbeat heartbeat = Beat(2);
  heartbeat.failure = "the loss at step 3 is nan";
  auto effects = Step(heartbeat);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 2 (worker-2) failed (1 of 3 have): the loss at step 3 is nan; epoch 2 goes on "
            "with 2 workers");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  // The round waited for worker 2 alone.
  EXPECT_EQ(Only<RoundFinished>(effects).record.members, 2u);
  EXPECT_EQ(Status().members[2].state.phase, WorkerPhase::kFailed);
  // Another process of that name may come.
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(2, 5))).worker, 2u);

  heartbeat = Beat(0);
  heartbeat.failure = "out of memory";
  EXPECT_THAT(All<PhaseChanged>(Step(heartbeat)), IsEmpty());
  heartbeat = Beat(1);
  heartbeat.failure = "the loss at step 4 is nan";
  EXPECT_THAT(All<PhaseChanged>(Step(heartbeat)), IsEmpty());  // worker 2 joins again
  heartbeat = Beat(2);
  heartbeat.incarnation = 5;
  heartbeat.leaving = true;
  Step(heartbeat);
  Step(Returning(1, 6));
  Step(Ready(1, 6, 1, Status().epoch));
  heartbeat = Beat(1);
  heartbeat.incarnation = 6;
  heartbeat.failure = "the loss at step 4 is nan";
  effects = Step(heartbeat);
  EXPECT_EQ(Only<PhaseChanged>(effects).reason, "worker 1 (worker-1): the loss at step 4 is nan");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
}

TEST_F(CoordinatorTest, AFailureAfterTheOthersAreDoneLeavesTheWeightsToThem) {
  Begin(Options(2, 1, 1));
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
  Seal({0, 1});
  Step(FinalBeat(1));
  WorkerHeartbeat heartbeat = Beat(0);
  heartbeat.failure = "no room for the weights";
  EXPECT_THAT(All<PhaseChanged>(Step(heartbeat)), IsEmpty());
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(FinalBeat(1))).validates);
  heartbeat = FinalBeat(1);
  heartbeat.final->model_file = "model.safetensors";
  EXPECT_EQ(Only<PhaseChanged>(Step(heartbeat)).phase, RunPhase::kFinished);
}

// A shard must not wait for pushes of this worker: a shard that restores would wait for ever.
TEST_F(CoordinatorTest, ShardsSeeWhoIsDoneAsOneThatPushesNoMore) {
  Begin(Options(2, 1));
  ShardsKnow(1);
  Step(Beat(0, {Report(9)}));
  Seal({0});
  const auto reply = Only<ShardHeartbeatReply>(Step(ShardBeat(0, 1, true)));
  ASSERT_TRUE(reply.membership);
  EXPECT_EQ(reply.membership->epoch, 2u);
  EXPECT_EQ(reply.membership->members[0].first_round, kRoundNever);
  EXPECT_EQ(reply.membership->members[1].first_round, 0u);
}

TEST_F(CoordinatorTest, FailsOnLossesThatAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Begin(Options(2, 1));
  RoundReport report = Report(0);
  report.train_loss = nan;
  EXPECT_THAT(Only<Notice>(Step(Beat(0, {report}))).text,
              HasSubstr("worker 0 (worker-0) failed (1 of 2 have): the training loss at step 10"));
  EXPECT_EQ(Only<PhaseChanged>(Step(Beat(1, {report}))).reason,
            "worker 1 (worker-1): the training loss at step 10 is nan, wanted a finite number");

  Begin(Options(1, 1));
  report = Report(0);
  report.validation_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Only<PhaseChanged>(Step(Beat(0, {report}))).reason,
            "worker 0 (worker-0): the validation loss at step 10 is inf, wanted a finite number");

  Begin(Options(2, 1));
  WorkerHeartbeat last = FinalBeat(0);
  last.state.step = 600;
  last.final->validation_loss = nan;
  EXPECT_THAT(Only<Notice>(Step(last)).text, HasSubstr("worker 0 (worker-0) failed (1 of 2 have)"));
  last = FinalBeat(1);
  last.state.step = 600;
  last.final->validation_loss = nan;
  EXPECT_EQ(Only<PhaseChanged>(Step(last)).reason,
            "worker 1 (worker-1): the final validation loss at step 600 is nan, wanted a finite "
            "number");
}

// --- rounds ----------------------------------------------------------------------------------

TEST_F(CoordinatorTest, ReportsSentAgainChangeNothing) {
  Begin(Options(2, 1));
  Step(Beat(0, {Report(0)}));
  RoundReport other = Report(0);
  other.train_loss = 99;
  Step(Beat(0, {other}));
  EXPECT_EQ(Only<RoundFinished>(Step(Beat(1, {Report(0)}))).record.train_loss, 2);
  EXPECT_THAT(All<RoundFinished>(Step(Beat(1, {Report(0)}))), IsEmpty());
  EXPECT_EQ(Status().record_count, 1u);
  EXPECT_EQ(Status().records[0].tokens, 200u);
}

TEST_F(CoordinatorTest, ARefusedHeartbeatChangesNothing) {
  Begin(Options(1, 1, 3));
  EXPECT_EQ(Refusal(Step(Beat(0, {Report(1), Report(0)})), absl::StatusCode::kInvalidArgument),
            "worker 0 (worker-0) reported round 0 after round 1, wanted them in order");
  EXPECT_EQ(Status().record_count, 0u);
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  EXPECT_EQ(Status().record_count, 3u);
}

TEST_F(CoordinatorTest, ReplicasThatMayDifferDoSoWithoutANotice) {
  CoordinatorOptions options = Options(2, 1);
  options.promises_equal_replicas = false;
  Begin(options);
  Step(Beat(0, {Report(0)}));
  const auto effects = Step(Beat(1, {Report(0, {5, 5})}));
  EXPECT_THAT(All<Notice>(effects), IsEmpty());
  EXPECT_FALSE(Only<RoundFinished>(effects).record.replicas_equal);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1))).repair);
  Seal({0});
  const auto sealing = Step(SealBeat(1, {5, 5}));
  EXPECT_THAT(Notices(sealing), testing::Not(HasSubstr("differ")));
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(sealing).sealed);
  EXPECT_EQ(Status().repairs, 0u);
}

TEST_F(CoordinatorTest, StatusGivesRecordsFromAnIndexOn) {
  Begin(Options(1, 1));
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  EXPECT_EQ(Status(1).records.size(), 2u);
  EXPECT_EQ(Status(1).records[0].round, 1u);
  EXPECT_THAT(Status(3).records, IsEmpty());
  EXPECT_THAT(Status(1000).records, IsEmpty());
  EXPECT_EQ(Status(1000).record_count, 3u);
}

TEST_F(CoordinatorTest, StatusGivesAtMostSoManyRecordsAtATime) {
  constexpr uint64_t kRounds = Coordinator::kStatusRecordsMax + 5;
  Begin(Options(1, 1, kRounds));
  std::vector<RoundReport> reports;
  for (uint32_t round = 0; round < kRounds; ++round) reports.push_back(Report(round));
  Step(Beat(0, reports));
  EXPECT_EQ(Status().records.size(), Coordinator::kStatusRecordsMax);
  EXPECT_EQ(Status(Coordinator::kStatusRecordsMax).records.size(), 5u);
}

// --- the end ---------------------------------------------------------------------------------

TEST_F(CoordinatorTest, FinishesOnceItIsSealedAndTheWeightsAreWritten) {
  Begin(Options(2, 1, 1));
  now_ = 4;
  RoundReport report = Report(0);
  report.validation_loss = 3.5;
  Step(Beat(1, {Report(0)}));
  Step(Beat(0, {report}));
  EXPECT_EQ(Status().validation_loss, 3.5);
  now_ = 5;
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(SealBeat(0))).sealed);
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(SealBeat(1))).sealed);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(FinalBeat(1))).instruction, Instruction::kContinue);
  now_ = 6;
  WorkerHeartbeat last = FinalBeat(0);
  last.final->validation_loss = 2.5;
  last.final->model_file = "runs/a/model.safetensors";
  const auto effects = Step(last);
  EXPECT_EQ(Only<PhaseChanged>(effects).phase, RunPhase::kFinished);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  now_ = 100;
  const RunStatus status = Status();
  EXPECT_EQ(status.phase, RunPhase::kFinished);
  EXPECT_EQ(status.seconds, 6);  // of the run, not of the time since
  EXPECT_EQ(status.validation_loss, 2.5);
  EXPECT_EQ(status.model_file, "runs/a/model.safetensors");
  EXPECT_EQ(status.failure, "");
  EXPECT_TRUE(status.replicas_equal);
  EXPECT_EQ(status.state_hash, CombineHashes({1, 2}));
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0, 1, true))).instruction, Instruction::kStop);
}

TEST_F(CoordinatorTest, FinishesWithoutTheOnesThatWereLost) {
  Begin(Options(2, 1, 1));
  Step(Beat(0, {Report(0)}));
  Seal({0});
  now_ = 20;
  Step(ShardBeat(0));
  Step(FinalBeat(0));
  now_ = 31;
  EXPECT_EQ(Only<PhaseChanged>(Step(Tick{})).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorTest, WaitsForTheOneThatWasToWriteTheWeights) {
  const std::string missing =
      "all rounds are done, but no worker that is left has written the weights; lost: worker 0 "
      "(worker-0)";
  for (const bool comes_back : {true, false}) {
    now_ = 0;
    CoordinatorOptions options = Options(2, 1, 1);
    options.away_timeout = options.start_timeout;
    Begin(options);
    for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
    Seal({0, 1});
    Step(FinalBeat(1));  // the duty was worker 0's
    EXPECT_THAT(Notices(Pass(31, {1})), HasSubstr(missing));
    EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
    EXPECT_EQ(Status().trouble, missing);
    if (comes_back) {
      Step(Returning(0, 5));
      Step(ShardAt(0, 1, Status().epoch));
      EXPECT_TRUE(All<PhaseChanged>(Step(Ready(0, 5, 1, Status().epoch))).empty());
      EXPECT_EQ(FirstRound(0), kRoundNever);  // the run is sealed without it
      WorkerHeartbeat last = FinalBeat(1);
      last.final->model_file = "model.safetensors";
      EXPECT_EQ(Only<PhaseChanged>(Step(last)).phase, RunPhase::kFinished);
    } else {
      const PhaseChanged change = Only<PhaseChanged>(Pass(332, {1}));
      EXPECT_EQ(change.phase, RunPhase::kFailed);
      EXPECT_EQ(change.reason, missing);
    }
  }
}

TEST_F(CoordinatorTest, TheDutyToWriteTheWeightsPassesToWhoIsDoneAndHeard) {
  Begin(Options(3, 1, 1));
  for (const uint32_t worker : {0, 1, 2}) Step(Beat(worker, {Report(0)}));
  Seal({0, 1, 2});
  for (const uint32_t worker : {1, 2}) Step(FinalBeat(worker));
  // Worker 0, which was to write, is lost, and so is worker 1.
  Pass(31, {2});
  EXPECT_EQ(Status().members[0].state.phase, WorkerPhase::kLost);
  Pass(63, {2});
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(FinalBeat(2))).validates);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  WorkerHeartbeat last = FinalBeat(2);
  last.final = FinalReport{.validation_loss = 2.5, .model_file = "model.safetensors"};
  EXPECT_EQ(Only<PhaseChanged>(Step(last)).phase, RunPhase::kFinished);
  EXPECT_EQ(Status().model_file, "model.safetensors");
  EXPECT_EQ(Status().validation_loss, 2.5);
}

TEST_F(CoordinatorTest, AHungTrainerWithLiveHeartbeatsHoldsNothingUp) {
  CoordinatorOptions options = Options(3, 1, 30);
  options.rounds_behind_max = 8;
  Begin(options);
  Step(Beat(2, {Report(0)}));
  for (uint32_t round = 0; round < 9; ++round) {
    for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(round)}));
  }
  Step(Beat(2));
  EXPECT_EQ(Status().record_count, 1u);  // eight rounds behind
  // Messages of others do not make the worker late, since it may have more to report.
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(9)}));
  EXPECT_EQ(Status().record_count, 1u);
  EXPECT_THAT(Notices(Step(Beat(2))),
              HasSubstr("worker 2 (worker-2) sends heartbeats, but its newest report"));
  EXPECT_EQ(Status().record_count, 10u);
  EXPECT_EQ(Status().members[2].state.phase, WorkerPhase::kJoining);
  EXPECT_EQ(Status().records[9].members, 2u);
  // The worker resumes, and rounds wait for it again.
  Step(Beat(2, {Report(9)}));
  EXPECT_EQ(Status().members[2].state.phase, WorkerPhase::kTraining);
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(10)}));
  EXPECT_EQ(Status().record_count, 10u);
  // Nor does the end wait for one that hangs.
  for (uint32_t round = 11; round < 30; ++round) {
    for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(round)}));
  }
  Step(Beat(2));
  EXPECT_EQ(Status().record_count, 30u);
  Seal({0, 1});
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorTest, CountsAsToldOnlyThoseThatTakePart) {
  Begin(Options(2, 1, 1));
  EXPECT_FALSE(coordinator_->EveryoneToldOfTheEnd());
  Step(StopRequested{"Ctrl-C"});
  Step(Beat(0));
  Step(ShardBeat(0));
  WorkerHeartbeat stranger = Beat(1);
  stranger.incarnation = 9;
  stranger.state.step = 99;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(stranger)).instruction, Instruction::kStop);
  EXPECT_FALSE(coordinator_->EveryoneToldOfTheEnd());
  EXPECT_EQ(Status().members[1].state.step, 0u);
  Step(Beat(1));
  EXPECT_TRUE(coordinator_->EveryoneToldOfTheEnd());
}

TEST_F(CoordinatorTest, DoesNotTellTheOnesThatWereLost) {
  Begin(Options(2, 1, 1));
  now_ = 20;
  Step(Beat(1));
  Step(ShardBeat(0));
  now_ = 31;
  Step(Tick{});  // worker 0 is lost
  Step(StopRequested{"Ctrl-C"});
  Step(Beat(1));
  EXPECT_FALSE(coordinator_->EveryoneToldOfTheEnd());
  Step(ShardBeat(0));
  EXPECT_TRUE(coordinator_->EveryoneToldOfTheEnd());
}

TEST_F(CoordinatorTest, FailsWhenTheShardsDoNotCloseWhatAllWorkersHave) {
  CoordinatorOptions options = Options(1, 1, 3);
  options.away_timeout = options.start_timeout;
  Begin(options, 1);
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  Seal({0});
  EXPECT_EQ(Only<PhaseChanged>(Pass(302, {0})).reason,
            "every worker has all rounds, and the shards have closed 1, wanted 3");
}

TEST_F(CoordinatorTest, FinishesWhenEveryoneSkippedTheLastRoundsThatShardsHaveClosed) {
  Begin(Options(1, 1, 3), 1);
  Step(Beat(0, {Report(0)}));
  Seal({0});
  Step(FinalBeat(0));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Only<PhaseChanged>(Step(ShardAt(0, 3))).phase, RunPhase::kFinished);
  EXPECT_EQ(Status().records.back().round, 2u);
}

TEST_F(CoordinatorTest, StopsOnRequestInWaitingAndTraining) {
  Make(Options(1, 1));
  EXPECT_EQ(Only<PhaseChanged>(Step(StopRequested{"Ctrl-C"})).phase, RunPhase::kStopped);
  EXPECT_EQ(Refusal(Step(Worker(0)), absl::StatusCode::kFailedPrecondition),
            "the run is over (stopped: Ctrl-C)");
  EXPECT_EQ(Refusal(Step(Shard(0)), absl::StatusCode::kFailedPrecondition),
            "the run is over (stopped: Ctrl-C)");

  Begin(Options(1, 1));
  Step(StopRequested{"Ctrl-C"});
  const auto worker = Only<WorkerHeartbeatReply>(Step(Beat(0)));
  EXPECT_EQ(worker.instruction, Instruction::kStop);
  EXPECT_EQ(worker.reason, "Ctrl-C");
  EXPECT_EQ(worker.phase, RunPhase::kStopped);
  EXPECT_TRUE(worker.validates);  // so that it writes the weights of now
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0))).reason, "Ctrl-C");
  // An unknown worker is told, too.
  const auto stranger = Only<WorkerHeartbeatReply>(Step(Beat(9)));
  EXPECT_EQ(stranger.instruction, Instruction::kStop);
  EXPECT_FALSE(stranger.validates);
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(9))).instruction, Instruction::kStop);
}

TEST_F(CoordinatorTest, NothingLeadsOutOfTheLastStates) {
  Begin(Options(1, 1, 1));
  WorkerHeartbeat failing = Beat(0);
  failing.failure = "first";
  Step(failing);
  failing.failure = "second";
  EXPECT_THAT(All<PhaseChanged>(Step(failing)), IsEmpty());
  EXPECT_THAT(Step(StopRequested{"late"}), IsEmpty());
  now_ = 1000;
  EXPECT_THAT(Step(Tick{}), IsEmpty());
  EXPECT_THAT(All<PhaseChanged>(Step(Beat(0, {Report(0)}))), IsEmpty());
  EXPECT_EQ(Status().failure, "worker 0 (worker-0): first");
  EXPECT_EQ(Status().record_count, 0u);
}

}  // namespace
}  // namespace longwave

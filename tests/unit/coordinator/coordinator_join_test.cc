// Members that join, are lost, leave and come back while the run is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorJoinTest : public CoordinatorTest {
 protected:
  // Lets every shard know the present epoch, at this newest open round.
  void ShardsAt(uint32_t newest_round) {
    for (const ShardStatus& shard : Status().shards) {
      Step(ShardAt(shard.shard.shard, newest_round, Status().epoch));
    }
  }
  WorkerPhase Phase(uint32_t worker) { return Status().members.at(worker).state.phase; }
  // Worker 0 comes back as process 5, from round 5 on: round 4 is worker 1's, which does not wait.
  void BeginWithOneThatComesBack() {
    Begin(Options(2, 1, 100));
    for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
    Step(Returning(0, 5));
    ShardsAt(4);
    Step(Ready(0, 5, 4, 2));
    ASSERT_EQ(FirstRound(0), 5u);
  }
};

// --- a new name ------------------------------------------------------------------------------

TEST_F(CoordinatorJoinTest, ANewNameJoinsTheRunWithoutAFirstRound) {
  Begin(Options(1, 1));
  const auto effects = Step(Worker(1));
  EXPECT_EQ(Only<WorkerRegistered>(effects).worker, 1u);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 1 (worker-1) joins; epoch 2 goes on with 1 worker and 1 that joins");
  EXPECT_EQ(FirstRound(1), kRoundNever);
  EXPECT_EQ(Phase(1), WorkerPhase::kJoining);

  WorkerHeartbeatReply reply = Only<WorkerHeartbeatReply>(Step(Beat(1)));
  EXPECT_FALSE(reply.membership);  // until the shards know it
  EXPECT_EQ(reply.phase, RunPhase::kWaiting);
  EXPECT_FALSE(reply.validates);
  ShardsAt(7);
  reply = Only<WorkerHeartbeatReply>(Step(Beat(1)));
  ASSERT_TRUE(reply.membership);
  EXPECT_THAT(reply.membership->members,
              ElementsAre(Member{0, "worker-0", 0}, Member{1, "worker-1", kRoundNever}));
  EXPECT_EQ(reply.shards.size(), 1u);
}

TEST_F(CoordinatorJoinTest, ANewNameIsRefusedWhereTheRunHasAllTheMembersThatItTakes) {
  CoordinatorOptions options = Options(2, 1);
  options.workers_max = 3;
  Begin(options);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(2))).worker, 2u);
  const uint32_t epoch = Status().epoch;
  EXPECT_EQ(Refusal(Step(Worker(3)), absl::StatusCode::kResourceExhausted),
            "worker worker-3 asks to join, but the run has 3 members, wanted fewer than 3 "
            "(cluster.workers_max)");
  EXPECT_EQ(Status().epoch, epoch);
  EXPECT_EQ(Status().members.size(), 3u);

  // Another process of a member, and one whose first answer was lost, have its place.
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(1, 901))).worker, 1u);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(2))).worker, 2u);

  // A lost worker frees a place, and may return to a full run.
  Pass(now_ + 60, {0, 2});
  EXPECT_EQ(Phase(1), WorkerPhase::kLost);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(3))).worker, 3u);
  Refusal(Step(Worker(4)), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(1, 902))).worker, 1u);
  EXPECT_EQ(Refusal(Step(Worker(4)), absl::StatusCode::kResourceExhausted),
            "worker worker-4 asks to join, but the run has 4 members, wanted fewer than 3 "
            "(cluster.workers_max)");
}

TEST_F(CoordinatorJoinTest, AJoinerBeginsAfterTheNewestRoundOfAnyShard) {
  Begin(Options(1, 2, 100));
  Step(Worker(1));
  Step(ShardAt(0, 7, 2));
  Step(ShardAt(1, 9, 2));
  Step(Beat(1, {}, 2));
  EXPECT_EQ(FirstRound(1), kRoundNever);  // not caught up yet
  const auto effects = Step(Ready(1, 101, 8, 2));
  EXPECT_EQ(FirstRound(1), 10u);
  EXPECT_THAT(Notices(effects), HasSubstr("takes part from round 10 on; epoch 3"));
  EXPECT_EQ(Status().epoch, 3u);
  Step(Ready(1, 101, 20, 2));
  EXPECT_EQ(FirstRound(1), 10u);  // once given it stays
  EXPECT_EQ(Status().epoch, 3u);
}

TEST_F(CoordinatorJoinTest, AFirstRoundIsInTheRunAfterWhatTheJoinerKnowsToBeOver) {
  const struct {
    uint32_t open_round, ready_round, known_epoch, first_round;
  } cases[] = {{7, 12, 2, 12},           // the shard's report is a moment old
               {9, 9, 2, 10},            // none after the last
               {7, 7, 1, kRoundNever}};  // stated for an earlier membership
  for (const auto& each : cases) {
    SCOPED_TRACE(each.ready_round);
    Begin(Options(1, 1, each.open_round == 9 ? 10 : 100));
    Step(Worker(1));
    ShardsAt(each.open_round);
    Step(Ready(1, 101, each.ready_round, each.known_epoch));
    EXPECT_EQ(FirstRound(1), each.first_round);
  }
}

TEST_F(CoordinatorJoinTest, NobodyWaitsForAJoiner) {
  Begin(Options(1, 1, 2));
  Step(Worker(1));
  EXPECT_EQ(All<RoundFinished>(Step(Beat(0, {Report(0)}))).size(), 1u);
  // A report without a first round has no effect.
  EXPECT_THAT(All<RoundFinished>(Step(Beat(1, {Report(1, {5, 5})}))), IsEmpty());
  EXPECT_EQ(Only<RoundFinished>(Step(Beat(0, {Report(1)}))).record.members, 1u);
  Seal({0});
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).phase, RunPhase::kFinished);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1))).instruction, Instruction::kStop);
}

TEST_F(CoordinatorJoinTest, AJoinerMustHaveTheRunsModelAndSettings) {
  Begin(Options(1, 1));
  RegisterWorker other = Worker(1);
  other.manifest = Model(5);
  Refusal(Step(other), absl::StatusCode::kInvalidArgument);
  other = Worker(1);
  other.settings = "run.steps: 1\n";
  Refusal(Step(other), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Status().epoch, 1u);
}

TEST_F(CoordinatorJoinTest, AJoinerThatFailsDoesNotEndTheRun) {
  Begin(Options(1, 1));
  Step(Worker(1));
  WorkerHeartbeat failing = Beat(1);
  failing.failure = "update local keeps no state to catch up with";
  const auto effects = Step(failing);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 1 (worker-1) could not join: update local keeps no state to catch up with; "
            "epoch 3 goes on with 1 worker");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Phase(1), WorkerPhase::kFailed);
  // A heartbeat does not make the worker a member again, but it may register.
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1))).reason,
            "worker 1 (worker-1) is no longer a member");
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(1, 5))).worker, 1u);
  EXPECT_EQ(Phase(1), WorkerPhase::kJoining);
}

// --- a name that comes back --------------------------------------------------------------------

TEST_F(CoordinatorJoinTest, TheSameFolderTakesItsPlaceAgainAtOnce) {
  Begin(Options(2, 1, 100));
  Step(Beat(0, {Report(0)}));
  Step(Beat(1, {Report(0)}));
  ShardsAt(1);
  const auto effects = Step(Returning(1, 5));
  EXPECT_EQ(Only<WorkerRegistered>(effects).worker, 1u);
  EXPECT_THAT(Notices(effects), HasSubstr("worker 1 (worker-1) joins again in another process"));
  EXPECT_EQ(FirstRound(1), kRoundNever);
  EXPECT_EQ(Status().epoch, 2u);
  // The earlier process is told to stop, by every call.
  EXPECT_THAT(Refusal(Step(Beat(1)), absl::StatusCode::kAborted),
              HasSubstr("another process has taken the place of worker 1 (worker-1)"));
  EXPECT_THAT(Refusal(Step(Worker(1)), absl::StatusCode::kAborted), HasSubstr("another process"));
  // The run does not wait for the worker until it has caught up.
  EXPECT_EQ(Only<RoundFinished>(Step(Beat(0, {Report(1)}))).record.members, 1u);
  ShardsAt(2);
  Step(Ready(1, 5, 2, 2));
  EXPECT_EQ(FirstRound(1), 3u);
  EXPECT_EQ(Step(Returning(1, 5)).size(), 1u);  // the first answer was lost: no change
  EXPECT_EQ(FirstRound(1), 3u);
}

// A coordinator that was stopped for a while hears both processes' messages in any order.
TEST_F(CoordinatorJoinTest, OfAFoldersProcessesTheLaterHasThePlaceWhicheverIsHeardFirst) {
  Begin(Options(2, 1, 100));
  RegisterWorker second = Returning(1, 5);
  second.process = 2;
  RegisterWorker third = Returning(1, 6);
  third.process = 3;
  Step(third);
  // A folder restored from a backup counts its processes, too, and the answer says what to do.
  EXPECT_THAT(
      Refusal(Step(second), absl::StatusCode::kAborted),
      AllOf(HasSubstr("process 2 of the folder asks for the place that process 3 has"),
            HasSubstr("restored from a backup, or copied, is to be set aside: start without "
                      "one")));
  // A coordinator made of the record knows the processes, too.
  coordinator_.emplace(Options(2, 1, 100), coordinator_->Export(absl::UnixEpoch()));
  Refusal(Step(second), absl::StatusCode::kAborted);
  WorkerHeartbeat heartbeat = Beat(1);
  heartbeat.incarnation = 6;
  Only<WorkerHeartbeatReply>(Step(heartbeat));
  Pass(31, {0});
  ASSERT_EQ(Phase(1), WorkerPhase::kLost);
  Refusal(Step(second), absl::StatusCode::kAborted);
  // Another folder's are counted from 1 again.
  RegisterWorker other = Returning(1, 7);
  other.identity = 999;
  other.process = 1;
  EXPECT_EQ(Only<WorkerRegistered>(Step(other)).worker, 1u);
}

// The rule holds however often the folder was opened: the residual's content has been sent since.
TEST_F(CoordinatorJoinTest, AFolderFromBeforeTheLastRoundThatItsNameReportedIsRefused) {
  Begin(Options(2, 1, 100));
  const auto of_round = [](uint32_t round, uint64_t process, uint64_t incarnation) {
    RegisterWorker request = Returning(1, incarnation);
    request.process = (uint64_t{round} + 1) << 32 | process;
    return request;
  };
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  Step(Beat(1, {Report(0), Report(1), Report(2)}));
  // The original of the copied folder lives, and goes on.
  EXPECT_EQ(Refusal(Step(of_round(1, 7, 5)), absl::StatusCode::kAborted),
            "worker 1 (worker-1): the residual in its folder accounts for 2 rounds, wanted the 3 "
            "that it has taken part in; a folder that was restored from a backup, or copied, is to "
            "be set aside: start without one");
  Step(Beat(1, {Report(3)}));
  // The process is dead, and its last checkpoint is of its last reported round, or of the next one.
  EXPECT_EQ(Only<WorkerRegistered>(Step(of_round(3, 2, 6))).worker, 1u);
  Refusal(Step(of_round(2, 9, 7)), absl::StatusCode::kAborted);
  EXPECT_EQ(Only<WorkerRegistered>(Step(of_round(4, 3, 8))).worker, 1u);
  // A coordinator that goes on from the record knows it, too.
  coordinator_.emplace(Options(2, 1, 100), coordinator_->Export(absl::UnixEpoch()));
  Refusal(Step(of_round(2, 10, 9)), absl::StatusCode::kAborted);
  // A folder from before the name's present one is refused likewise.
  RegisterWorker other = of_round(2, 1, 10);
  other.identity = 999;
  Pass(31, {0});
  Refusal(Step(other), absl::StatusCode::kAborted);
  // A folder without a residual contains nothing that was sent.
  other.process = 1;
  EXPECT_EQ(Only<WorkerRegistered>(Step(other)).worker, 1u);
}

// The worker has only caught up with the end, or ended, so its residual lost nothing in that round.
TEST_F(CoordinatorJoinTest, ARoundThatItHadNoPartInIsNotAskedOfItsFolder) {
  Begin(Options(2, 1, 10));
  Step(Beat(1, {Report(0), Report(10)}));
  RegisterWorker back = Returning(1, 5);
  back.process = uint64_t{1} << 32 | 2;
  EXPECT_EQ(Only<WorkerRegistered>(Step(back)).worker, 1u);
}

TEST_F(CoordinatorJoinTest, AnotherFolderTakesThePlaceOfALostOneOnly) {
  Begin(Options(2, 1));
  RegisterWorker other = Returning(1, 5);
  other.identity = 999;
  EXPECT_THAT(Refusal(Step(other), absl::StatusCode::kAlreadyExists),
              HasSubstr("worker name worker-1 is taken by a live member"));
  Pass(31, {0});
  ASSERT_EQ(Phase(1), WorkerPhase::kLost);
  EXPECT_EQ(Only<WorkerRegistered>(Step(other)).worker, 1u);
  EXPECT_EQ(Phase(1), WorkerPhase::kJoining);
  // From now on the place is this folder's.
  Refusal(Step(Returning(1, 6)), absl::StatusCode::kAlreadyExists);
}

TEST_F(CoordinatorJoinTest, WithoutAFolderTheProcessIsItsIdentity) {
  Begin(Options(1, 1));
  RegisterWorker first = Worker(1);
  first.identity = 0;
  Step(first);
  RegisterWorker second = first;
  second.incarnation = 5;
  Refusal(Step(second), absl::StatusCode::kAlreadyExists);
}

TEST_F(CoordinatorJoinTest, WorkOfAllItsProcessesIsSummed) {
  Begin(Options(1, 1, 100));
  Step(Beat(0, {Report(0)}));
  EXPECT_EQ(Status().records[0].tokens, 100u);
  Step(Returning(0, 5));
  ShardsAt(1);
  Step(Ready(0, 5, 1, 2));
  WorkerHeartbeat heartbeat = Beat(0, {Report(1)});
  heartbeat.incarnation = 5;
  heartbeat.rounds[0].tokens = 70;
  EXPECT_EQ(Only<RoundFinished>(Step(heartbeat)).record.tokens, 170u);
}

TEST_F(CoordinatorJoinTest, WhatAMemberHasDoneNeverFallsWhoeverGoesOnAsIt) {
  Begin(Options(1, 1, 100));
  // The sum that is shown after a process of the worker has said so much.
  const auto shown = [this](uint64_t incarnation, WorkerPhase phase, uint64_t tokens) {
    WorkerHeartbeat heartbeat = Beat(0);
    heartbeat.incarnation = incarnation;
    heartbeat.state.phase = phase;
    heartbeat.state.tokens = heartbeat.state.bytes.pushed = tokens;
    Step(heartbeat);
    const WorkerState state = Status().members.at(0).state;
    EXPECT_EQ(state.bytes.pushed, state.tokens);
    return state.tokens;
  };
  EXPECT_EQ(shown(100, WorkerPhase::kTraining, 130), 130u);
  // The next process reads its folder, where 100 are counted, and goes on from there.
  Step(Returning(0, 5));
  EXPECT_EQ(Status().members.at(0).state.tokens, 130u);
  EXPECT_EQ(shown(5, WorkerPhase::kStarting, 0), 130u);
  EXPECT_EQ(shown(5, WorkerPhase::kTraining, 100), 130u);
  EXPECT_EQ(shown(5, WorkerPhase::kTraining, 120), 150u);
  // The one after that has lost its folder.
  Step(Returning(0, 6));
  EXPECT_EQ(shown(6, WorkerPhase::kStarting, 0), 150u);
  EXPECT_EQ(shown(6, WorkerPhase::kTraining, 0), 150u);
  EXPECT_EQ(shown(6, WorkerPhase::kTraining, 30), 180u);
  coordinator_.emplace(Options(1, 1, 100), coordinator_->Export(absl::UnixEpoch()));
  EXPECT_EQ(shown(6, WorkerPhase::kTraining, 40), 190u);
  // A figure beyond all others is no reason to begin anew.
  EXPECT_EQ(shown(6, WorkerPhase::kTraining, ~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(shown(6, WorkerPhase::kTraining, 50), ~uint64_t{0});
}

TEST_F(CoordinatorJoinTest, TheRanksOfANodeAreThoseOfItsLastProcess) {
  Begin(Options(1, 1, 100));
  const auto shown = [this](uint64_t incarnation, uint32_t ranks) {
    WorkerHeartbeat heartbeat = Beat(0);
    heartbeat.incarnation = incarnation;
    heartbeat.state.ranks = ranks;
    Step(heartbeat);
    return Status().members.at(0).state.ranks;
  };
  EXPECT_EQ(Status().members.at(0).state.ranks, 1u);
  EXPECT_EQ(shown(100, 8), 8u);
  coordinator_.emplace(Options(1, 1, 100), coordinator_->Export(absl::UnixEpoch()));
  EXPECT_EQ(Status().members.at(0).state.ranks, 8u);
  Step(Returning(0, 5));
  EXPECT_EQ(shown(5, 4), 4u);
}

TEST_F(CoordinatorJoinTest, AFinalReportIsOfTheProcessThatSentIt) {
  Begin(Options(2, 1, 1));
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
  Step(SealBeat(0));
  Step(FinalBeat(0));
  Step(Returning(0, 5));
  // The writer has left, and the other worker has to write the weights.
  ShardsAt(1);
  Seal({1});
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
}

// --- lost, and heard again ---------------------------------------------------------------------

TEST_F(CoordinatorJoinTest, ALostMemberThatIsHeardAgainJoinsWithoutRegistering) {
  Begin(Options(2, 1, 100));
  ShardsAt(3);
  EXPECT_THAT(Notices(Pass(31, {0})),
              HasSubstr("worker 1 (worker-1) was not heard for 31.0 s, wanted a heartbeat within "
                        "30.0 s; epoch 2 goes on with 1 worker"));
  now_ = 40;
  const auto effects = Step(Beat(1, {Report(0)}));
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kContinue);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 1 (worker-1) is heard again after 40.0 s and joins again; epoch 3 goes on with "
            "1 worker and 1 that joins");
  EXPECT_EQ(Phase(1), WorkerPhase::kJoining);
  Step(Beat(0, {Report(0)}, 3));
  EXPECT_EQ(Status().records.at(0).members, 1u);  // the earlier report does not count
  ShardsAt(5);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 1))).membership->members[1].first_round,
            kRoundNever);
  Step(Ready(1, 101, 5, 3));
  EXPECT_EQ(FirstRound(1), 6u);
}

TEST_F(CoordinatorJoinTest, ALostMemberMayRegisterAgain) {
  Begin(Options(2, 1));
  Pass(31, {0});
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);
  EXPECT_EQ(Phase(1), WorkerPhase::kJoining);
}

// --- first rounds that change again ------------------------------------------------------------

TEST_F(CoordinatorJoinTest, WhenNobodyElsePushesItBeginsWithTheRoundThatItIsReadyFor) {
  Begin(Options(2, 1, 100));
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
  Step(Returning(0, 5));
  Step(Returning(1, 6));
  ShardsAt(1);
  Step(Ready(1, 6, 1, 3));
  EXPECT_EQ(FirstRound(1), 1u);
  ShardsAt(1);
  Step(Ready(0, 5, 1, 4));  // no report since, so both may begin with the open round
  EXPECT_EQ(FirstRound(0), 1u);
}

TEST_F(CoordinatorJoinTest, AFirstRoundComesDownWhenThoseWhoPushedBeforeAreGone) {
  BeginWithOneThatComesBack();
  ShardsAt(4);
  WorkerHeartbeat heartbeat = Ready(0, 5, 4, 3);
  Step(heartbeat);
  while (now_ < 31) {
    now_ += 1;
    Step(heartbeat);
    Step(ShardAt(0, 4, Status().epoch));
    Step(Tick{});
  }
  ASSERT_EQ(Phase(1), WorkerPhase::kLost);
  EXPECT_EQ(FirstRound(0), 4u);  // otherwise round 4 would never close
  heartbeat.known_epoch = 3;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(heartbeat)).membership, std::nullopt);
  ShardsAt(4);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(heartbeat)).membership->members[0].first_round, 4u);
}

TEST_F(CoordinatorJoinTest, AFirstRoundComesDownWhenTheOtherComesBackInAnotherProcess) {
  BeginWithOneThatComesBack();
  Step(Returning(1, 6));
  EXPECT_EQ(FirstRound(0), 4u);
}

TEST_F(CoordinatorJoinTest, OnceItHasReportedItsFirstRoundStays) {
  BeginWithOneThatComesBack();
  WorkerHeartbeat heartbeat = Beat(0, {Report(5)});
  heartbeat.incarnation = 5;
  Step(heartbeat);
  Step(Returning(1, 6));
  EXPECT_EQ(FirstRound(0), 5u);
}

// --- leaving -----------------------------------------------------------------------------------

TEST_F(CoordinatorJoinTest, WhoLeavesIsNotWaitedForAMomentLonger) {
  Begin(Options(2, 1, 100));
  Step(Beat(0, {Report(0)}));
  WorkerHeartbeat last = Beat(1);
  last.leaving = true;
  const auto effects = Step(last);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  // The round waited for worker 1 alone.
  EXPECT_EQ(Only<RoundFinished>(effects).record.members, 1u);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 1 (worker-1) leaves; epoch 2 goes on with 1 worker");
  EXPECT_EQ(Phase(1), WorkerPhase::kDone);
  last.leaving = false;  // a heartbeat that was long under way
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(last)).instruction, Instruction::kStop);
  EXPECT_EQ(Status().epoch, 2u);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(1, 5))).worker, 1u);
}

TEST_F(CoordinatorJoinTest, AReportThatComesWithTheLeaveCounts) {
  Begin(Options(2, 1, 100));
  Step(Beat(0, {Report(0)}));
  WorkerHeartbeat last = Beat(1, {Report(0)});
  last.leaving = true;
  EXPECT_EQ(Only<RoundFinished>(Step(last)).record.members, 2u);
}

TEST_F(CoordinatorJoinTest, WhoIsExpelledIsNoMemberAndNobodyWaitsForIt) {
  Begin(Options(2, 1, 100));
  Step(Beat(0, {Report(0)}));
  const auto effects = Step(WorkerExpelled{"worker-1"});
  EXPECT_EQ(Only<RoundFinished>(effects).record.members, 1u);
  EXPECT_EQ(Only<Notice>(effects).text,
            "worker 1 (worker-1) was expelled; epoch 2 goes on with 1 worker");
  EXPECT_TRUE(Step(WorkerExpelled{"worker-1"}).empty()) << "once";
  EXPECT_TRUE(Step(WorkerExpelled{"nobody"}).empty());
  EXPECT_EQ(coordinator_->NameOf(1), "worker-1");
  EXPECT_EQ(coordinator_->IndexOf("worker-1"), 1u);
  EXPECT_EQ(coordinator_->IndexOf("nobody"), std::nullopt);
}

TEST_F(CoordinatorJoinTest, AMembersKeyIsThatOfItsNewestProcess) {
  Begin(Options(1, 1, 100));
  ShardsKnow(1, 1);
  RegisterWorker returning = Returning(0, 5);
  returning.data_key = std::string(32, 'k');
  Step(returning);
  const auto reply = Only<ShardHeartbeatReply>(Step(ShardBeat(0, 1, true)));
  ASSERT_TRUE(reply.membership.has_value());
  EXPECT_EQ(reply.membership->members.at(0).data_key, std::string(32, 'k'));
}

// By its key a shard knows whose a connection is: who had another's would push it out.
TEST_F(CoordinatorJoinTest, AKeyIsOneMembersAloneAndShardsAloneSeeIt) {
  Begin(Options(1, 1, 100));
  ShardsKnow(1, 1);
  RegisterWorker owner = Returning(0, 5);
  owner.data_key = std::string(32, 'k');
  Step(owner);
  ShardsKnow(2, 1);
  RegisterWorker thief = Worker(1);
  thief.data_key = owner.data_key;
  const auto refused = Only<Refused>(Step(thief));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()), ::testing::HasSubstr("its data key is that"));
  Only<WorkerRegistered>(Step(owner));  // repeated
  // The key of an expelled worker is refused, too.
  Step(WorkerExpelled{"worker-0"});
  Only<Refused>(Step(thief));
  thief.data_key = std::string(32, 't');
  Only<WorkerRegistered>(Step(thief));
  ShardsKnow(Status().epoch, 1);
  const auto reply = Only<WorkerHeartbeatReply>(Step(Beat(1)));
  ASSERT_TRUE(reply.membership.has_value());
  for (const Member& member : reply.membership->members) EXPECT_EQ(member.data_key, "");
  for (const MemberStatus& status : Status().members) EXPECT_EQ(status.member.data_key, "");
}

// Others who come and go begin epochs faster than shards can confirm them.
TEST_F(CoordinatorJoinTest, WhoJoinsWaitsForItsOwnEpochAlone) {
  Begin(Options(1, 2));
  ShardsKnow(1, 2);
  Step(Worker(1));  // epoch 2
  Step(Worker(2));  // epoch 3
  Step(ShardBeat(0, 3, true));
  Step(ShardBeat(1, 1, true));
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1))).membership);
  Step(ShardBeat(1, 2, true));
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1))).membership->epoch, 3u);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(2))).membership);
  // The shards learn of a member's change first.
  Step(Ready(1, 101, 4, 3));
  ASSERT_EQ(FirstRound(1), 4u);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 3))).membership);
  ShardsKnow(4, 2);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 3))).membership->epoch, 4u);
}

}  // namespace
}  // namespace longwave

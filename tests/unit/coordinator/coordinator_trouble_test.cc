// The waits of a run: for shards that come back, for members, and the coordinator's own pauses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using CoordinatorTroubleTest = CoordinatorTest;

// --- shards that come back ---------------------------------------------------------------------

TEST_F(CoordinatorTroubleTest, AShardWithItsFolderTakesItsPlaceAgain) {
  Begin(Options(1, 2));
  ShardsKnow(1, 2);
  now_ = 2;
  const auto effects = Step(Back(1, 5, Run()));
  EXPECT_EQ(Only<ShardRegistration>(effects), (ShardRegistration{.run = Run(), .told_epoch = 1}));
  EXPECT_THAT(Notices(effects), HasSubstr("shard 1 is back at tcp://elsewhere:1 after 2.0 s; "
                                          "epoch 2 goes on with 1 worker"));
  EXPECT_THAT(Refusal(Step(ShardBeat(1, 1, true)), absl::StatusCode::kAborted),
              HasSubstr("another process has taken the place of shard 1"));
  EXPECT_THAT(Refusal(Step(Shard(1)), absl::StatusCode::kAborted), HasSubstr("another process"));
  // Workers hear of its endpoints once all shards know the epoch, itself included.
  Step(ShardBeat(0, 2, true));
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 1))).membership);
  ShardHeartbeat heartbeat = ShardBeat(1);
  heartbeat.incarnation = 5;
  const auto told = Only<ShardHeartbeatReply>(Step(heartbeat));
  EXPECT_EQ(told.membership->epoch, 2u);
  EXPECT_TRUE(told.manifest);
  heartbeat.known_epoch = 2;
  Step(heartbeat);
  const auto reply = Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 1)));
  ASSERT_TRUE(reply.membership);
  EXPECT_EQ(reply.shards.at(1).data_endpoint, "tcp://elsewhere:1");
}

TEST_F(CoordinatorTroubleTest, AShardWithoutItsFolderWaitsForTheOneBeforeToBeSilent) {
  Begin(Options(1, 1));
  Step(ShardAt(0, 3));
  now_ = 1.5;
  EXPECT_EQ(Refusal(Step(Back(0, 5, 0)), absl::StatusCode::kUnavailable),
            "shard 0, without the run's folder, asks for the place of one at tcp://host:0 that was "
            "heard 1.5 s ago; wanted it to be silent for 2.0 s");
  now_ = 2.5;
  const auto effects = Step(Back(0, 5, 0));
  EXPECT_EQ(Only<ShardRegistration>(effects),
            (ShardRegistration{.run = Run(), .restore = true, .told_epoch = 1}));
  EXPECT_THAT(Notices(effects), HasSubstr("without its folder: it restores its range"));
  // The answer was lost: the repeated one is equal.
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, 0))),
            (ShardRegistration{.run = Run(), .restore = true, .told_epoch = 1}));
  // The folder of before, on a machine that comes back late, takes nothing from a live one.
  now_ = 4;
  EXPECT_THAT(Refusal(Step(Back(0, 6, Run())), absl::StatusCode::kUnavailable),
              HasSubstr("shard 0, with the run's folder, asks for the place of one at "));
  // Once it has a folder again, a next process goes on from that.
  now_ = 5;
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 6, Run()))),
            (ShardRegistration{.run = Run(), .told_epoch = 1}));
}

// Rounds may have been closed since the last heartbeat, so the shard asks the members.
TEST_F(CoordinatorTroubleTest, AlsoBeforeAnyProgressIsKnownItIsToldToRestore) {
  Begin(Options(1, 1));
  now_ = 3;
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, 0))),
            (ShardRegistration{.run = Run(), .restore = true, .told_epoch = 1}));
}

TEST_F(CoordinatorTroubleTest, BeforeTrainingAnEmptyFolderHasNothingToRestore) {
  Make(Options(1, 2));
  Step(Shard(0));
  now_ = 3;
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, 0))), (ShardRegistration{.run = Run()}));
}

TEST_F(CoordinatorTroubleTest, AFolderWhoseRangeWasMadeAgainElsewhereIsRefused) {
  Make(Options(1, 1));
  RegisterShard first = Shard(0);
  first.folder = 0xa;
  Step(first);
  Step(Worker(0));
  // The machine is lost, and another one makes the range again.
  now_ = 3;
  RegisterShard second = Back(0, 5, 0);
  second.folder = 0xb;
  EXPECT_TRUE(Only<ShardRegistration>(Step(second)).restore);
  // The second shard is in a pause when the first one is there again.
  now_ = 6;
  RegisterShard late = Back(0, 6, Run());
  late.folder = 0xa;
  EXPECT_EQ(
      Refusal(Step(late), absl::StatusCode::kFailedPrecondition),
      "shard 0: its folder is 000000000000000a, but the range was made again elsewhere, in "
      "folder 000000000000000b; wanted that one, or an empty folder: remove this one to begin "
      "anew");
  late.folder = 0xb;
  EXPECT_FALSE(Only<ShardRegistration>(Step(late)).restore);
}

TEST_F(CoordinatorTroubleTest, AFolderOfAnotherRunIsRefused) {
  Begin(Options(1, 1));
  EXPECT_THAT(Refusal(Step(Back(0, 5, 0xabc)), absl::StatusCode::kFailedPrecondition),
              HasSubstr("shard 0: its folder is of run 0000000000000abc, wanted this one, "));
  Make(Options(1, 1));
  Refusal(Step(Back(0, 5, 0xabc)), absl::StatusCode::kFailedPrecondition);
}

// --- shards without heartbeats ------------------------------------------------------------------

TEST_F(CoordinatorTroubleTest, ARunWaitsForASilentShardThatComesBackInTime) {
  Begin(Options(1, 2));
  while (now_ < 31) {
    now_ += 1;
    Step(Beat(0));
    Step(ShardBeat(0));
    const std::string notices = Notices(Step(Tick{}));
    if (now_ == 31) {
      EXPECT_THAT(notices,
                  HasSubstr("shard 1 was not heard for 31.0 s, wanted a heartbeat within 30.0 s; "
                            "the run waits for it for 300.0 s"));
    } else {
      EXPECT_EQ(notices, "");
    }
  }
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().trouble, "shard 1 is silent: waiting for it to come back");
  EXPECT_TRUE(Status().shards[1].silent);
  now_ = 32;
  EXPECT_THAT(Step(Tick{}), IsEmpty());  // said once
  now_ = 33;
  EXPECT_EQ(Notices(Step(ShardBeat(1))), "shard 1 is heard again after 33.0 s\n");
  EXPECT_EQ(Status().trouble, "");
}

TEST_F(CoordinatorTroubleTest, AShardThatTakesNoPushesIsTroubleAndNoFailure) {
  Begin(Options(1, 1));
  ShardHeartbeat heartbeat = ShardBeat(0, 1, true);
  heartbeat.trouble = "the disk is full";
  EXPECT_EQ(Notices(Step(heartbeat)), "shard 0: the disk is full\n");
  EXPECT_EQ(Notices(Step(heartbeat)), "");
  EXPECT_EQ(Status().trouble, "shard 0: the disk is full");
  EXPECT_EQ(Status().shards[0].trouble, "the disk is full");
  heartbeat.trouble = "";
  EXPECT_EQ(Notices(Step(heartbeat)), "shard 0: takes pushes again\n");
  EXPECT_EQ(Status().trouble, "");
}

TEST_F(CoordinatorTroubleTest, WhomAShardComplainsOfIsToldAndNotWaitedFor) {
  Begin(Options(1, 1));
  ShardHeartbeat heartbeat = ShardBeat(0, 1, true);
  heartbeat.complaint = "rejected push of worker 0";
  EXPECT_EQ(Notices(Step(heartbeat)), "shard 0: rejected push of worker 0\n");
  heartbeat.complaint = "rejected push of worker 1";
  EXPECT_EQ(Notices(Step(heartbeat)), "");  // no line for each of many
  EXPECT_EQ(Status().trouble, "");
  EXPECT_EQ(Status().shards[0].complaint, "rejected push of worker 1");
  heartbeat.complaint = "";
  EXPECT_EQ(Notices(Step(heartbeat)), "");
  EXPECT_EQ(Status().shards[0].complaint, "");
}

// The shard's process ends, and one that works may follow, for example on a larger machine.
TEST_F(CoordinatorTroubleTest, AShardThatFailsIsWaitedForAsOneThatIsSilent) {
  Begin(Options(1, 1));
  ShardHeartbeat heartbeat = ShardBeat(0, 1, true);
  heartbeat.failure = "no memory";
  const auto effects = Step(heartbeat);
  EXPECT_EQ(Notices(effects), "shard 0: no memory\n");
  EXPECT_EQ(Only<ShardHeartbeatReply>(effects).instruction, Instruction::kContinue);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().trouble, "shard 0: no memory");
  Pass(31, {0}, /*shards=*/false);
  EXPECT_EQ(Status().trouble,
            "shard 0 is silent (it had said: no memory): waiting for it to come back");
  Step(Back(0, 5, Run()));
  EXPECT_EQ(Status().trouble, "");
  heartbeat.incarnation = 5;
  Step(heartbeat);
  EXPECT_EQ(Only<PhaseChanged>(Pass(400, {0}, /*shards=*/false)).reason,
            "shard 0 was not heard for 331.0 s, wanted a heartbeat within 30.0 s (it had said: no "
            "memory)");
}

// A run that has finished a round has something to lose.
TEST_F(CoordinatorTroubleTest, AfterItsFirstRoundTheRunWaitsWithoutEnd) {
  Begin(Options(2, 1, 100));
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
  ASSERT_EQ(Status().record_count, 1u);
  const std::string notices = Notices(Pass(100'000, {}, /*shards=*/false));
  EXPECT_THAT(notices, HasSubstr("wanted a heartbeat within 30.0 s; the run waits for it\n"));
  EXPECT_THAT(notices, HasSubstr("no worker is left; the run waits for one\n"));
  EXPECT_EQ(Status().trouble,
            "shard 0 is silent: waiting for it to come back; "
            "no worker is left: waiting for one to come back");
  Step(Back(0, 5, Run()));
  Step(Returning(1, 5));
  EXPECT_EQ(Status().trouble, "");
}

TEST_F(CoordinatorTroubleTest, ABoundOfItsAbsenceIsTheConfigurations) {
  for (const bool is_shard : {false, true}) {
    CoordinatorOptions options = Options(2, 1, 100);
    options.away_timeout = absl::Seconds(1000);
    now_ = 0;
    Begin(options);
    for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}));
    const auto pass = [&](double until) {
      return is_shard ? Pass(until, {0, 1}, /*shards=*/false) : Pass(until, {});
    };
    EXPECT_THAT(Notices(pass(1000)), HasSubstr(" for 1000.0 s"));
    ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
    EXPECT_EQ(Only<PhaseChanged>(pass(1040)).phase, RunPhase::kFailed);
  }
}

TEST_F(CoordinatorTroubleTest, AFailedRunGoesOnIfItIsToldTo) {
  Begin(Options(1, 1, 100));
  Step(Beat(0, {Report(0)}));
  WorkerHeartbeat failed = Beat(0);
  failed.failure = "no memory";
  Step(failed);
  ASSERT_EQ(coordinator_->phase(), RunPhase::kFailed);
  const CoordinatorRecord record = coordinator_->Export(absl::UnixEpoch() + absl::Seconds(now_));
  coordinator_.emplace(Options(1, 1, 100), record);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kFailed);
  CoordinatorOptions options = Options(1, 1, 100);
  options.continues_failed = true;
  coordinator_.emplace(options, record);
  EXPECT_TRUE(coordinator_->Unsaved(absl::UnixEpoch()).has_value());
  Step(Tick{});
  now_ += 3;
  Step(Back(0, 5, Run()));
  Step(Returning(0, 7));
  EXPECT_EQ(Status().trouble, "");
  EXPECT_EQ(Status().failure, "");
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().record_count, 1u);
}

// --- folders from an older time ------------------------------------------------------------------

TEST_F(CoordinatorTroubleTest, ARegistrationIsToldWhatTheFolderMustHave) {
  Begin(Options(1, 1));
  ShardHeartbeat heartbeat = ShardAt(0, 2, 0);
  heartbeat.state.log_records = 70;
  Step(heartbeat);                  // the answer has epoch 1
  heartbeat.state.log_records = 0;  // of a process that has not opened its folder yet
  Step(heartbeat);
  Step(Beat(0, {Report(0), Report(1)}));
  now_ = 3;
  const ShardRegistration wanted{
      .run = Run(), .restore = false, .rounds = 2, .log_records = 70, .told_epoch = 1};
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, Run()))), wanted);
  EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, Run()))), wanted);  // the answer was lost
  // Without its folder it begins another log.
  now_ = 6;
  const auto anew = Only<ShardRegistration>(Step(Back(0, 6, 0)));
  EXPECT_EQ(anew.log_records, 0u);
  EXPECT_EQ(anew.rounds, 2u);
  EXPECT_TRUE(anew.restore);
}

// --- no members ---------------------------------------------------------------------------------

TEST_F(CoordinatorTroubleTest, ARunWithoutMembersWaitsForOneToComeBack) {
  Begin(Options(2, 1));
  EXPECT_THAT(Notices(Pass(32, {})), HasSubstr("no worker is left; the run waits for one for 300"));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Status().trouble, "no worker is left: waiting for one to come back");
  Pass(200, {});
  Step(Returning(1, 5));
  EXPECT_EQ(Status().trouble, "");
  Pass(229, {});
  Step(ShardAt(0, 4, Status().epoch));
  Step(Ready(1, 5, 4, Status().epoch));
  EXPECT_EQ(FirstRound(1), 4u);
}

TEST_F(CoordinatorTroubleTest, ARunFailsWhenNobodyComesBackInTime) {
  Begin(Options(2, 1));
  const PhaseChanged change = Only<PhaseChanged>(Pass(333, {}));
  EXPECT_EQ(change.phase, RunPhase::kFailed);
  EXPECT_THAT(change.reason, HasSubstr("no worker is left: worker 1 (worker-1) was not heard for"));
}

TEST_F(CoordinatorTroubleTest, WhatWasReportedByThoseWhoAreGoneFinishesWithWhoComesBack) {
  Begin(Options(2, 1, 100));
  Step(Beat(0, {Report(0)}));  // worker 1 has not reported it yet
  Pass(32, {});
  EXPECT_EQ(Status().record_count, 0u);
  Step(Returning(1, 5));
  Step(ShardAt(0, 1, Status().epoch));
  EXPECT_EQ(Only<RoundFinished>(Step(Ready(1, 5, 1, Status().epoch))).record.members, 1u);
}

// --- its own pause -----------------------------------------------------------------------------

TEST_F(CoordinatorTroubleTest, ItsOwnPauseIsNotTheOthersSilence) {
  Begin(Options(2, 1));
  Pass(5, {0, 1});
  now_ = 100;  // the coordinator was frozen, and hears no worker before this
  EXPECT_THAT(Step(Tick{}), IsEmpty());
  EXPECT_EQ(Status().epoch, 1u);
  Pass(131, {0});
  // The timeout counts on from there.
  EXPECT_EQ(Status().members[1].state.phase, WorkerPhase::kLost);
}

TEST_F(CoordinatorTroubleTest, ItsOwnPauseIsNotTheWaitForTheFirstWorkers) {
  Make(Options(2, 1));
  Step(Worker(0));
  Pass(5, {0});
  now_ = 1000;
  EXPECT_THAT(Step(Tick{}), IsEmpty());
  EXPECT_THAT(Pass(1290, {0}), IsEmpty());
  EXPECT_EQ(Only<PhaseChanged>(Pass(1300, {0})).phase, RunPhase::kFailed) << "after 300 s awake";
}

}  // namespace
}  // namespace longwave

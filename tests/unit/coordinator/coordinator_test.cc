#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- waiting ---------------------------------------------------------------------------------

TEST_F(CoordinatorTest, BeginsWhenAllWorkersAndShardsAreRegistered) {
  Make(Options(2, 2));
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(0))).worker, 0u);
  const uint64_t run = Only<ShardRegistration>(Step(Shard(1))).run;
  EXPECT_NE(run, 0u);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kWaiting);
  EXPECT_EQ(Status().epoch, 0u);
  const auto effects = Step(Shard(0));
  EXPECT_EQ(Only<ShardRegistration>(effects).run, run);
  EXPECT_EQ(Only<PhaseChanged>(effects).phase, RunPhase::kTraining);
  const RunStatus status = Status();
  EXPECT_EQ(status.phase, RunPhase::kTraining);
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.members.size(), 2u);
  EXPECT_EQ(status.shards.size(), 2u);
  EXPECT_EQ(status.parameters, 40u);
}

TEST_F(CoordinatorTest, ARepeatedRegistrationGetsItsAnswerAgain) {
  Make(Options(2, 1));
  Step(Worker(0));
  const auto effects = Step(Worker(0));
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(Only<WorkerRegistered>(effects).worker, 0u);
  const uint64_t run = Only<ShardRegistration>(Step(Shard(0))).run;
  EXPECT_EQ(Only<ShardRegistration>(Step(Shard(0))).run, run);
  Step(Worker(1));
  ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);  // the first answer was lost
  EXPECT_EQ(Only<ShardRegistration>(Step(Shard(0))).run, run);
  EXPECT_EQ(Status().epoch, 1u);
}

TEST_F(CoordinatorTest, RefusesASecondWorkerOfTheSameName) {
  Make(Options(2, 1));
  Step(Worker(0));
  now_ = 0.3;
  RegisterWorker twin = Worker(0);
  twin.incarnation = 5;
  twin.identity = 0;
  EXPECT_EQ(Refusal(Step(twin), absl::StatusCode::kAlreadyExists),
            "worker name worker-0 is taken by a live member that was heard 0.3 s ago; wanted "
            "another name");
}

TEST_F(CoordinatorTest, ASecondShardOfAnIndexWaitsForTheFirstToBeSilent) {
  Make(Options(1, 2));
  Step(Shard(1));
  now_ = 1.5;
  RegisterShard twin = Shard(1);
  twin.incarnation = 5;
  EXPECT_EQ(Refusal(Step(twin), absl::StatusCode::kUnavailable),
            "shard 1, without the run's folder, asks for the place of one at tcp://host:1 that was "
            "heard 1.5 s ago; wanted it to be silent for 2.0 s");
  EXPECT_EQ(Refusal(Step(Shard(2)), absl::StatusCode::kInvalidArgument),
            "shard 2, wanted an index below 2");
  // The first was killed before the run began.
  now_ = 2;
  EXPECT_FALSE(Only<ShardRegistration>(Step(twin)).restore);
  EXPECT_THAT(Refusal(Step(Shard(1)), absl::StatusCode::kAborted), HasSubstr("another process"));
  Step(Shard(0));
  Step(Worker(0));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
}

TEST_F(CoordinatorTest, RefusesAManifestThatDiffersNamingTheDifference) {
  Make(Options(2, 1));
  Step(Worker(0));
  RegisterWorker other = Worker(1);
  other.manifest = Model(5);
  const std::string reason = Refusal(Step(other), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reason, "model of worker worker-1 differs: " + FirstDifference(Model(5), Model(4)));
  EXPECT_THAT(reason, HasSubstr("w"));
  other.manifest = {};
  Refusal(Step(other), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, RefusesAWorkerThatLacksWhatAllHaveAlike) {
  Make(Options(3, 1));
  Step(Shard(0));
  RegisterWorker one = Worker(0), other = Worker(1);
  one.alike = {{"frozen parameters", 0xabc, "64 of float32"}, {"tokenizer", 7, ""}};
  other.alike = {{"tokenizer", 7, ""}, {"frozen parameters", 0xdef, "64 of bfloat16"}};
  Step(one);
  EXPECT_EQ(Refusal(Step(other), absl::StatusCode::kInvalidArgument),
            "worker worker-1: frozen parameters: got 64 of bfloat16 (hash 0000000000000def), "
            "wanted what worker-0 has, 64 of float32 (hash 0000000000000abc): no sync makes them "
            "equal");
  Step(Worker(2));  // a worker of C++, or whose model is divided, says nothing
  other.alike[1].hash = 0xabc;
  Step(other);
  ASSERT_EQ(Status().members.size(), 3u);
  EXPECT_EQ(Status().members[2].alike, other.alike);
}

// The process before may have been the wrong one.
TEST_F(CoordinatorTest, AProcessThatReturnsIsComparedWithTheOtherWorkers) {
  Make(Options(2, 1));
  Step(Shard(0));
  RegisterWorker one = Worker(0), again = Returning(0, 900), other = Worker(1);
  one.alike = other.alike = {{"tokenizer", 5, "49,152 entries"}};
  again.alike = {{"tokenizer", 6, "32,000 entries"}};
  Step(one);
  Step(again);
  EXPECT_THAT(Refusal(Step(other), absl::StatusCode::kInvalidArgument),
              HasSubstr("tokenizer: got 49,152 entries (hash 0000000000000005), wanted what "
                        "worker-0 has, 32,000 entries"));
}

TEST_F(CoordinatorTest, RefusesSettingsThatDifferNamingTheFirst) {
  Make(Options(2, 2));
  RegisterWorker worker = Worker(1);
  worker.settings = "run.steps: 600\nsync.rho: 0.5\n";
  EXPECT_EQ(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
            "worker worker-1: sync.rho: got 0.5, wanted 0.25 as the coordinator has it: all "
            "processes of a run need one configuration");
  RegisterShard shard = Shard(1);
  shard.settings = "run.steps: 60\nsync.rho: 0.5\n";
  EXPECT_EQ(Refusal(Step(shard), absl::StatusCode::kInvalidArgument),
            "shard 1: run.steps: got 60, wanted 600 as the coordinator has it: all processes of a "
            "run need one configuration");
}

// In some a worker may have less than the run; a shard bounds workers by its own.
TEST_F(CoordinatorTest, TakesLessOfAWorkerInTheSettingsThatLimit) {
  CoordinatorOptions options = Options(2, 1);
  options.settings_at_most = {"run.steps"};
  Make(options);
  RegisterWorker worker = Worker(0);
  for (const char* refused : {"601", "-1", "1.5", "", "18446744073709552216", "600x"}) {
    worker.settings = absl::StrCat("run.steps: ", refused, "\nsync.rho: 0.25\n");
    EXPECT_EQ(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
              absl::StrCat("worker worker-0: run.steps: got ", refused,
                           ", wanted at most 600 as the coordinator has it: by it the shards bound "
                           "what a contribution may weigh"));
  }
  worker.settings = "run.steps: 599\nsync.rho: 0.5\n";
  EXPECT_THAT(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
              HasSubstr("sync.rho: got 0.5, wanted 0.25"));
  worker.settings = "sync.rho: 0.25\nrun.steps: 599\n";
  EXPECT_THAT(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
              HasSubstr("lists its settings in another order"));
  worker.settings = "run.steps: 599\nsync.rho: 0.25\n";
  EXPECT_EQ(Only<WorkerRegistered>(Step(worker)).worker, 0u);
  RegisterShard shard = Shard(0);
  shard.settings = worker.settings;
  EXPECT_EQ(Refusal(Step(shard), absl::StatusCode::kInvalidArgument),
            "shard 0: run.steps: got 599, wanted 600 as the coordinator has it: all processes of a "
            "run need one configuration");
}

TEST_F(CoordinatorTest, RefusesSettingsThatLackOneOrHaveOneMore) {
  Make(Options(2, 1));
  RegisterWorker worker = Worker(1);
  for (const char* text : {"", "run.steps: 600\n", "run.steps: 600\nsync.rho", "\n\n: "}) {
    worker.settings = text;
    EXPECT_THAT(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
                HasSubstr("as the coordinator has it"))
        << text;
  }
  worker.settings = std::string(kSettings) + "sync.new: 1\n";
  EXPECT_THAT(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
              HasSubstr("sync.new: got 1, wanted nothing as the coordinator has it"));
  worker.settings = std::string(kSettings) + kSettings;
  Refusal(Step(worker), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, RefusesALayoutThatIsCutAnotherWay) {
  Make(Options(2, 1));
  Step(Worker(0));
  RegisterWorker other = Worker(1);
  other.layout_hash = 78;
  EXPECT_THAT(Refusal(Step(other), absl::StatusCode::kInvalidArgument),
              HasSubstr("layout hash 000000000000004e, wanted 000000000000004d"));
}

TEST_F(CoordinatorTest, RefusesNamesThatAreEmptyOrTooLong) {
  Make(Options(2, 1));
  RegisterWorker worker = Worker(0);
  worker.name = "";
  EXPECT_EQ(Refusal(Step(worker), absl::StatusCode::kInvalidArgument),
            "worker name of 0 bytes, wanted 1 to 128");
  worker.name = std::string(129, 'x');
  Refusal(Step(worker), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, AsksMoreWorkersThanItBeginsWithToComeBackLater) {
  Make(Options(1, 1));
  Step(Worker(0));
  EXPECT_EQ(Refusal(Step(Worker(1)), absl::StatusCode::kUnavailable),
            "worker worker-1 asks to join, but all 1 workers that the run begins with are "
            "registered; it may join once training has begun");
  Step(Shard(0));
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);
}

TEST_F(CoordinatorTest, AWorkerThatComesBackBeforeTheStartTakesItsPlaceAgain) {
  Make(Options(2, 1));
  Step(Worker(0));
  EXPECT_EQ(Only<WorkerRegistered>(Step(Returning(0, 5))).worker, 0u);
  EXPECT_EQ(
      Refusal(Step(Beat(0)), absl::StatusCode::kAborted),
      "another process has taken the place of worker 0 (worker-0), which this process had: it "
      "has to end");
  Step(Worker(1));
  Step(Shard(0));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(FirstRound(0), 0u);
}

TEST_F(CoordinatorTest, AWorkerThatLeavesBeforeTheStartGivesItsPlaceUp) {
  Make(Options(1, 1));
  Step(Worker(0));
  WorkerHeartbeat heartbeat = Beat(0);
  heartbeat.leaving = true;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(heartbeat)).instruction, Instruction::kStop);
  RegisterWorker other = Worker(1);
  other.manifest = Model(5);
  EXPECT_EQ(Only<WorkerRegistered>(Step(other)).worker, 0u);
}

TEST_F(CoordinatorTest, ASilentWorkerGivesItsPlaceUpBeforeTheStart) {
  Make(Options(2, 1));
  Step(Worker(0));
  Step(Worker(1));
  now_ = 20;
  Step(Beat(1));
  now_ = 31;
  EXPECT_EQ(Only<Notice>(Step(Tick{})).text,
            "worker 0 (worker-0) was not heard for 31.0 s and gives its place up");
  RegisterWorker again = Worker(0);
  again.incarnation = 5;
  EXPECT_EQ(Only<WorkerRegistered>(Step(again)).worker, 0u);
}

TEST_F(CoordinatorTest, ASilentShardGivesItsPlaceUpBeforeTheStart) {
  Make(Options(1, 2));
  Step(Shard(1));
  now_ = 31;
  EXPECT_THAT(Only<Notice>(Step(Tick{})).text, HasSubstr("shard 1 was not heard for 31.0 s"));
  RegisterShard again = Shard(1);
  again.incarnation = 5;
  EXPECT_EQ(All<ShardRegistration>(Step(again)).size(), 1u);
}

TEST_F(CoordinatorTest, FailsWhenTheStartTakesTooLong) {
  Make(Options(3, 2));
  for (now_ = 0; now_ < 300; now_ += 10) {
    Step(Worker(0));
    Step(Worker(1));
    Step(Shard(0));
    EXPECT_THAT(All<PhaseChanged>(Step(Tick{})), IsEmpty());
  }
  EXPECT_EQ(Status().trouble,
            "2 of 3 workers (worker-0, worker-1) and 1 of 2 shards are registered");
  now_ = 300.5;
  const PhaseChanged change = Only<PhaseChanged>(Step(Tick{}));
  EXPECT_EQ(change.phase, RunPhase::kFailed);
  EXPECT_EQ(change.reason,
            "the run did not start within 300.0 s: 2 of 3 workers (worker-0, worker-1) and 1 of 2 "
            "shards are registered");
  EXPECT_EQ(Status().failure, change.reason);
}

TEST_F(CoordinatorTest, RefusesRoundsBeforeTheRunBegins) {
  Make(Options(2, 1));
  Step(Worker(0));
  EXPECT_THAT(Refusal(Step(Beat(0, {Report(0)})), absl::StatusCode::kInvalidArgument),
              HasSubstr("the run has not begun"));
  EXPECT_THAT(Refusal(Step(FinalBeat(0)), absl::StatusCode::kInvalidArgument),
              HasSubstr("the run has not begun"));
}

TEST_F(CoordinatorTest, WhoFailsBeforeTheStartGivesItsPlaceUp) {
  Make(Options(2, 1));
  Step(Worker(0));
  WorkerHeartbeat heartbeat = Beat(0);
  heartbeat.failure = "no data at /nowhere";
  heartbeat.final = FinalReport{};
  const auto effects = Step(heartbeat);
  EXPECT_EQ(Notices(effects), "worker 0 (worker-0): no data at /nowhere; it gives its place up\n");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  EXPECT_EQ(Status().trouble,
            "0 of 2 workers and 0 of 1 shards are registered; worker 0 (worker-0): no data at "
            "/nowhere");
  Step(Shard(0));
  for (const uint32_t worker : {1, 2}) Step(Worker(worker));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
}

// --- heartbeats ------------------------------------------------------------------------------

TEST_F(CoordinatorTest, RefusesHeartbeatsOfStrangers) {
  Begin(Options(1, 1));
  EXPECT_EQ(Refusal(Step(Beat(3)), absl::StatusCode::kNotFound),
            "heartbeat of worker 3: wanted one of the 1 registered workers");
  EXPECT_EQ(Refusal(Step(ShardBeat(4)), absl::StatusCode::kNotFound),
            "heartbeat of shard 4: wanted one of the 1 registered shards");
  WorkerHeartbeat worker = Beat(0);
  worker.incarnation = 9;
  EXPECT_THAT(Refusal(Step(worker), absl::StatusCode::kAborted),
              HasSubstr("incarnation 0000000000000009, wanted 0000000000000064"));
  ShardHeartbeat shard = ShardBeat(0);
  shard.incarnation = 9;
  EXPECT_THAT(Refusal(Step(shard), absl::StatusCode::kAborted), HasSubstr("shard 0"));
}

TEST_F(CoordinatorTest, ShowsAnEpochToShardsBeforeWorkers) {
  Begin(Options(2, 2));
  auto reply = Only<WorkerHeartbeatReply>(Step(Beat(0)));
  EXPECT_FALSE(reply.membership);
  EXPECT_EQ(reply.phase, RunPhase::kWaiting);
  const auto shard = Only<ShardHeartbeatReply>(Step(ShardBeat(0)));
  ASSERT_TRUE(shard.membership);
  EXPECT_EQ(shard.membership->epoch, 1u);
  EXPECT_EQ(shard.manifest, Model());
  Step(ShardBeat(0, 1, true));
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(0))).membership);  // shard 1 knows nothing yet
  const auto known = Only<ShardHeartbeatReply>(Step(ShardBeat(1, 1, true)));
  EXPECT_FALSE(known.membership);
  EXPECT_FALSE(known.manifest);
  reply = Only<WorkerHeartbeatReply>(Step(Beat(0)));
  EXPECT_EQ(reply.phase, RunPhase::kTraining);
  ASSERT_TRUE(reply.membership);
  EXPECT_THAT(reply.membership->members,
              ElementsAre(Member{0, "worker-0", 0}, Member{1, "worker-1", 0}));
  ASSERT_EQ(reply.shards.size(), 2u);
  EXPECT_EQ(reply.shards[1].data_endpoint, "tcp://host:1");
  EXPECT_NE(reply.run, 0u);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 1))).membership);  // known already
}

TEST_F(CoordinatorTest, SaysNothingOfManifestOrMembersWhileWaiting) {
  Make(Options(2, 1));
  Step(Shard(0));
  Step(Worker(0));
  const auto reply = Only<ShardHeartbeatReply>(Step(ShardBeat(0)));
  EXPECT_EQ(reply.instruction, Instruction::kContinue);
  EXPECT_FALSE(reply.membership);
  EXPECT_FALSE(reply.manifest);
}

TEST_F(CoordinatorTest, TheLiveMemberOfLowestIndexValidates) {
  Begin(Options(2, 1));
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(0))).validates);
  EXPECT_FALSE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  Pass(31, {1});
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
  Step(Beat(0));  // heard again: without a first round it has no duties
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
}

}  // namespace
}  // namespace longwave

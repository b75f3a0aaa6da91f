#include "server/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kLayoutHash = 77;

Manifest Model(int64_t width = 4) { return {{{"w", {8, width}}, {"b", {8}}}}; }

// A coordinator whose time is `now_`, in seconds since the first event. Workers are named
// worker-<i>, with incarnation 100 + i; shards have incarnation 200 + i.
class CoordinatorTest : public testing::Test {
 protected:
  void Make(const CoordinatorOptions& options) { coordinator_.emplace(options); }

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event) {
    return coordinator_->Step(event, absl::UnixEpoch() + absl::Seconds(now_), rng_);
  }
  RunStatus Status(uint64_t from = 0) {
    return coordinator_->Status(from, absl::UnixEpoch() + absl::Seconds(now_));
  }

  static RegisterWorker Worker(uint32_t i) {
    return {"worker-" + std::to_string(i), Model(), kLayoutHash, 100 + i};
  }
  static RegisterShard Shard(uint32_t i) {
    return {i, "tcp://host:" + std::to_string(i), "host:" + std::to_string(i), 200 + i};
  }
  static WorkerHeartbeat Beat(uint32_t worker, std::vector<RoundReport> rounds = {},
                              uint32_t known_epoch = 0) {
    WorkerHeartbeat heartbeat;
    heartbeat.worker = worker;
    heartbeat.incarnation = 100 + worker;
    heartbeat.state.phase = WorkerPhase::kTraining;
    heartbeat.rounds = std::move(rounds);
    heartbeat.known_epoch = known_epoch;
    return heartbeat;
  }
  static WorkerHeartbeat FinalBeat(uint32_t worker) {
    WorkerHeartbeat heartbeat = Beat(worker);
    heartbeat.final = FinalReport{};
    return heartbeat;
  }
  static ShardHeartbeat ShardBeat(uint32_t shard, uint32_t known_epoch = 0,
                                  bool knows_manifest = false) {
    return {shard, 200 + shard, known_epoch, knows_manifest, {}, ""};
  }
  static RoundReport Report(uint32_t round, std::vector<uint64_t> hashes = {1, 2}) {
    RoundReport report;
    report.round = round;
    report.step = (round + 1) * 10;
    report.train_loss = 2;
    report.segment_hashes = std::move(hashes);
    report.tokens = (round + 1) * 100;
    return report;
  }

  // Registers everyone.
  void Begin(CoordinatorOptions options = {}) {
    Make(options);
    for (uint32_t i = 0; i < options.shards_wanted; ++i) Step(Shard(i));
    for (uint32_t i = 0; i < options.workers_wanted; ++i) Step(Worker(i));
    ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  }
  void ShardsKnow(uint32_t epoch, uint32_t shards = 1) {
    for (uint32_t i = 0; i < shards; ++i) Step(ShardBeat(i, epoch, true));
  }

  template <typename T>
  static std::vector<T> All(const std::vector<CoordinatorEffect>& effects) {
    std::vector<T> found;
    for (const auto& effect : effects) {
      if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
    }
    return found;
  }
  template <typename T>
  static T Only(const std::vector<CoordinatorEffect>& effects) {
    const std::vector<T> all = All<T>(effects);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? T{} : all.front();
  }
  // The refusal must be the only effect.
  static std::string Refusal(const std::vector<CoordinatorEffect>& effects, absl::StatusCode code) {
    EXPECT_EQ(effects.size(), 1u);
    const auto refused = All<Refused>(effects);
    if (refused.empty()) {
      ADD_FAILURE() << "wanted a refusal";
      return "";
    }
    EXPECT_EQ(refused[0].status.code(), code) << refused[0].status;
    return std::string(refused[0].status.message());
  }

  std::optional<Coordinator> coordinator_;
  Rng rng_{1};
  double now_ = 0;
};

CoordinatorOptions Options(uint32_t workers, uint32_t shards, uint64_t rounds = 10) {
  CoordinatorOptions options;
  options.workers_wanted = workers;
  options.shards_wanted = shards;
  options.rounds = rounds;
  return options;
}

// --- waiting ---------------------------------------------------------------------------------

TEST_F(CoordinatorTest, BeginsWhenAllWorkersAndShardsAreRegistered) {
  Make(Options(2, 2));
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(0))).worker, 0u);
  const uint64_t run = Only<ShardRegistered>(Step(Shard(1))).run;
  EXPECT_NE(run, 0u);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);
  EXPECT_EQ(coordinator_->phase(), RunPhase::kWaiting);
  EXPECT_EQ(Status().epoch, 0u);
  const auto effects = Step(Shard(0));
  EXPECT_EQ(Only<ShardRegistered>(effects).run, run);
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
  const uint64_t run = Only<ShardRegistered>(Step(Shard(0))).run;
  EXPECT_EQ(Only<ShardRegistered>(Step(Shard(0))).run, run);
  Step(Worker(1));
  ASSERT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(Only<WorkerRegistered>(Step(Worker(1))).worker, 1u);  // its first answer was lost
  EXPECT_EQ(Only<ShardRegistered>(Step(Shard(0))).run, run);
  EXPECT_EQ(Status().epoch, 1u);
}

TEST_F(CoordinatorTest, RefusesASecondWorkerOfTheSameName) {
  Make(Options(2, 1));
  Step(Worker(0));
  now_ = 0.3;
  RegisterWorker twin = Worker(0);
  twin.incarnation = 5;
  EXPECT_EQ(Refusal(Step(twin), absl::StatusCode::kAlreadyExists),
            "worker name worker-0 is taken by a live member that was heard 0.3 s ago; wanted "
            "another name");
}

TEST_F(CoordinatorTest, RefusesASecondShardOfTheSameIndex) {
  Make(Options(1, 2));
  Step(Shard(1));
  now_ = 2;
  RegisterShard twin = Shard(1);
  twin.incarnation = 5;
  EXPECT_EQ(
      Refusal(Step(twin), absl::StatusCode::kAlreadyExists),
      "shard 1 is taken by a live one at tcp://host:1 that was heard 2.0 s ago; wanted another "
      "index");
  EXPECT_EQ(Refusal(Step(Shard(2)), absl::StatusCode::kInvalidArgument),
            "shard 2, wanted an index below 2");
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

TEST_F(CoordinatorTest, RefusesMoreWorkersThanWanted) {
  Make(Options(1, 1));
  Step(Worker(0));
  EXPECT_EQ(Refusal(Step(Worker(1)), absl::StatusCode::kFailedPrecondition),
            "worker worker-1 asks to join, but all 1 wanted workers are registered");
  Step(Shard(0));
  EXPECT_EQ(
      Refusal(Step(Worker(1)), absl::StatusCode::kFailedPrecondition),
      "worker worker-1 asks to join, but all 1 wanted workers are registered and training has "
      "begun");
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
  EXPECT_EQ(All<ShardRegistered>(Step(again)).size(), 1u);
}

TEST_F(CoordinatorTest, TheNextWorkerBringsItsModelWhenAllHaveGone) {
  Make(Options(2, 1));
  Step(Worker(0));
  now_ = 31;
  Step(Tick{});
  RegisterWorker other = Worker(1);
  other.manifest = Model(5);
  EXPECT_EQ(All<WorkerRegistered>(Step(other)).size(), 1u);
  EXPECT_EQ(Status().parameters, 48u);
}

TEST_F(CoordinatorTest, FailsWhenTheStartTakesTooLong) {
  Make(Options(3, 2));
  for (now_ = 0; now_ < 300; now_ += 20) {
    Step(Worker(0));
    Step(Worker(1));
    Step(Shard(0));
    EXPECT_THAT(All<PhaseChanged>(Step(Tick{})), IsEmpty());
  }
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

TEST_F(CoordinatorTest, AFailureBeforeTheStartFailsTheRun) {
  Make(Options(2, 1));
  Step(Worker(0));
  WorkerHeartbeat heartbeat = Beat(0);
  heartbeat.failure = "no data at /nowhere";
  EXPECT_EQ(Only<PhaseChanged>(Step(heartbeat)).reason, "worker 0 (worker-0): no data at /nowhere");
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
  now_ = 20;
  Step(Beat(1));
  Step(ShardBeat(0));
  now_ = 31;
  Step(Tick{});
  EXPECT_TRUE(Only<WorkerHeartbeatReply>(Step(Beat(1))).validates);
}

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
            "2 goes on with 1 workers");
  EXPECT_EQ(Only<RoundFinished>(effects).record.members, 1u);  // it waited for worker 0 alone
  const RunStatus status = Status();
  EXPECT_EQ(status.epoch, 2u);
  EXPECT_EQ(status.members[0].state.phase, WorkerPhase::kLost);
  EXPECT_EQ(status.members[0].heartbeat_age_s, 30.5);

  const auto lost = Only<WorkerHeartbeatReply>(Step(Beat(0)));
  EXPECT_EQ(lost.instruction, Instruction::kStop);
  EXPECT_THAT(lost.reason, HasSubstr("worker 0 (worker-0) was silent for too long"));
  EXPECT_EQ(Status().members[0].state.phase, WorkerPhase::kLost);
  EXPECT_THAT(Refusal(Step(Worker(0)), absl::StatusCode::kFailedPrecondition),
              HasSubstr("was lost and the run goes on without it"));

  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0, 1, true))).membership->epoch, 2u);
  auto reply = Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 1)));
  EXPECT_FALSE(reply.membership);  // until the shard knows epoch 2
  EXPECT_EQ(reply.phase, RunPhase::kTraining);
  Step(ShardBeat(0, 2, true));
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(1, {}, 1))).membership->epoch, 2u);
}

TEST_F(CoordinatorTest, FailsWhenNobodyIsLeft) {
  Begin(Options(2, 1));
  now_ = 20;
  Step(ShardBeat(0));
  now_ = 31;
  const auto effects = Step(Tick{});
  EXPECT_EQ(All<Notice>(effects).size(), 2u);
  EXPECT_EQ(Only<PhaseChanged>(effects).phase, RunPhase::kFailed);
  EXPECT_THAT(Status().failure, HasSubstr("no worker is left: worker 1 (worker-1) was not heard"));
}

TEST_F(CoordinatorTest, FailsWhenAShardIsSilent) {
  Begin(Options(1, 2));
  now_ = 20;
  Step(Beat(0));
  Step(ShardBeat(0));
  now_ = 31;
  EXPECT_EQ(Only<PhaseChanged>(Step(Tick{})).reason,
            "shard 1 was not heard for 31.0 s, wanted a heartbeat within 30.0 s");
  EXPECT_EQ(coordinator_->phase(), RunPhase::kFailed);
}

TEST_F(CoordinatorTest, FailsWithTheSentenceOfWhoeverFails) {
  Begin(Options(3, 1));
  WorkerHeartbeat heartbeat = Beat(2);
  heartbeat.failure = "the loss at step 3 is nan";
  const auto effects = Step(heartbeat);
  EXPECT_EQ(Only<PhaseChanged>(effects).reason, "worker 2 (worker-2): the loss at step 3 is nan");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(effects).instruction, Instruction::kStop);
  EXPECT_EQ(Status().members[2].state.phase, WorkerPhase::kFailed);

  Begin(Options(1, 2));
  ShardHeartbeat shard = ShardBeat(1);
  shard.failure = "disk full";
  EXPECT_EQ(Only<PhaseChanged>(Step(shard)).reason, "shard 1: disk full");
}

TEST_F(CoordinatorTest, FailsOnLossesThatAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Begin(Options(2, 1));
  RoundReport report = Report(0);
  report.train_loss = nan;
  EXPECT_EQ(Only<PhaseChanged>(Step(Beat(1, {report}))).reason,
            "worker 1 (worker-1): the training loss at step 10 is nan, wanted a finite number");

  Begin(Options(2, 1));
  report = Report(0);
  report.validation_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Only<PhaseChanged>(Step(Beat(1, {report}))).reason,
            "worker 1 (worker-1): the validation loss at step 10 is inf, wanted a finite number");

  Begin(Options(2, 1));
  WorkerHeartbeat last = FinalBeat(0);
  last.state.step = 600;
  last.final->validation_loss = nan;
  EXPECT_EQ(Only<PhaseChanged>(Step(last)).reason,
            "worker 0 (worker-0): the final validation loss at step 600 is nan, wanted a finite "
            "number");
}

// --- rounds ----------------------------------------------------------------------------------

TEST_F(CoordinatorTest, FinishesARoundWhenEveryMemberHasReportedIt) {
  Begin(Options(2, 1));
  EXPECT_THAT(All<RoundFinished>(Step(Beat(0, {Report(0)}))), IsEmpty());
  const auto effects = Step(Beat(1, {Report(0)}));
  EXPECT_EQ(Only<RoundFinished>(effects).record.round, 0u);
  EXPECT_EQ(Status().record_count, 1u);
}

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
  EXPECT_EQ(Refusal(Step(Beat(0, {Report(0), Report(2)})), absl::StatusCode::kInvalidArgument),
            "worker 0 (worker-0) reported round 2, wanted round 1 next");
  EXPECT_EQ(Status().record_count, 0u);
  Step(Beat(0, {Report(0), Report(1), Report(2)}));
  EXPECT_EQ(Status().record_count, 3u);
  EXPECT_EQ(Refusal(Step(Beat(0, {Report(3)})), absl::StatusCode::kInvalidArgument),
            "worker 0 (worker-0) reported round 3, wanted a round below 3");
}

TEST_F(CoordinatorTest, AnInequalityIsNoticedOnceAndShownInTheStatus) {
  Begin(Options(3, 1));
  Step(Beat(0, {Report(0), Report(1)}));
  Step(Beat(1, {Report(0, {1, 3}), Report(1)}));
  const auto effects = Step(Beat(2, {Report(0), Report(1, {9, 9})}));
  const std::string sentence =
      "round 0: worker 1 (worker-1) has hash 0000000000000003 in segment 1, wanted "
      "0000000000000002 as 2 of 3 members have";
  EXPECT_EQ(Only<Notice>(effects).text, "replicas differ: " + sentence);
  EXPECT_FALSE(Status().replicas_equal);
  EXPECT_EQ(Status().inequality, sentence);
}

TEST_F(CoordinatorTest, ReplicasThatMayDifferDoSoWithoutANotice) {
  CoordinatorOptions options = Options(2, 1);
  options.promises_equal_replicas = false;
  Begin(options);
  Step(Beat(0, {Report(0)}));
  const auto effects = Step(Beat(1, {Report(0, {5, 5})}));
  EXPECT_THAT(All<Notice>(effects), IsEmpty());
  EXPECT_FALSE(Only<RoundFinished>(effects).record.replicas_equal);
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

TEST_F(CoordinatorTest, FinishesWhenEveryMemberHasSentItsFinalReport) {
  Begin(Options(2, 1, 1));
  now_ = 4;
  RoundReport report = Report(0);
  report.validation_loss = 3.5;
  Step(Beat(1, {Report(0)}));
  Step(Beat(0, {report}));
  EXPECT_EQ(Status().validation_loss, 3.5);
  now_ = 5;
  WorkerHeartbeat last = FinalBeat(0);
  last.final->validation_loss = 2.5;
  last.final->model_file = "runs/a/model.safetensors";
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(last)).instruction, Instruction::kContinue);
  now_ = 6;
  const auto effects = Step(FinalBeat(1));
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

TEST_F(CoordinatorTest, AWorkerThatIsDoneMayBeSilent) {
  Begin(Options(2, 1, 1));
  Step(Beat(0, {Report(0)}));
  Step(FinalBeat(0));
  now_ = 31;
  Step(Beat(1, {Report(0)}));
  Step(ShardBeat(0));
  EXPECT_THAT(Step(Tick{}), IsEmpty());
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(1))).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorTest, FinishesWithoutTheOnesThatWereLost) {
  Begin(Options(2, 1, 1));
  Step(Beat(1, {Report(0)}));
  Step(FinalBeat(1));
  now_ = 20;
  Step(ShardBeat(0));
  now_ = 31;
  EXPECT_EQ(Only<PhaseChanged>(Step(Tick{})).phase, RunPhase::kFinished);
}

TEST_F(CoordinatorTest, FailsWhenWorkersAreDoneBeforeTheRoundsAre) {
  Begin(Options(1, 1, 3));
  Step(Beat(0, {Report(0)}));
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).reason,
            "every worker sent its final report after 1 finished rounds, wanted 3");
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
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0))).reason, "Ctrl-C");
  // Even somebody unknown is told.
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(9))).instruction, Instruction::kStop);
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

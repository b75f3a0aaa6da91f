// sync.inner_steps auto: the coordinator decides the inner steps of rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorIntervalTest : public CoordinatorTest {
 protected:
  static CoordinatorOptions Fitting(uint32_t workers, uint64_t steps = 1000) {
    CoordinatorOptions options = Options(workers, 1, (steps + 1) / 2);
    options.interval = IntervalOptions{
        .steps = steps, .least = 2, .most = 100, .target_share = 0.03, .quorum = 0.5};
    return options;
  }
  // Both members report the round, whose syncs took this share of the time, and the shard opens the
  // next one.
  std::vector<CoordinatorEffect> Round(uint32_t round, double seconds_syncing) {
    seconds_computing_ += 1;
    seconds_syncing_ += seconds_syncing;
    std::vector<CoordinatorEffect> effects = Step(ShardAt(0, round + 1));
    for (const uint32_t worker : {0, 1}) {
      RoundReport report = Report(round);
      report.seconds_computing = seconds_computing_;
      report.seconds_syncing = seconds_syncing_;
      for (CoordinatorEffect& effect : Step(Beat(worker, {report}, 1)))
        effects.push_back(std::move(effect));
    }
    return effects;
  }
  std::optional<Intervals> Told(uint32_t worker, uint32_t known_rounds = 0,
                                uint64_t known_steps = 0) {
    WorkerHeartbeat heartbeat = Beat(worker, {}, 1);
    heartbeat.known_rounds = known_rounds;
    heartbeat.known_steps = known_steps;
    return Only<WorkerHeartbeatReply>(Step(heartbeat)).intervals;
  }
  void BeginFitting(uint64_t steps = 1000) {
    Begin(Fitting(2, steps), 0);
    ShardsKnow(1);
  }
  double seconds_computing_ = 0;
  double seconds_syncing_ = 0;
};

TEST_F(CoordinatorIntervalTest, TheFirstRoundsAreDecidedAsTrainingBegins) {
  BeginFitting();
  const Intervals told = Told(0).value();
  EXPECT_EQ(told.decided_rounds, 3u);
  EXPECT_EQ(told.changes, (std::vector<RoundInterval>{{0, 14}}));
  // An answer has only the rounds that the worker does not know.
  EXPECT_EQ(Told(0, 3, 42), std::nullopt);
  EXPECT_EQ(Told(1), told);
}

TEST_F(CoordinatorIntervalTest, ARoundThatIsNotDecidedCannotBeReported) {
  BeginFitting();
  EXPECT_EQ(Refusal(Step(Beat(0, {Report(0), Report(1), Report(2), Report(3)}, 1)),
                    absl::StatusCode::kInvalidArgument),
            "heartbeat of worker 0: it reports round 3, wanted one of the 3 that are decided");
}

TEST_F(CoordinatorIntervalTest, AFixedIntervalIsNobodysBusiness) {
  Begin(Options(2, 1));
  EXPECT_EQ(Told(0), std::nullopt);
  EXPECT_FALSE(Status().interval.has_value());
  EXPECT_THAT(coordinator_->Export(absl::UnixEpoch()).intervals.changes, IsEmpty());
}

TEST_F(CoordinatorIntervalTest, AChangeIsOfUndecidedRoundsAndHasAReason) {
  BeginFitting(100'000);
  std::string notices;
  uint32_t decided = 3;
  for (uint32_t round = 0; round < 12; ++round) {
    const Intervals before = Told(0).value();
    notices += Notices(Round(round, 1));
    const Intervals now = Told(0).value();
    // Decided rounds keep their steps.
    RoundPlan plan(100'000);
    ASSERT_TRUE(plan.Extend(before).ok());
    ASSERT_TRUE(plan.Extend(now).ok());
    EXPECT_GE(now.decided_rounds, round + 3);  // the open round, and one more
    EXPECT_GE(now.decided_rounds, decided);
    decided = now.decided_rounds;
  }
  EXPECT_THAT(notices, HasSubstr("inner steps of a round: 28 from round 6 on, 14 before: a sync "
                                 "costs 1 s and a step takes 0.0714 s"));
  const RunStatus status = Status();
  ASSERT_TRUE(status.interval.has_value());
  EXPECT_EQ(status.interval->inner_steps, 100u);
  EXPECT_EQ(status.interval->changes, 3u);
  EXPECT_THAT(status.interval->reason, HasSubstr("wanted at most 3.0 %"));
  EXPECT_GT(status.interval->rounds, 1000u);
  EXPECT_TRUE(status.interval->lost_share.has_value());
}

TEST_F(CoordinatorIntervalTest, TheDecisionIsInTheRecordBeforeItIsTold) {
  BeginFitting(100'000);
  coordinator_->Saved();
  Intervals saved = coordinator_->Export(absl::UnixEpoch()).intervals;
  for (uint32_t round = 0; round < 12; ++round) {
    Round(round, 1);
    const auto changes = coordinator_->Unsaved(absl::UnixEpoch());
    ASSERT_TRUE(changes.has_value());
    if (changes->intervals.has_value()) saved = *changes->intervals;
    EXPECT_EQ(Told(0).value(), saved);
    coordinator_->Saved();
    EXPECT_FALSE(coordinator_->Unsaved(absl::UnixEpoch()).has_value());
  }
  // Another coordinator tells the same.
  const CoordinatorOptions options = Fitting(2, 100'000);
  const CoordinatorRecord record = coordinator_->Export(absl::UnixEpoch());
  ASSERT_TRUE(Coordinator::CheckRecord(options, record).ok());
  coordinator_.emplace(options, record);
  EXPECT_EQ(Told(0).value(), saved);
  EXPECT_EQ(Told(1).value(), saved);
}

TEST_F(CoordinatorIntervalTest, TheRunEndsWithItsLastStep) {
  BeginFitting(60);  // rounds of 14: the fifth has four steps
  for (uint32_t round = 0; round < 5; ++round) Round(round, 0.4);
  RoundPlan plan(60);
  ASSERT_TRUE(plan.Extend(Told(0).value()).ok());
  const auto rounds = static_cast<uint32_t>(plan.round_count());
  ASSERT_LE(rounds, 5u);
  EXPECT_EQ(plan.FirstStep(rounds), 60u);
  rounds_ = rounds;
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 1))).sealing_round, rounds);
  Seal({0, 1});
  EXPECT_EQ(Only<PhaseChanged>(Step(FinalBeat(0))).reason,
            "all " + std::to_string(rounds) + " rounds are done");
}

TEST_F(CoordinatorIntervalTest, NoSealingRoundIsAskedForBeforeTheEndIsDecided) {
  BeginFitting(100'000);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 1))).sealing_round, 0u);
}

TEST_F(CoordinatorIntervalTest, AWorkerThatKnowsOtherRoundsIsRefused) {
  BeginFitting();
  WorkerHeartbeat heartbeat = Beat(0, {}, 1);
  heartbeat.known_rounds = 4;
  EXPECT_EQ(Refusal(Step(heartbeat), absl::StatusCode::kUnavailable),
            "heartbeat of worker 0: it knows the inner steps of 4 rounds, wanted at most the 3 "
            "that are decided");
  heartbeat.known_rounds = 3;
  heartbeat.known_steps = 40;
  EXPECT_THAT(Refusal(Step(heartbeat), absl::StatusCode::kAborted),
              HasSubstr("the 3 rounds that it knows have 40 inner steps, wanted 42"));
}

TEST_F(CoordinatorIntervalTest, ARecordThatLacksDecidedRoundsIsRefused) {
  BeginFitting(100'000);
  const CoordinatorOptions options = Fitting(2, 100'000);
  CoordinatorRecord record = coordinator_->Export(absl::UnixEpoch());
  coordinator_.emplace(options, record);
  const auto refused = All<Refused>(Step(ShardAt(0, 4)));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0].status.message(),
              HasSubstr("shard 0 has opened round 4, and the inner steps of the rounds before 3 "
                        "alone are decided"));
  // A worker that knows more shows it, too.
  coordinator_.emplace(options, record);
  WorkerHeartbeat heartbeat = Beat(0, {}, 1);
  heartbeat.known_rounds = 4;
  ASSERT_EQ(All<Refused>(Step(heartbeat)).size(), 1u);
  EXPECT_THAT(Status().trouble, HasSubstr("it knows the inner steps of 4 rounds"));
  record.intervals.changes[0].inner_steps = 0;
  EXPECT_THAT(Coordinator::CheckRecord(options, record).message(), HasSubstr("0 inner steps"));
}

// Rounds that were decided after the record was copied are lost.
TEST_F(CoordinatorIntervalTest, ARecordThatAnOperatorTakesAsTheNewestDecidesAnew) {
  BeginFitting(100'000);
  CoordinatorOptions options = Fitting(2, 100'000);
  WorkerHeartbeat heartbeat = Beat(0, {}, 1);
  heartbeat.known_rounds = 9;
  heartbeat.known_steps = 9 * 28;
  for (const bool takes_as_newest : {true, false}) {  // and after a further start
    options.takes_as_newest = takes_as_newest;
    coordinator_.emplace(options, coordinator_->Export(absl::UnixEpoch()));
    EXPECT_THAT(Refusal(Step(heartbeat), absl::StatusCode::kAborted),
                HasSubstr("it knows the inner steps of 9 rounds, wanted at most the 3 that are "
                          "decided; it is to join again"));
    EXPECT_EQ(Status().trouble, "");
  }
  // Rounds that the shards have closed since are decided by now.
  Step(ShardAt(0, 7));
  RoundPlan plan(100'000);
  heartbeat.known_rounds = heartbeat.known_steps = 0;
  ASSERT_TRUE(plan.Extend(Only<WorkerHeartbeatReply>(Step(heartbeat)).intervals.value()).ok());
  EXPECT_GT(plan.decided_rounds(), 7u);
}

TEST_F(CoordinatorIntervalTest, AWorkerThatComesBackAloneHearsOfItsNextRound) {
  // Nobody is active while the shards are ahead of what was decided for.
  Begin(Fitting(1, 100'000), 0);
  ShardsKnow(1);
  Step(Returning(0, 7));
  Step(ShardAt(0, 3, 1));
  WorkerHeartbeat heartbeat = Beat(0, {}, 1);
  heartbeat.incarnation = 7;
  const auto reply = Only<WorkerHeartbeatReply>(Step(heartbeat));
  ASSERT_TRUE(reply.intervals.has_value());
  EXPECT_GT(reply.intervals->decided_rounds, 3u);
}

}  // namespace
}  // namespace longwave

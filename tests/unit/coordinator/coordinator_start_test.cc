// The weights that a run begins with, and workers with others.

#include <gmock/gmock.h>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinatorStartTest : public CoordinatorTest {
 protected:
  static RegisterWorker With(uint32_t i, std::vector<uint64_t> start_hashes) {
    RegisterWorker request = Worker(i);
    request.start_hashes = std::move(start_hashes);
    return request;
  }
  static CoordinatorOptions OfMember(uint32_t workers) {
    CoordinatorOptions options = Options(workers, 1);
    options.takes_other_starts = true;
    return options;
  }
  CoordinatorRecord Record() {
    return coordinator_->Export(absl::UnixEpoch() + absl::Seconds(now_));
  }
  bool IsOther(uint32_t worker) { return Status().members.at(worker).member.other_start; }
};

TEST_F(CoordinatorStartTest, ASeedsRunRefusesOtherFirstWeightsNamingTheSegment) {
  Make(Options(2, 1));
  Step(With(0, {51, 52}));
  EXPECT_EQ(Refusal(Step(With(1, {51, 0xabc})), absl::StatusCode::kInvalidArgument),
            "worker worker-1 begins with other weights than the run: segment 1: got hash "
            "0000000000000abc, wanted 0000000000000034; the same version of longwave draws the "
            "same weights from one run.seed. With run.start: member the worker would join all the "
            "same and fetch the run's weights");
  EXPECT_EQ(Only<WorkerRegistered>(Step(With(1, {51, 52}))).worker, 1u);
}

TEST_F(CoordinatorStartTest, HashesAreOneASegment) {
  Make(OfMember(2));
  EXPECT_EQ(Refusal(Step(With(0, {51})), absl::StatusCode::kInvalidArgument),
            "worker worker-0: got 1 hashes of first weights, wanted 2, one a segment");
  Step(With(0, {51, 52}));
  Refusal(Step(With(1, {51, 52, 53})), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorStartTest, AMembersRunBeginsWithoutThoseThatFetchItsStart) {
  Make(OfMember(2));
  Step(Shard(0));
  Step(With(0, {51, 52}));
  Step(With(1, {51, 53}));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_EQ(FirstRound(0), 0u);
  EXPECT_EQ(FirstRound(1), kRoundNever);
  EXPECT_FALSE(IsOther(0));
  EXPECT_TRUE(IsOther(1));
  const auto told = Only<ShardHeartbeatReply>(Step(ShardBeat(0)));
  ASSERT_TRUE(told.membership);
  EXPECT_TRUE(told.membership->members[1].other_start);
  // The joiner takes part once it has caught up, by an epoch that it knows.
  Step(Ready(1, 101, 0, 0));
  EXPECT_EQ(FirstRound(1), kRoundNever);
  Step(Ready(1, 101, 0, 1));
  EXPECT_EQ(FirstRound(1), 1u);
}

TEST_F(CoordinatorStartTest, AWorkerWithoutFirstWeightsIsNobodysStart) {
  Make(Options(2, 1));
  Step(Shard(0));
  Step(With(0, {}));
  Step(With(1, {51, 53}));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kTraining);
  EXPECT_TRUE(IsOther(0));
  EXPECT_FALSE(IsOther(1));
  EXPECT_THAT(Record().start_hashes, ElementsAre(51, 53));
}

TEST_F(CoordinatorStartTest, ARunThatLackedOnlyAStartBeginsWhenAProcessBringsIt) {
  Make(OfMember(1));
  Step(Shard(0));
  Step(With(0, {}));
  EXPECT_EQ(coordinator_->phase(), RunPhase::kWaiting);
  RegisterWorker next = With(0, {51, 53});
  next.incarnation = 7;
  EXPECT_EQ(Only<PhaseChanged>(Step(next)).phase, RunPhase::kTraining);
}

TEST_F(CoordinatorStartTest, WithTheLastThatBringsTheStartTheOthersRegisterAgain) {
  Make(OfMember(3));
  Step(With(0, {51, 52}));
  Step(With(1, {51, 53}));
  WorkerHeartbeat leaving = Beat(0);
  leaving.leaving = true;
  EXPECT_THAT(Notices(Step(leaving)), HasSubstr("the others register again"));
  Refusal(Step(Beat(1)), absl::StatusCode::kNotFound);
  EXPECT_THAT(Record().start_hashes, IsEmpty());
  Step(With(1, {51, 53}));
  EXPECT_FALSE(IsOther(0));
  EXPECT_THAT(Record().start_hashes, ElementsAre(51, 53));
}

TEST_F(CoordinatorStartTest, AnotherThatBringsTheStartKeepsIt) {
  Make(OfMember(3));
  Step(With(0, {51, 52}));
  Step(With(1, {51, 52}));
  now_ = 20;
  Step(Beat(1));
  now_ = 31;
  Step(Tick{});  // the first one exceeds the heartbeat timeout
  Step(With(2, {51, 53}));
  EXPECT_TRUE(IsOther(0));
  EXPECT_THAT(Record().start_hashes, ElementsAre(51, 52));
}

TEST_F(CoordinatorStartTest, ANewProcessIsHeldAgainstTheStart) {
  Make(OfMember(1));
  Step(Shard(0));
  Step(Worker(0));
  Step(ShardAt(0, 0));
  RegisterWorker back = Returning(0, 7);
  back.start_hashes = {1, 2};
  Step(back);
  EXPECT_TRUE(IsOther(0));
  back = Returning(0, 8);
  Step(back);
  EXPECT_FALSE(IsOther(0));
}

TEST_F(CoordinatorStartTest, SnapshotsOfRoundZeroAreJudgedByTheStart) {
  Make(OfMember(1));
  Step(Shard(0));
  Step(Worker(0));
  ShardHeartbeat heartbeat = ShardBeat(0);
  heartbeat.snapshots = {{0, 0, 51}, {1, 0, 51}};
  const auto reply = Only<ShardHeartbeatReply>(Step(heartbeat));
  EXPECT_THAT(reply.hash_checks, ElementsAre(HashCheck{0, 0, true}, HashCheck{1, 0, false}));
}

TEST_F(CoordinatorStartTest, ANextProcessOfTheCoordinatorKnowsTheStart) {
  Make(Options(1, 1));
  Step(Shard(0));
  Step(Worker(0));
  CoordinatorRecord record;
  Apply(*coordinator_->Unsaved(absl::UnixEpoch()), &record);
  EXPECT_EQ(record, Record());
  ASSERT_TRUE(Coordinator::CheckRecord(Options(1, 1), record).ok());
  coordinator_.emplace(Options(1, 1), record);
  Refusal(Step(With(1, {51, 53})), absl::StatusCode::kInvalidArgument);
  record.start_hashes.push_back(1);
  EXPECT_EQ(Coordinator::CheckRecord(Options(1, 1), record).message(),
            "the coordinator's record: 3 hashes of the first weights, wanted 2");
}

}  // namespace
}  // namespace longwave

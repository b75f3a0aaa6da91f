// A record from an older time, and the traces of a newer one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/coordinator_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class OlderRecordTest : public CoordinatorTest {
 protected:
  // A run of two shards in epoch 2, and the record of its epoch 1.
  void SetUp() override {
    Make(Options(1, 2));
    waiting_ = coordinator_->Export(absl::UnixEpoch());
    Step(Shard(0));
    waiting_ = coordinator_->Export(absl::UnixEpoch());
    Step(Shard(1));
    Step(Worker(0));
    for (const uint32_t shard : {0, 1}) Step(ShardBeat(shard, 0, true));
    first_ = coordinator_->Export(absl::UnixEpoch());
    Step(Worker(1));
    for (const uint32_t shard : {0, 1}) Step(ShardBeat(shard, 1, true));
    second_ = coordinator_->Export(absl::UnixEpoch());
  }
  void GoOnFrom(const CoordinatorRecord& record) {
    coordinator_.emplace(Options(1, 2), record);
    coordinator_->Saved();
  }
  void ExpectRefused(const CoordinatorEvent& event) {
    EXPECT_THAT(Refusal(Step(event), absl::StatusCode::kUnavailable),
                HasSubstr("the coordinator's folder is from an older time"));
  }
  // Shards are told to merge nothing, and to do nothing else.
  void ExpectHeldBack(uint32_t shard, uint32_t known_epoch) {
    auto reply = Only<ShardHeartbeatReply>(Step(ShardBeat(shard, known_epoch, true)));
    EXPECT_THAT(reply.reason, HasSubstr("the coordinator's folder is from an older time"));
    reply.reason.clear();
    EXPECT_EQ(reply, ShardHeartbeatReply());
  }
  // Every event is refused without effect, also by a coordinator made of the record.
  void ExpectAllRefused() {
    for (const uint32_t i : {0, 1}) {
      ExpectHeldBack(i, 2);
      ExpectRefused(Back(i, 5, Run()));
      ExpectRefused(Beat(0, {}, i));
      ExpectRefused(Worker(i));
    }
    EXPECT_THAT(Step(Tick{}), IsEmpty());
    EXPECT_THAT(Step(StopRequested{"enough"}), IsEmpty());
    EXPECT_THAT(Status().trouble, HasSubstr("the coordinator's folder is from an older time"));
    coordinator_->Saved();
    Step(ShardBeat(0, 2, true));
    EXPECT_FALSE(coordinator_->Unsaved(absl::UnixEpoch()));
    GoOnFrom(coordinator_->Export(absl::UnixEpoch()));
    ExpectHeldBack(0, 0);
  }

  CoordinatorRecord waiting_, first_, second_;
};

TEST_F(OlderRecordTest, AShardThatKnowsALaterEpochShowsIt) {
  GoOnFrom(first_);
  const auto effects = Step(ShardBeat(0, 2, true));
  EXPECT_EQ(Only<Refused>(effects).status.message(),
            "the coordinator's folder is from an older time: shard 0 knows a later epoch "
            "than 1, the last that this coordinator has told it; nobody is answered until the "
            "coordinator is started again with its newest folder, or with --take-as-newest");
  EXPECT_THAT(Notices(effects), HasSubstr("shard 0 knows a later epoch than 1"));
  ExpectAllRefused();
}

// By then this coordinator may have begun an epoch of that number itself.
TEST_F(OlderRecordTest, AnEpochOfTheSameNumberIsNotTheSame) {
  GoOnFrom(first_);
  Step(Worker(7));
  ASSERT_EQ(Status().epoch, 2u);
  coordinator_->Saved();
  EXPECT_THAT(Only<Refused>(Step(ShardBeat(1, 2, true))).status.message(),
              HasSubstr("shard 1 knows a later epoch than 1"));
  ExpectAllRefused();
}

// Epochs that this coordinator has sent since do not hide those that the folder had before.
TEST_F(OlderRecordTest, AShardThatFindsALaterEpochInItsFolderShowsIt) {
  GoOnFrom(first_);
  Step(Worker(7));
  Step(ShardBeat(0, 0, true));
  EXPECT_THAT(
      Only<Refused>(Step(ShardBeat(0, kRoundNever, true))).status.message(),
      HasSubstr("shard 0 knows a later epoch than 2, the last that this coordinator has told it"));
  ExpectAllRefused();
}

TEST_F(OlderRecordTest, AShardThatWasStartedAgainIsToldWhatItMayKnow) {
  for (const auto& [record, told_epoch] : {std::pair(first_, 1u), std::pair(second_, 2u)}) {
    GoOnFrom(record);
    Step(Tick{});
    now_ += 3;
    EXPECT_EQ(Only<ShardRegistration>(Step(Back(0, 5, Run()))).told_epoch, told_epoch);
  }
}

TEST_F(OlderRecordTest, ARunThatHasBegunIsNotBegunAgain) {
  GoOnFrom(waiting_);
  EXPECT_THAT(Only<Refused>(Step(ShardBeat(0, 1, true))).status.message(),
              HasSubstr("shard 0 knows a later epoch than 0"));
  GoOnFrom(waiting_);
  EXPECT_THAT(Only<Refused>(Step(Back(1, 5, Run()))).status.message(),
              HasSubstr("the folder of shard 1 has a log of this run, wanted none before the run "
                        "begins"));
  ExpectAllRefused();
}

// The shard was started again with the newer record: this record knows another process of it.
TEST_F(OlderRecordTest, AShardThatWasStartedAgainSinceShowsIt) {
  GoOnFrom(first_);
  ShardHeartbeat heartbeat = ShardBeat(1, 3, true);
  heartbeat.incarnation = 9;
  EXPECT_THAT(
      Only<Refused>(Step(heartbeat)).status.message(),
      HasSubstr("shard 1 knows a later epoch than 1, the last that this coordinator has told it"));
  ExpectAllRefused();
}

TEST_F(OlderRecordTest, AWorkerThatKnowsALaterEpochShowsIt) {
  for (const uint32_t worker : {0, 7}) {  // the latter joined since
    GoOnFrom(first_);
    EXPECT_THAT(Only<Refused>(Step(Beat(worker, {}, 2))).status.message(),
                HasSubstr(absl::StrCat("worker ", worker, " knows epoch 2, wanted none after 1")));
    ExpectAllRefused();
  }
}

class OlderShardsTest : public OlderRecordTest {
 protected:
  // A process of worker 1 whose folder accounts for so many rounds.
  RegisterWorker Accounts(uint64_t rounds) {
    RegisterWorker request = Returning(1, 900 + rounds);
    request.process = rounds << 32 | 9;
    return request;
  }
  void ShardsAreAt(uint32_t round) {
    now_ += 1;
    for (const uint32_t shard : {0, 1}) Step(ShardAt(shard, round, 2));
  }
};

// Coordinator and shards were put back, so that only the workers' folders know more.
TEST_F(OlderShardsTest, AWorkersFolderThatWasFurtherShowsIt) {
  GoOnFrom(second_);
  Step(Tick{});
  const std::string why =
      "the residual in the folder of worker worker-1 accounts for 40 rounds, wanted at most ";
  // The record's figures prove nothing: rounds go on without the coordinator.
  EXPECT_THAT(Refusal(Step(Accounts(40)), absl::StatusCode::kUnavailable), HasSubstr(why + "1: "));
  EXPECT_EQ(Status().trouble, "");
  now_ += 1;
  Step(ShardAt(0, 4, 2));
  EXPECT_THAT(Refusal(Step(Accounts(40)), absl::StatusCode::kUnavailable), HasSubstr(why + "5: "));
  EXPECT_EQ(Status().trouble, "") << "one of the shards was not heard yet";
  ShardsAreAt(4);
  EXPECT_THAT(Only<Refused>(Step(Accounts(40))).status.message(),
              HasSubstr("the coordinator's folder is from an older time: " + why +
                        "5: no shard has opened a round after 4"));
  ExpectAllRefused();
}

// The shards' heartbeats finish a round that is reported in the record.
TEST_F(OlderShardsTest, ARoundOfTheRecordsReportsProvesNothing) {
  GoOnFrom(second_);
  Step(Beat(0, {Report(0)}, 2));
  GoOnFrom(coordinator_->Export(absl::UnixEpoch()));
  Step(Tick{});
  EXPECT_EQ(All<Refused>(Step(Accounts(40))).size(), 1u);
  ShardsAreAt(4);
  ASSERT_EQ(Status().record_count, 1u);
  Step(Accounts(40));
  ExpectAllRefused();
}

TEST_F(OlderShardsTest, WhoIsAFewRoundsAheadIsLetIn) {
  GoOnFrom(second_);
  Step(Tick{});
  EXPECT_EQ(All<Refused>(Step(Accounts(40))).size(), 1u);
  ShardsAreAt(37);  // a lost end of a log
  EXPECT_EQ(Only<WorkerRegistered>(Step(Accounts(40))).worker, 1u);
}

// A shard that has lost its folder, or reads it, knows no round.
TEST_F(OlderShardsTest, AShardWithoutItsStateProvesNothing) {
  GoOnFrom(second_);
  Step(Tick{});
  now_ += 3;
  Step(Back(1, 5, 0));
  EXPECT_EQ(All<Refused>(Step(Accounts(40))).size(), 1u);
  now_ += 1;
  for (const uint32_t known_epoch : {2, 3}) {  // the first answer has epoch 3
    Step(ShardAt(0, 4, known_epoch));
    ShardHeartbeat restoring = ShardAt(1, 0, known_epoch);
    restoring.incarnation = 5;
    Step(restoring);
  }
  EXPECT_EQ(All<Refused>(Step(Accounts(40))).size(), 1u);
  EXPECT_EQ(Status().trouble, "");
}

TEST_F(OlderShardsTest, AfterARoundAWorkersWordStopsNobody) {
  GoOnFrom(second_);
  ShardsAreAt(1);
  for (const uint32_t worker : {0, 1}) Step(Beat(worker, {Report(0)}, 2));
  ASSERT_EQ(Status().record_count, 1u);
  ShardsAreAt(1);
  EXPECT_EQ(All<Refused>(Step(Accounts(40))).size(), 1u);
  ShardsAreAt(1);
  Refusal(Step(Accounts(40)), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Refusal(Step(Beat(0, {}, 3)), absl::StatusCode::kUnavailable),
              HasSubstr("heartbeat of worker 0: it knows epoch 3, wanted none after 2"));
  EXPECT_EQ(Status().trouble, "");
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 2))).run, Run());
}

TEST_F(OlderShardsTest, AnOperatorMayTakeItAsTheNewest) {
  GoOnFrom(first_);
  Step(ShardBeat(0, 2, true));
  CoordinatorOptions options = Options(1, 2);
  options.takes_as_newest = true;
  coordinator_.emplace(options, coordinator_->Export(absl::UnixEpoch()));
  EXPECT_TRUE(coordinator_->Unsaved(absl::UnixEpoch()).has_value());
  EXPECT_EQ(Status().trouble, "");
  const uint32_t epoch = Status().epoch;
  EXPECT_GT(epoch, 1u << 20);
  Step(Tick{});
  now_ += 3;
  const auto back = Only<ShardRegistration>(Step(Back(1, 5, Run())));
  EXPECT_EQ(back.log_records, 0u);
  EXPECT_GT(back.told_epoch, 2u);
  EXPECT_EQ(Only<ShardHeartbeatReply>(Step(ShardBeat(0, 2, true))).membership->epoch, epoch + 1);
  EXPECT_EQ(Only<WorkerHeartbeatReply>(Step(Beat(0, {}, 2))).run, Run());
  ShardsAreAt(4);
  EXPECT_EQ(All<WorkerRegistered>(Step(Accounts(40))).size(), 1u);
}

TEST_F(OlderRecordTest, ARecordOfTheNewestEpochIsGoneOnWith) {
  GoOnFrom(second_);
  for (const uint32_t shard : {0, 1}) {
    EXPECT_FALSE(Only<ShardHeartbeatReply>(Step(ShardBeat(shard, 2, true))).membership);
  }
  for (const uint32_t shard : {0, 1}) Step(ShardAt(shard, 7, 2));
  Step(Beat(0, {Report(6)}, 2));
  EXPECT_EQ(Status().record_count, 1u);
  EXPECT_EQ(Status().trouble, "");
}

}  // namespace
}  // namespace longwave

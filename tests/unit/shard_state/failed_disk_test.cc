// A disk that is full, or fails: every answer stays true, and the shard goes on.
#include "gmock/gmock.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FailedDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(disk_.Open().ok());
    disk_.Do({MembershipChanged{Members(1, {0, 1})}, TestPush(0, 0, 2)});
  }
  void FillDisk() { disk_.files.faults.capacity_bytes = 1; }
  void MakeRoom() { disk_.files.faults.capacity_bytes.reset(); }
  void AfterReopening() { disk_.AfterReopening(); }

  ShardOnDisk disk_;
};

TEST_F(FailedDisk, AFullOneMakesPushesBusyAndSaysWhy) {
  FillDisk();
  const auto effects = disk_.Do({TestPush(1, 0, 2)});
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kBusy));
  EXPECT_THAT(AllSent<MergedFrame>(effects), IsEmpty());
  EXPECT_EQ(AllSent<AnswerFrame>(effects)[0].header.open_round, 0u)
      << "no round that may be forgotten";
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr("the disk is full"));
  // The trouble lasts as long as the fault; pulls and fetches are answered, too.
  const auto more = disk_.Do({TestPush(0, 0, 3), TestPull(0, 0, 2), TestFetch(0, 0, 2)});
  EXPECT_THAT(Outcomes(more), ElementsAre(Outcome::kBusy, Outcome::kBusy, Outcome::kBusy));
  EXPECT_EQ(disk_.shard().state().pushes_busy, 2u);
  EXPECT_EQ(disk_.shard().state().pushes_accepted, 1u);
}

TEST_F(FailedDisk, GoesOnWithAllThatWasAcceptedOnceThereIsRoom) {
  FillDisk();
  disk_.Do({TestPush(1, 0, 2)});
  AfterReopening();
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr("the disk is full")) << "it still is";
  MakeRoom();
  AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
  EXPECT_EQ(disk_.shard().state().pushes_accepted, 1u);
  // The second push may have reached the disk. Sent again it is merged once.
  const auto effects = disk_.Do({TestPush(0, 0, 2), TestPush(1, 0, 2)});
  EXPECT_EQ(Outcomes(effects)[0], Outcome::kDuplicate);
  const auto merged = AllSent<MergedFrame>(effects);
  ASSERT_FALSE(merged.empty());
  EXPECT_EQ(merged[0].header.contributions, 2u);
}

TEST_F(FailedDisk, KeepsTheRoundThatWasOpenThroughEveryTry) {
  for (uint32_t round = 0; round < 3; ++round) disk_.PushAll({0, 1}, round);
  FillDisk();
  disk_.Do({TestPush(1, 3, 2)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(disk_.shard().state().open_round, 3u);
    EXPECT_EQ(disk_.shard().state().newest_round, 3u);
    AfterReopening();
  }
}

// The coordinator takes a reported round as closed for good.
TEST_F(FailedDisk, ReportsNoRoundClosedThatIsNotDurable) {
  disk_.shard().Step(TestPush(1, 0, 2), disk_.now);
  EXPECT_EQ(disk_.shard().state().newest_round, 0u) << "before the commit";
  FillDisk();
  disk_.shard().Commit(disk_.now);
  EXPECT_EQ(disk_.shard().state().newest_round, 0u);
  disk_.shard().Commit(disk_.now);
  EXPECT_EQ(disk_.shard().state().newest_round, 0u);
  MakeRoom();
  AfterReopening();
  disk_.PushAll({0, 1}, 0);
  EXPECT_EQ(disk_.shard().state().newest_round, 1u);
}

TEST_F(FailedDisk, IsOpenedAgainAfterWaitsThatDoubleUntilItWasGoodForLong) {
  FillDisk();
  disk_.Do({TestPush(1, 0, 2)});
  for (const int seconds : {2, 4, 8, 16, 30, 30}) {
    const absl::Time before = disk_.now;
    AfterReopening();
    EXPECT_EQ(disk_.now - before, absl::Seconds(seconds));
  }
  MakeRoom();
  AfterReopening();
  ASSERT_EQ(disk_.shard().trouble(), "");
  FillDisk();
  disk_.Do({TestPush(0, 0, 3)});
  EXPECT_EQ(disk_.shard().NextDue() - disk_.now, absl::Seconds(30)) << "it could be read alone";
  MakeRoom();
  AfterReopening();
  disk_.now += DurableShard::kReopenMax;
  FillDisk();
  disk_.Do({TestPush(1, 0, 3)});
  EXPECT_EQ(disk_.shard().NextDue() - disk_.now, absl::Seconds(2));
}

TEST_F(FailedDisk, AMembershipOfTheMeantimeIsKept) {
  FillDisk();
  disk_.Do({TestPush(1, 0, 2)});
  disk_.Do({MembershipChanged{Members(2, {0, 1, 2})}});
  MakeRoom();
  AfterReopening();
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(2, 0, 3)})), ElementsAre(Outcome::kAccepted));
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(2, 0, 3)})), ElementsAre(Outcome::kDuplicate));
}

TEST_F(FailedDisk, WhatIsRefusedForItselfStaysRefused) {
  FillDisk();
  PushArrived bad = TestPush(1, 7, 2);
  const auto effects = disk_.Do({TestPush(1, 0, 2), bad, TestPush(9, 0, 2)});
  EXPECT_THAT(Outcomes(effects),
              ElementsAre(Outcome::kBusy, Outcome::kRejected, Outcome::kNotMember));
}

TEST_F(FailedDisk, OneThatIsFullAtTheStartIsWaitedFor) {
  disk_.Close();
  disk_.files.Restart(SimFileSystem::Stop::kPower);
  FillDisk();
  ASSERT_TRUE(disk_.OpenInTrouble().ok());
  EXPECT_LE(disk_.shard().NextDue(), disk_.now);
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kBusy));
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr("the disk is full"));
  MakeRoom();
  AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kDuplicate));
}

TEST_F(FailedDisk, AFailedSyncIsACrash) {
  disk_.files.faults.failed_sync_at = disk_.files.syncs();
  EXPECT_THAT(Outcomes(disk_.Do({TestPush(1, 0, 2)})), ElementsAre(Outcome::kBusy));
  AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
  // Found whole in the log or not: merged once in any case.
  std::vector<ShardEffect> effects = disk_.Do({TestPush(1, 0, 2)});
  const auto pulled = disk_.Do({TestPull(0, 0, 2)});
  ASSERT_EQ(AllSent<MergedFrame>(pulled).size(), 1u);
  EXPECT_EQ(AllSent<MergedFrame>(pulled)[0].header.contributions, 2u);
}

// The disk is no longer mounted. Taken as a new folder, the run would begin again at round 0.
TEST_F(FailedDisk, AFolderThatComesBackEmptyIsNotTheOneThatWasThere) {
  disk_.files.faults.failed_sync_at = disk_.files.syncs();
  disk_.Do({TestPush(1, 0, 2)});
  ASSERT_NE(disk_.shard().trouble(), "");
  disk_.folder = "empty";
  for (int i = 0; i < 2; ++i) {
    AfterReopening();
    EXPECT_THAT(disk_.shard().trouble(), HasSubstr("is not the one that was there"));
    EXPECT_THAT(Outcomes(disk_.Do({TestPush(0, 0, 2)})), ElementsAre(Outcome::kBusy));
  }
  disk_.folder = "state";
  AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
}

TEST_F(FailedDisk, ASnapshotThatDoesNotFitHoldsNothingUp) {
  // Room for the log and no snapshot beside it: each is written in place of the one before.
  for (uint32_t round = 0; round < 3; ++round) disk_.PushAll({0, 1}, round);
  const uint64_t appended = 3000;
  disk_.files.faults.failed_append_at.reset();
  disk_.files.faults.capacity_bytes =
      disk_.shard().state().log_bytes + disk_.shard().state().snapshot_bytes + appended;
  for (uint32_t round = 3; round < 60 && disk_.shard().trouble().empty(); ++round) {
    disk_.PushAll({0, 1}, round);
  }
  // The log fills up last, with a clear error, and every accepted push stays.
  EXPECT_THAT(disk_.shard().trouble(), HasSubstr("the disk is full"));
  const uint64_t accepted = disk_.shard().state().pushes_accepted;
  disk_.files.faults.capacity_bytes.reset();
  AfterReopening();
  EXPECT_EQ(disk_.shard().trouble(), "");
  EXPECT_GE(4u * disk_.shard().state().newest_round + 4, accepted);
}

}  // namespace
}  // namespace longwave

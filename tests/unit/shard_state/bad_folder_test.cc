// A folder that is damaged, or not the newest that the shard had: nothing is served from it, and
// the shard goes on when the right one is there.
#include "gmock/gmock.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/shard_state/shard_state_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kLog[] = "state/log/00000001.lwlog";

// A shard that has closed so many rounds. No log file is dropped, and there is one.
std::unique_ptr<ShardOnDisk> After(uint32_t rounds) {
  auto disk = std::make_unique<ShardOnDisk>(1, TestOptions(), 1 << 20);
  EXPECT_TRUE(disk->Open().ok());
  disk->Do({MembershipChanged{Members(1, {0, 1})}});
  for (uint32_t round = 0; round < rounds; ++round) disk->PushAll({0, 1}, round);
  return disk;
}

// The shard takes part in nothing, and says why.
void ExpectTrouble(ShardOnDisk& disk, const std::string& why) {
  EXPECT_THAT(disk.shard().trouble(), HasSubstr(why));
  const auto effects = disk.Do({TestPush(0, 4, 2), TestPull(0, 0, 2), TestFetch(0, 0, 2)});
  EXPECT_THAT(Outcomes(effects), ElementsAre(Outcome::kBusy, Outcome::kBusy, Outcome::kBusy));
  EXPECT_THAT(AllSent<MergedFrame>(effects), IsEmpty());
}

TEST(BadFolder, ADamagedLogIsWaitedForUntilItIsPutBack) {
  const auto disk = After(4);
  disk->Close();
  disk->files.Corrupt(kLog, 700, std::byte{1});
  ASSERT_TRUE(disk->OpenInTrouble().ok());
  ExpectTrouble(*disk, "00000001.lwlog, offset ");
  disk->AfterReopening();
  ExpectTrouble(*disk, "00000001.lwlog, offset ");
  EXPECT_THAT(disk->shard().TakeNotices(), SizeIs(1)) << "once, however often it is tried";

  disk->files.Corrupt(kLog, 700, std::byte{1});
  disk->AfterReopening();
  EXPECT_EQ(disk->shard().trouble(), "");
  EXPECT_EQ(disk->shard().state().open_round, 4u);
  EXPECT_THAT(Outcomes(disk->Do({TestPush(0, 3, 2)})), ElementsAre(Outcome::kDuplicate));
}

TEST(BadFolder, TellsHowManyRecordsAreDurableAlsoInTrouble) {
  const auto disk = After(2);
  const uint64_t records = disk->shard().state().log_records;
  EXPECT_EQ(records, 13u);  // a membership, and of each round four pushes and two merges
  disk->files.faults.failed_sync_at = disk->files.syncs();
  disk->Do({TestPush(0, 2, 2)});
  ASSERT_NE(disk->shard().trouble(), "");
  EXPECT_EQ(disk->shard().state().log_records, records);
}

TEST(BadFolder, OneThatLacksARecordThatWasDurableIsFromAnOlderTime) {
  const uint64_t records = After(5)->shard().state().log_records;
  const auto older = After(4);
  older->options.log_records = records;
  ASSERT_TRUE(older->OpenInTrouble().ok());
  ExpectTrouble(*older,
                "the folder is not the one that was there, or is from an older time: its log ends "
                "before record 26, wanted at least record 31, which was durable");
  EXPECT_EQ(older->shard().state().log_records, records) << "what it is to have";
  // The newest: not a record less is needed.
  const auto newest = After(5);
  newest->options.log_records = records;
  EXPECT_TRUE(newest->Open().ok());
}

// The reported length of the log is unknown: the coordinator was away, or was restarted.
TEST(BadFolder, OneThatLacksAFinishedRoundIsFromAnOlderTime) {
  const auto older = After(4);
  older->options.rounds = 5;
  ASSERT_TRUE(older->OpenInTrouble().ok());
  ExpectTrouble(*older,
                "the folder is from an older time: segment 2 has the rounds before 4, wanted all "
                "before 5, which the run has finished. Put the newest folder back;");
  older->options.rounds = 4;
  EXPECT_TRUE(older->Open().ok());
}

// A folder whose log was emptied is not one that was lost: its snapshots would count as new.
TEST(BadFolder, ALogThatEndsBeforeItsSnapshotsIsRefused) {
  const auto disk = After(4);
  disk->Close();
  ASSERT_TRUE(CutFile(disk->files, kLog, 700).ok());
  for (const bool restore : {false, true}) {
    disk->options.restore = restore;
    ASSERT_TRUE(disk->OpenInTrouble().ok());
    ExpectTrouble(*disk, "the end of the log is lost: it ends before record ");
    EXPECT_THAT(disk->shard().trouble(), HasSubstr("state-00000002-00000001-r0000000"));
    disk->Close();
    ASSERT_TRUE(CutFile(disk->files, kLog, kLogFileHeaderBytes).ok());
  }
}

TEST(BadFolder, AnEpochThatWasNeverToldIsTheCoordinatorsOlderTime) {
  const auto disk = After(1);
  disk->Do({MembershipChanged{Members(7, {0, 1})}});
  disk->options.told_epoch = 6;
  ASSERT_TRUE(disk->OpenInTrouble().ok());
  ExpectTrouble(*disk,
                "the coordinator's folder is from an older time: the log has epoch 7, wanted none "
                "after 6");
  EXPECT_TRUE(disk->shard().knows_untold_epoch());
  // However much that coordinator tells.
  disk->Do({MembershipChanged{Members(9, {0, 1})}});
  disk->AfterReopening();
  EXPECT_TRUE(disk->shard().knows_untold_epoch());
  disk->options.told_epoch = 7;
  EXPECT_TRUE(disk->Open().ok());
  EXPECT_FALSE(disk->shard().knows_untold_epoch());
}

// The folder has nothing of segments that are still to be restored, whatever rounds are finished.
TEST(BadFolder, ARestoreThatWasInterruptedIsNoOlderTime) {
  ShardOnDisk disk;
  disk.options.restore = true;
  disk.options.rounds = 3;
  ASSERT_TRUE(disk.Open().ok());
  disk.options.restore = false;
  disk.options.log_records = disk.shard().state().log_records;
  ASSERT_TRUE(disk.Open().ok());
  EXPECT_GT(disk.shard().restoring_count(), 0u);
}

}  // namespace
}  // namespace longwave

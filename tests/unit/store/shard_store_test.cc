#include "server/store/shard_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/snapshot_content.h"
#include "tests/support/store_helpers.h"
#include "tests/support/wrong_reads.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

ShardStoreOptions TestOptions() {
  ShardStoreOptions options;
  options.identity = TestIdentity();
  options.settings = "run:\n  seed: 1\n";
  options.log.file_bytes_max = 1024;
  return options;
}

TEST(ShardStore, RefusesAnotherRunBeforeItTouchesAFile) {
  SimFileSystem files(1);
  ASSERT_TRUE(ShardStore::Open(&files, "state", TestOptions()).ok());
  const uint64_t before = files.operations();
  ShardStoreOptions other = TestOptions();
  other.identity.run = 99;
  const absl::Status status = ShardStore::Open(&files, "state", other).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("state: belongs to another run"));
  EXPECT_EQ(files.operations(), before + 1) << "the folder alone, which was there";
}

// The life of a shard: rounds of pushes and a merge, a snapshot every few rounds, old log dropped.
// At a stop anywhere, the latest snapshot and the log from its replay_from on lead to every merge
// whose sync had returned.
TEST(ShardStore, SnapshotAndLogTogetherReachEverySyncedRoundAfterAStopAnywhere) {
  bool dropped = false;
  for (uint64_t at = 0;; ++at) {
    SimFileSystem files(at);
    uint32_t synced_rounds = 0;
    const auto live = [&]() -> absl::Status {
      auto opened = ShardStore::Open(&files, "state", TestOptions());
      if (!opened.ok()) return opened.status();
      ShardStore& store = **opened;
      for (uint32_t round = 0; round < 24; ++round) {
        const uint64_t open_from = store.log().next_sequence();
        for (uint32_t worker = 1; worker <= 2; ++worker) {
          const auto pushed = store.log().Append(TestPush(round, worker, 0, 60));
          if (!pushed.ok()) return pushed.status();
        }
        // A snapshot while the round is open: the log must still have its pushes.
        if (round % 4 == 3) {
          std::vector<SegmentSnapshot> state(1);
          state[0].open_round = round;
          state[0].residual = {static_cast<float>(round)};
          const absl::Status status =
              store.snapshots().Write({SnapshotKind::kState, 0, 1, round}, open_from,
                                      EncodeStateContent(state).value(), Compression::kZstd);
          if (!status.ok()) return status;
          const auto replay_from = ReplayFromMin(store.snapshots(), SnapshotKind::kState);
          if (const absl::Status drop = store.log().Drop(*replay_from); !drop.ok()) return drop;
        }
        const auto merged = store.log().Append(TestMerged(round, 0, 40));
        if (!merged.ok()) return merged.status();
        if (const absl::Status status = store.log().Sync(); !status.ok()) return status;
        synced_rounds = round + 1;
      }
      return absl::OkStatus();
    };
    files.faults.crash_at = at;
    const absl::Status status = live();
    if (!files.crashed()) {
      ASSERT_TRUE(status.ok()) << status;
      break;
    }
    files.Restart(at % 4 == 0 ? SimFileSystem::Stop::kProcess : SimFileSystem::Stop::kPower);
    auto opened = ShardStore::Open(&files, "state", TestOptions());
    ASSERT_TRUE(opened.ok()) << at << ": " << opened.status();
    ShardStore& store = **opened;
    EXPECT_TRUE(store.snapshots().damaged().empty());
    uint32_t next_round = 0;
    uint64_t from = 0;
    if (const auto latest = store.snapshots().Latest(SnapshotKind::kState, 0)) {
      const auto content = store.snapshots().Read(latest->key);
      ASSERT_TRUE(content.ok());
      next_round = DecodeStateContent(*content, 1).value()[0].open_round;
      from = latest->replay_from;
      ASSERT_GE(from, store.log().recovery().first_sequence) << at;
    }
    dropped |= store.log().recovery().first_sequence > 1;
    uint32_t pushes = 0;
    const absl::Status replayed = store.log().Replay(from, [&](uint64_t, const LogRecord& record) {
      if (std::holds_alternative<PushRecord>(record)) ++pushes;
      if (const auto* merged = std::get_if<MergedRecord>(&record)) {
        if (merged->header.round != next_round || pushes != 2) {
          return absl::InternalError("a round is missing, or a push of it");
        }
        ++next_round;
        pushes = 0;
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(replayed.ok()) << at << ": " << replayed;
    ASSERT_GE(next_round, synced_rounds) << at;
  }
  EXPECT_TRUE(dropped) << "no run dropped any log: the test tests too little";
}

// A memory or a controller gives a wrong bit once. What the disk has must outlive that.
TEST(ShardStore, AWrongReadLosesNothingOfAWholeOrATornLog) {
  constexpr uint32_t kRounds = 4;
  for (const uint64_t torn_bytes : {0, 3}) {
    SimFileSystem files(1);
    {
      auto store = ShardStore::Open(&files, "state", TestOptions());
      ASSERT_TRUE(store.ok()) << store.status();
      for (uint32_t round = 0; round <= kRounds; ++round) {
        ASSERT_TRUE((*store)->log().Append(TestMerged(round, 0, 300)).ok());
        ASSERT_TRUE((*store)->log().Sync().ok());
      }
      const std::vector<SegmentSnapshot> state(1);
      ASSERT_TRUE((*store)
                      ->snapshots()
                      .Write({SnapshotKind::kState, 0, 1, 1}, 1, EncodeStateContent(state).value(),
                             Compression::kNone)
                      .ok());
    }
    const std::vector<std::string> logs = files.List("state/log").value();
    const std::string last = "state/log/" + logs.back();
    ASSERT_NE(last, "state/log/00000001.lwlog") << "the log has several files";
    const uint64_t bytes = ReadWhole(files, last, 1 << 20)->size();
    ASSERT_TRUE(CutFile(files, last, bytes - torn_bytes).ok());
    const auto start = [&](FileSystem& disk) {
      EXPECT_EQ(OwnerOfFolder(disk, "state")->run, TestIdentity().run);
      auto store = ShardStore::Open(&disk, "state", TestOptions());
      ASSERT_TRUE(store.ok()) << store.status();
      EXPECT_TRUE((*store)->snapshots().damaged().empty());
      EXPECT_EQ((*store)->log().next_sequence(), kRounds + (torn_bytes == 0 ? 2 : 1));
      for (uint32_t round = 0; round < kRounds; ++round)
        EXPECT_TRUE((*store)->log().ReadMerged(0, round).ok());
      EXPECT_TRUE((*store)->snapshots().Read({SnapshotKind::kState, 0, 1, 1}).ok());
    };
    EXPECT_GT(ExpectWrongReadsToChangeNothing(files, {"state", "state/log", "state/snap"}, start),
              10u);
  }
}

}  // namespace
}  // namespace longwave

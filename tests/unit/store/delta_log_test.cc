#include "server/store/delta_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenDeltaLog : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.Open().ok()); }

  SimFileSystem files_{1};
  LogOnDisk disk_{&files_};
};

TEST_F(OpenDeltaLog, GivesBackWhatWasSynced) {
  EXPECT_EQ(disk_.log().recovery().next_sequence, 1u);
  absl::Status status;
  ASSERT_EQ(AppendGroups(disk_.log(), 0, 40, &status), 40u) << status;
  EXPECT_EQ(disk_.log().next_sequence(), 41u);
  EXPECT_EQ(disk_.log().durable_sequence(), 41u);
  EXPECT_EQ(disk_.Records().value(), ExpectedRecords(40));

  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.log().recovery().next_sequence, 41u);
  EXPECT_EQ(disk_.log().recovery().cut, "");
  EXPECT_EQ(disk_.Records().value(), ExpectedRecords(40));
  EXPECT_GT(files_.List("disk/log").value().size(), 3u) << "the test wants several files";
}

TEST(DeltaLog, NoFileIsLargerThanItsBound) {
  SimFileSystem files(1);
  LogOnDisk disk(&files, 2000);
  ASSERT_TRUE(disk.Open().ok());
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(disk.log().Append(TestRecord(i)).ok());
  ASSERT_TRUE(disk.log().Sync().ok());
  const std::vector<std::string> names = files.List("disk/log").value();
  for (const std::string& name : names) {
    EXPECT_LE(ReadWhole(files, "disk/log/" + name, 1 << 20)->size(), 2000u) << name;
  }
  EXPECT_EQ(disk.Records().value(), ExpectedRecords(100));
}

TEST(DeltaLog, ARecordLargerThanAFileHasOneOfItsOwn) {
  SimFileSystem files(1);
  LogOnDisk disk(&files, 1024);
  ASSERT_TRUE(disk.Open().ok());
  const std::vector<LogRecord> records = {TestPush(1, 1, 1, 10), TestPush(1, 2, 1, 5000),
                                          TestPush(1, 3, 1, 10)};
  for (const LogRecord& record : records) ASSERT_TRUE(disk.log().Append(record).ok());
  ASSERT_TRUE(disk.log().Sync().ok());
  ASSERT_TRUE(disk.Open().ok());
  EXPECT_THAT(disk.Records().value(),
              ElementsAre(BytesOf(records[0]), BytesOf(records[1]), BytesOf(records[2])));
  EXPECT_EQ(files.List("disk/log")->size(), 3u);
}

TEST_F(OpenDeltaLog, WhatIsNotSyncedIsNotThere) {
  ASSERT_TRUE(disk_.log().Append(TestMerged(7, 2, 30)).ok());
  EXPECT_TRUE(absl::IsNotFound(disk_.log().ReadMerged(2, 7).status()));
  EXPECT_TRUE(disk_.Records()->empty());
  ASSERT_TRUE(disk_.log().Sync().ok());
  EXPECT_TRUE(disk_.log().ReadMerged(2, 7).ok());
}

TEST(DeltaLog, OneSyncWritesAGroupAtOnce) {
  SimFileSystem files(1);
  LogOnDisk disk(&files, 1 << 20);
  ASSERT_TRUE(disk.Open().ok());
  const uint64_t before = files.operations();
  for (uint32_t i = 0; i < 50; ++i) ASSERT_TRUE(disk.log().Append(TestRecord(i)).ok());
  ASSERT_TRUE(disk.log().Sync().ok());
  ASSERT_TRUE(disk.log().Sync().ok()) << "with nothing to do";
  EXPECT_EQ(files.operations() - before, 2u) << "one append, one sync";
}

TEST_F(OpenDeltaLog, ReadsMergedUpdatesBySegmentAndRound) {
  for (uint32_t round = 0; round < 10; ++round) {
    for (uint32_t segment = 4; segment < 7; ++segment) {
      ASSERT_TRUE(disk_.log().Append(TestPush(round, 1, segment, 40)).ok());
      ASSERT_TRUE(disk_.log().Append(TestMerged(round, segment, 20 + round)).ok());
    }
    ASSERT_TRUE(disk_.log().Sync().ok());
  }
  for (const bool reopened : {false, true}) {
    if (reopened) {
      ASSERT_TRUE(disk_.Open().ok());
    }
    for (uint32_t round = 0; round < 10; ++round) {
      const auto merged = disk_.log().ReadMerged(5, round);
      ASSERT_TRUE(merged.ok()) << merged.status();
      EXPECT_EQ(BytesOf(*merged), BytesOf(TestMerged(round, 5, 20 + round)));
    }
    EXPECT_EQ(disk_.log().MergedPayloadBytes(5, 2, 4).value(), 22u + 23 + 24);
    EXPECT_THAT(disk_.log().MergedPayloadBytes(5, 8, 11).status().message(),
                HasSubstr("segment 5, round 10"));
    EXPECT_TRUE(absl::IsNotFound(disk_.log().ReadMerged(7, 0).status()));
    EXPECT_TRUE(absl::IsNotFound(disk_.log().MergedPayloadBytes(9, 0, 0).status()));
  }
}

TEST_F(OpenDeltaLog, ReplaysFromAnyRecord) {
  absl::Status status;
  AppendGroups(disk_.log(), 0, 30, &status);
  ASSERT_TRUE(status.ok());
  for (uint64_t from = 0; from <= 32; ++from) {
    std::vector<uint64_t> sequences;
    ASSERT_TRUE(disk_.log()
                    .Replay(from,
                            [&](uint64_t sequence, const LogRecord&) {
                              sequences.push_back(sequence);
                              return absl::OkStatus();
                            })
                    .ok());
    const uint64_t first = std::max<uint64_t>(from, 1);
    ASSERT_EQ(sequences.size(), first > 30 ? 0 : 31 - first);
    if (!sequences.empty()) {
      EXPECT_EQ(sequences.front(), first);
    }
  }
  EXPECT_TRUE(absl::IsCancelled(disk_.log().Replay(
      0, [](uint64_t, const LogRecord&) { return absl::CancelledError("enough"); })));
}

TEST_F(OpenDeltaLog, DropRemovesWholeFilesOfOldRecordsAlone) {
  absl::Status status;
  AppendGroups(disk_.log(), 0, 40, &status);
  const size_t before = files_.List("disk/log")->size();
  ASSERT_TRUE(disk_.log().Drop(20).ok());
  EXPECT_LT(files_.List("disk/log")->size(), before);
  ASSERT_TRUE(disk_.Open().ok());
  const uint64_t first = disk_.log().recovery().first_sequence;
  EXPECT_GT(first, 1u);
  EXPECT_LE(first, 20u);
  const auto records = disk_.Records().value();
  const auto expected = ExpectedRecords(40);
  EXPECT_TRUE(std::equal(records.begin(), records.end(),
                         expected.begin() + static_cast<ptrdiff_t>(first - 1), expected.end()));
  // The index loses the merged updates (every fifth record) of dropped files, too.
  for (uint32_t i = 1; i < 40; i += 5) {
    EXPECT_EQ(disk_.log().ReadMerged(2, i).ok(), i + 1 >= first) << i;
  }

  ASSERT_TRUE(disk_.log().Drop(1'000'000).ok());
  EXPECT_EQ(files_.List("disk/log")->size(), 1u) << "the last file stays";
  ASSERT_TRUE(disk_.log().Append(TestRecord(40)).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.log().next_sequence(), 42u);
}

TEST_F(OpenDeltaLog, ARefusedRecordDoesNotHarmTheOthers) {
  ASSERT_TRUE(disk_.log().Append(TestRecord(0)).ok());
  PushRecord bad = TestPush(1, 2, 3, 40);
  bad.header.payload_crc ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(disk_.log().Append(bad).status()));
  EXPECT_EQ(disk_.log().Append(TestRecord(1)).value(), 2u);
  ASSERT_TRUE(disk_.log().Sync().ok());
  EXPECT_EQ(disk_.Records().value(), ExpectedRecords(2));
}

TEST_F(OpenDeltaLog, RefusesAnotherRunShardOrLayout) {
  disk_.Close();
  // With a lost catalog, for which a new one was made, the files themselves show their owner.
  ASSERT_TRUE(files_.Remove("disk/shard.catalog").ok());
  const auto open_as = [&](const StoreIdentity& identity) {
    ASSERT_TRUE(files_.CreateFolder("other").ok());
    auto catalog = Catalog::Open(&files_, "other", identity, "");
    ASSERT_TRUE(catalog.ok());
    const auto log = DeltaLog::Open(&files_, "disk/log", identity, {}, catalog->get());
    EXPECT_TRUE(absl::IsFailedPrecondition(log.status()));
    EXPECT_THAT(log.status().message(), HasSubstr("00000001.lwlog: belongs to another"));
    ASSERT_TRUE(files_.Remove("other/shard.catalog").ok());
  };
  StoreIdentity identity = TestIdentity();
  identity.run = 1;
  open_as(identity);
  identity = TestIdentity();
  identity.shard = 1;
  open_as(identity);
  identity = TestIdentity();
  identity.layout_hash = 1;
  open_as(identity);
}

TEST(DeltaLog, RefusesFileSizesOutOfRange) {
  SimFileSystem files(1);
  EXPECT_TRUE(absl::IsInvalidArgument(LogOnDisk(&files, kLogFileBytesMin - 1).Open()));
  EXPECT_TRUE(absl::IsInvalidArgument(LogOnDisk(&files, kLogFileBytesMax + 1).Open()));
}

}  // namespace
}  // namespace longwave

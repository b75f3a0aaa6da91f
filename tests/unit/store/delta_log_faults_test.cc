// Disks that are full or fail: a clear error, nothing more accepted, and no record lost or torn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRecords = 20;

// Records that came back are the first of those written, and at least those that were synced.
void ExpectPrefix(LogOnDisk& disk, uint32_t synced, const std::string& where) {
  const auto records = disk.Records();
  ASSERT_TRUE(records.ok()) << where << ": " << records.status();
  const auto expected = ExpectedRecords(kRecords);
  ASSERT_GE(records->size(), synced) << where;
  ASSERT_LE(records->size(), expected.size()) << where;
  ASSERT_TRUE(std::equal(records->begin(), records->end(), expected.begin())) << where;
}

TEST(DeltaLogFaults, ADiskFullAtAnyByteStopsTheLogAndLosesNothing) {
  uint64_t bytes_in_all = 0;
  {
    SimFileSystem files(1);
    LogOnDisk disk(&files);
    absl::Status status;
    ASSERT_TRUE(disk.Open().ok());
    ASSERT_EQ(AppendGroups(disk.log(), 0, kRecords, &status), kRecords);
    bytes_in_all = disk.log().file_bytes() + 2000;  // and the catalog, for a while twice
  }
  uint32_t refused = 0;
  for (uint64_t capacity = 0; capacity <= bytes_in_all; ++capacity) {
    const std::string where = "capacity " + std::to_string(capacity);
    SimFileSystem files(1);
    LogOnDisk disk(&files);
    files.faults.capacity_bytes = capacity;
    absl::Status status = disk.Open();
    uint32_t synced = 0;
    if (status.ok()) synced = AppendGroups(disk.log(), 0, kRecords, &status);
    if (status.ok()) continue;
    ++refused;
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << where << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr("disk/")) << where;
    ASSERT_THAT(status.message(), HasSubstr("wanted ")) << where;
    if (disk.is_open()) {
      // Even a record that would fit now is refused, since the file may end in the middle of a
      // record.
      files.faults.capacity_bytes = 1 << 20;
      ASSERT_TRUE(absl::IsResourceExhausted(disk.log().Append(TestRecord(0)).status())) << where;
      ASSERT_TRUE(absl::IsResourceExhausted(disk.log().Sync())) << where;
      ExpectPrefix(disk, synced, where);
    }

    // With room again, in a new process or the same, all goes on.
    files.faults.capacity_bytes.reset();
    status = disk.is_open() && capacity % 2 == 0 ? disk.OpenLog() : disk.Open();
    ASSERT_TRUE(status.ok()) << where << ": " << status;
    ExpectPrefix(disk, synced, where);
    const auto next = static_cast<uint32_t>(disk.log().next_sequence() - 1);
    ASSERT_EQ(AppendGroups(disk.log(), next, kRecords - next, &status), kRecords - next) << where;
    ExpectPrefix(disk, kRecords, where);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(refused, 100u);
}

TEST(DeltaLogFaults, AFullDiskCanStillBeOpenedReadAndDroppedFrom) {
  SimFileSystem files(1);
  LogOnDisk disk(&files);
  ASSERT_TRUE(disk.Open().ok());
  absl::Status status;
  ASSERT_EQ(AppendGroups(disk.log(), 0, kRecords, &status), kRecords);
  files.faults.capacity_bytes = disk.log().file_bytes();
  ASSERT_FALSE(disk.log().Append(TestRecord(kRecords)).ok() && disk.log().Sync().ok());
  ASSERT_TRUE(disk.OpenLog().ok()) << "cutting and settling need no room";
  ExpectPrefix(disk, kRecords, "full");
  // The catalog needs space to note the drop.
  files.faults.capacity_bytes = *files.faults.capacity_bytes + 1024;
  const uint64_t bytes_before = disk.log().file_bytes();
  ASSERT_TRUE(disk.log().Drop(15).ok());
  EXPECT_LT(disk.log().file_bytes(), bytes_before);
}

TEST(DeltaLogFaults, AFailedSyncIsNeverTriedAgain) {
  uint64_t syncs = 0;
  {
    SimFileSystem files(1);
    LogOnDisk disk(&files);
    absl::Status status;
    ASSERT_TRUE(disk.Open().ok());
    AppendGroups(disk.log(), 0, kRecords, &status);
    syncs = files.syncs();
  }
  bool lost_some = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (uint64_t at = 0; at < syncs; ++at) {
      const std::string where = "seed " + std::to_string(seed) + ", sync " + std::to_string(at);
      SimFileSystem files(seed);
      LogOnDisk disk(&files);
      files.faults.failed_sync_at = at;
      absl::Status status = disk.Open();
      uint32_t synced = 0;
      if (status.ok()) synced = AppendGroups(disk.log(), 0, kRecords, &status);
      ASSERT_FALSE(status.ok()) << where;
      if (disk.is_open()) {
        ASSERT_FALSE(disk.log().Append(TestRecord(0)).ok()) << where;
        ASSERT_EQ(disk.log().Sync(), status) << where;
      }
      if (seed % 2 == 0) {
        // After a loss of power the bytes that the system had dropped are lost.
        disk.Close();
        files.Restart(SimFileSystem::Stop::kPower);
        ASSERT_TRUE(disk.Open().ok()) << where;
        ExpectPrefix(disk, synced, where);
        lost_some |= disk.log().recovery().cut_bytes > 0;
      } else {
        // The process is started again. The system shows it all bytes as if they were written; what
        // the log then calls durable must be so, also when the power goes after it.
        ASSERT_TRUE(disk.Open().ok()) << where;
        ExpectPrefix(disk, synced, where);
        const auto reported = disk.Records().value();
        disk.Close();
        files.Restart(SimFileSystem::Stop::kPower);
        ASSERT_TRUE(disk.Open().ok()) << where;
        ASSERT_EQ(disk.Records().value(), reported) << where;
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_TRUE(lost_some) << "no failed sync lost anything: the test tests too little";
}

TEST(DeltaLogFaults, AFailedAppendStopsTheLog) {
  for (uint64_t at = 3; at < 12; ++at) {
    SimFileSystem files(at);
    LogOnDisk disk(&files);
    files.faults.failed_append_at = at;
    ASSERT_TRUE(disk.Open().ok());
    absl::Status status;
    const uint32_t synced = AppendGroups(disk.log(), 0, kRecords, &status);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("takes nothing more until it is opened again"));
    EXPECT_EQ(disk.log().failure(), status);
    EXPECT_EQ(disk.log().Append(TestRecord(0)).status(), status);
    ExpectPrefix(disk, synced, "before");
    ASSERT_TRUE(disk.OpenLog().ok());
    ExpectPrefix(disk, synced, "after");
  }
}

}  // namespace
}  // namespace longwave

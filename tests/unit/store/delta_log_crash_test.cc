// The machine stops during every operation of a workload. The log that comes back is a prefix with
// all synced records.

#include <gtest/gtest.h>

#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

constexpr uint32_t kCrashRecords = 24;

struct Outcome {
  uint64_t operations = 0;
  bool cut = false;
  bool more_than_synced = false;
};

// A process's life: open, append, drop some, append more, until the stop if there is one. `synced`:
// records whose sync has returned.
void Live(LogOnDisk& disk, uint32_t* synced, uint64_t* dropped_before) {
  if (!disk.Open().ok()) return;
  absl::Status status;
  *synced = AppendGroups(disk.log(), 0, kCrashRecords / 2, &status);
  if (!status.ok()) return;
  // A failure of Drop may have dropped already: it may not have been told.
  *dropped_before = 8;
  if (!disk.log().Drop(8).ok()) return;
  *synced += AppendGroups(disk.log(), kCrashRecords / 2, kCrashRecords / 2, &status);
}

void ExpectPrefixWithAllThatWasSynced(LogOnDisk& disk, uint32_t synced, uint64_t dropped_before,
                                      const std::string& where, Outcome* outcome) {
  ASSERT_TRUE(disk.is_open());
  const auto records = disk.Records();
  ASSERT_TRUE(records.ok()) << where << ": " << records.status();
  const uint64_t first = disk.log().recovery().first_sequence;
  ASSERT_GE(first, 1u) << where;
  ASSERT_LE(first, std::max<uint64_t>(dropped_before, 1)) << where;
  ASSERT_GE(first - 1 + records->size(), synced) << where;
  const auto expected = ExpectedRecords(kCrashRecords);
  ASSERT_LE(first - 1 + records->size(), expected.size()) << where;
  for (size_t i = 0; i < records->size(); ++i) {
    ASSERT_EQ((*records)[i], expected[first - 1 + i]) << where << ", record " << first + i;
  }
  outcome->cut |= disk.log().recovery().cut_bytes > 0;
  outcome->more_than_synced |= first - 1 + records->size() > synced;
}

Outcome CrashEverywhere(uint64_t seed, SimFileSystem::Stop stop) {
  Outcome outcome;
  for (uint64_t at = 0;; ++at) {
    SimFileSystem files(seed * 1000 + at);
    LogOnDisk disk(&files);
    uint32_t synced = 0;
    uint64_t dropped_before = 0;
    files.faults.crash_at = at;
    Live(disk, &synced, &dropped_before);
    if (!files.crashed()) {
      outcome.operations = files.operations();
      return outcome;
    }
    files.Restart(stop);
    const std::string where = "seed " + std::to_string(seed) + ", operation " + std::to_string(at);

    // The start after it stops too, somewhere, once: recovery of a recovery.
    files.faults.crash_at = files.operations() + at % 11;
    absl::Status status = disk.Open();
    if (files.crashed()) {
      disk.Close();
      files.Restart(stop);
      status = disk.Open();
    }
    EXPECT_TRUE(status.ok()) << where << ": " << status;
    if (!status.ok()) return outcome;
    files.faults.crash_at.reset();
    ExpectPrefixWithAllThatWasSynced(disk, synced, dropped_before, where, &outcome);
    if (testing::Test::HasFatalFailure()) return outcome;

    // A start keeps all records that it has reported, through any later fault, and the log goes on
    // from there.
    const auto reported = disk.Records().value();
    const uint64_t next = disk.log().next_sequence();
    disk.Close();
    files.Restart(SimFileSystem::Stop::kPower);
    status = disk.Open();
    EXPECT_TRUE(status.ok()) << where << ": " << status;
    if (!status.ok()) return outcome;
    EXPECT_EQ(disk.Records().value(), reported) << where;
    EXPECT_EQ(AppendGroups(disk.log(), static_cast<uint32_t>(next - 1), 3, &status), 3u) << where;
    EXPECT_EQ(disk.log().durable_sequence(), next + 3) << where;
  }
}

TEST(DeltaLogCrash, PowerLossAtEveryOperationKeepsAPrefixWithAllThatWasSynced) {
  Outcome all;
  for (uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    const Outcome outcome = CrashEverywhere(seed, SimFileSystem::Stop::kPower);
    EXPECT_GT(outcome.operations, 50u);
    all.cut |= outcome.cut;
    all.more_than_synced |= outcome.more_than_synced;
  }
  EXPECT_TRUE(all.cut) << "no run had a torn tail: the test tests too little";
  EXPECT_TRUE(all.more_than_synced);
}

TEST(DeltaLogCrash, KilledProcessAtEveryOperationKeepsAPrefixWithAllThatWasSynced) {
  Outcome all;
  for (uint64_t seed = 1; seed <= 5 && !testing::Test::HasFailure(); ++seed) {
    const Outcome outcome = CrashEverywhere(seed, SimFileSystem::Stop::kProcess);
    all.cut |= outcome.cut;
    all.more_than_synced |= outcome.more_than_synced;
  }
  EXPECT_TRUE(all.cut) << "no run had a torn tail: the test tests too little";
  EXPECT_TRUE(all.more_than_synced);
}

}  // namespace
}  // namespace longwave

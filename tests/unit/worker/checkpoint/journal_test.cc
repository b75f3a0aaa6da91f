#include "worker/checkpoint/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/sim_file_system.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"
#include "worker/checkpoint/push_journal.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr JournalHeader kHeader = {.run = 77, .layout_hash = 0xabcd, .write = 5, .worker = 3};
constexpr char kJournalFolder[] = "worker";
constexpr uint64_t kBytesMax = 1 << 20;

std::vector<JournalRecord> Records() {
  return {{.kind = JournalKind::kPush,
           .segment = 1,
           .round = 12,
           .fragment = 1,
           .accounted = 12,
           .norm = 2.5f,
           .weight = 9,
           .step = 390,
           .tokens = 1000,
           .payload = BytesOf({1, 2, 3})},
          {.kind = JournalKind::kPush, .segment = 0, .round = 12, .payload = BytesOf({4, 5, 6, 7})},
          {.kind = JournalKind::kAccepted, .segment = 1, .round = 12},
          {.kind = JournalKind::kReturned, .segment = 0, .round = 12},
          {.kind = JournalKind::kPush, .segment = 0, .round = 13, .payload = BytesOf({8})}};
}

std::string Path() { return JoinPath(kJournalFolder, JournalName(kHeader.write)); }

// A folder whose journal got these batches.
void Write(FileSystem& files, const std::vector<std::vector<JournalRecord>>& batches) {
  ASSERT_TRUE(files.CreateFolder(kJournalFolder).ok());
  PushJournal journal(&files, kJournalFolder);
  journal.Begin(kHeader);
  for (const auto& batch : batches) ASSERT_TRUE(journal.Append(batch).ok());
}

TEST(Journal, GivesBackWhatWasAppended) {
  SimFileSystem files(1);
  const auto all = Records();
  Write(files, {{all[0], all[1]}, {all[2], all[3], all[4]}});
  const auto scan = ScanJournal(*ReadWhole(files, Path(), kBytesMax));
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->header, kHeader);
  EXPECT_EQ(scan->records, all);
  EXPECT_EQ(scan->fault, "");
  const auto read = ReadJournals(files, kJournalFolder, kHeader.write, &kHeader);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, all);
  EXPECT_THAT(*ReadJournals(files, kJournalFolder, kHeader.write + 1, &kHeader), SizeIs(0));
}

// A file that ends anywhere, or whose last batch has holes, has only what was on the disk before.
TEST(Journal, ATornTailIsNormalAndIsCut) {
  const auto all = Records();
  SimFileSystem whole(1);
  Write(whole, {{all[0], all[1]}, {all[2], all[3], all[4]}});
  const Buffer bytes = *ReadWhole(whole, Path(), kBytesMax);
  for (size_t end = 0; end < bytes.size(); ++end) {
    SimFileSystem files(1);
    ASSERT_TRUE(files.CreateFolder(kJournalFolder).ok());
    const std::array<std::span<const std::byte>, 1> pieces = {bytes.bytes().first(end)};
    ASSERT_TRUE(Publish(files, kJournalFolder, JournalName(kHeader.write), pieces).ok());
    const auto read = ReadJournals(files, kJournalFolder, 0, &kHeader);
    ASSERT_TRUE(read.ok()) << end << ": " << read.status();
    EXPECT_EQ(*read, std::vector(all.begin(), all.begin() + static_cast<ptrdiff_t>(read->size())));
    ASSERT_TRUE(SettleJournals(files, kJournalFolder).ok());
    if (end < kJournalHeaderBytes) {
      EXPECT_THAT(*ListJournals(files, kJournalFolder), SizeIs(0));
      continue;
    }
    const auto again = ScanJournal(*ReadWhole(files, Path(), kBytesMax));
    EXPECT_EQ(again->fault, "") << end;
    EXPECT_EQ(again->records, *read);
  }
}

TEST(Journal, ASectorThatNeverReachedTheDiskIsATornTail) {
  const auto all = Records();
  SimFileSystem whole(1);
  Write(whole, {all});
  const Buffer bytes = *ReadWhole(whole, Path(), kBytesMax);
  for (size_t hole = 0; hole < bytes.size(); hole += SimFileSystem::kSectorBytes) {
    SimFileSystem files(1);
    ASSERT_TRUE(files.CreateFolder(kJournalFolder).ok());
    std::vector<std::byte> torn(bytes.bytes().begin(), bytes.bytes().end());
    std::fill_n(torn.begin() + static_cast<ptrdiff_t>(hole),
                std::min(SimFileSystem::kSectorBytes, torn.size() - hole), std::byte{0});
    const std::array<std::span<const std::byte>, 1> pieces = {torn};
    ASSERT_TRUE(Publish(files, kJournalFolder, JournalName(kHeader.write), pieces).ok());
    ASSERT_TRUE(SettleJournals(files, kJournalFolder).ok());
    const auto read = ReadJournals(files, kJournalFolder, 0, &kHeader);
    ASSERT_TRUE(read.ok()) << hole << ": " << read.status();
    EXPECT_LT(read->size(), all.size());
    EXPECT_THAT(*ListJournals(files, kJournalFolder), SizeIs(hole == 0 ? 0 : 1));
  }
}

TEST(Journal, EveryFlippedBitIsSeenAndDamageIsSaid) {
  const auto all = Records();
  SimFileSystem files(1);
  Write(files, {{all[0], all[1]}, {all[2]}, {all[3], all[4]}});
  const uint64_t size = ReadWhole(files, Path(), kBytesMax)->size();
  // The last batch's records, whose length may say that bytes are missing: as where they are torn.
  const uint64_t last = size - kJournalHeadBytes - 8, before = last - kJournalHeadBytes;
  const auto is_length = [&](uint64_t at) {
    const uint64_t in_head = at - (at < last ? before : last);
    return in_head > 32 && in_head < 36;
  };
  for (uint64_t at = kJournalHeaderBytes; at < size; ++at) {
    files.Corrupt(Path(), at, std::byte{4});
    const auto scan = ScanJournal(*ReadWhole(files, Path(), kBytesMax));
    ASSERT_TRUE(scan.ok());
    EXPECT_NE(scan->fault, "") << at;
    EXPECT_LT(scan->records.size(), all.size());
    if (!is_length(at)) {
      EXPECT_TRUE(scan->fault_was_durable) << at;
      const auto read = ReadJournals(files, kJournalFolder, 0, &kHeader);
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(Path()));
      // Damage is not cut.
      EXPECT_TRUE(SettleJournals(files, kJournalFolder).ok());
    }
    files.Corrupt(Path(), at, std::byte{4});
    if (is_length(at)) continue;
    EXPECT_EQ(ReadWhole(files, Path(), kBytesMax)->size(), size);
  }
}

TEST(Journal, AFileOfAnotherRunOrVersionIsNoJournalOfThisOne) {
  SimFileSystem files(1);
  Write(files, {Records()});
  JournalHeader other = kHeader;
  other.run = 78;
  EXPECT_EQ(ReadJournals(files, kJournalFolder, 0, &other).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(ReadJournals(files, kJournalFolder, 0, nullptr).ok());
  files.Corrupt(Path(), 4, std::byte{2});
  const auto version = ReadJournals(files, kJournalFolder, 0, &kHeader).status();
  EXPECT_EQ(version.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(version.message()), HasSubstr("set the worker's folder aside"));
}

// Confirmed records are there, whenever the process dies.
TEST(Journal, WhatWasConfirmedSurvivesALossOfPower) {
  const auto all = Records();
  for (uint64_t at = 0; at < 14; ++at) {
    SimFileSystem files(at);
    ASSERT_TRUE(files.CreateFolder(kJournalFolder).ok());
    files.faults.crash_at = files.operations() + at;
    PushJournal journal(&files, kJournalFolder);
    journal.Begin(kHeader);
    size_t confirmed = 0;
    for (const JournalRecord& record : all) {
      if (!journal.Append(std::span(&record, 1)).ok()) break;
      ++confirmed;
    }
    // The journal takes no more, since the content of the disk is not known.
    if (confirmed < all.size()) {
      EXPECT_FALSE(journal.Append(std::span(&all[0], 1)).ok());
    }
    files.Restart(SimFileSystem::Stop::kPower);
    files.faults.crash_at.reset();
    ASSERT_TRUE(SettleJournals(files, kJournalFolder).ok());
    const auto read = ReadJournals(files, kJournalFolder, 0, &kHeader);
    ASSERT_TRUE(read.ok()) << at << ": " << read.status();
    EXPECT_GE(read->size(), confirmed) << at;
    EXPECT_LE(read->size(), confirmed + 1) << at;
    EXPECT_TRUE(RemoveJournalsBefore(files, kJournalFolder, kHeader.write + 1).ok());
    EXPECT_THAT(*ListJournals(files, kJournalFolder), SizeIs(0));
  }
}

}  // namespace
}  // namespace longwave

#include "worker/checkpoint/worker_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/bytes.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/wrong_reads.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"

namespace longwave {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<WorkerFolder> Open(FileSystem& files) {
  auto folder = WorkerFolder::Open(&files, "state/worker-3");
  EXPECT_TRUE(folder.ok()) << folder.status();
  return folder.ok() ? *std::move(folder) : nullptr;
}

absl::StatusOr<std::optional<FoundCheckpoint>> ReadOf(const WorkerFolder& folder, uint64_t run = 77,
                                                      const std::string& name = "worker-3",
                                                      uint32_t worker = 3,
                                                      const CheckpointShape& shape = TestShape()) {
  return ReadLastCheckpoint(*folder.files(), folder.path(), run, name, worker, shape);
}

std::optional<FoundCheckpoint> Read(const WorkerFolder& folder) {
  auto found = ReadOf(folder);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *std::move(found) : std::nullopt;
}

Checkpoint OfRound(uint32_t round) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.round = round;
  return checkpoint;
}

TEST(WorkerFolder, KeepsItsIdentity) {
  SimFileSystem files(1);
  const uint64_t identity = Open(files)->identity();
  EXPECT_NE(identity, 0u);
  EXPECT_EQ(Open(files)->identity(), identity);
  SimFileSystem elsewhere(1);
  EXPECT_NE(Open(elsewhere)->identity(), identity);
}

TEST(WorkerFolder, RefusesAnIdentityThatIsNone) {
  SimFileSystem files(1);
  Open(files);
  files.Corrupt("state/worker-3/identity", 3, std::byte{0x80});
  const auto folder = WorkerFolder::Open(&files, "state/worker-3");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("state/worker-3/identity"));
}

std::string TextOf(FileSystem& files, const std::string& path) {
  const Buffer bytes = ReadWhole(files, path, 100).value();
  return {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.size()};
}

TEST(WorkerFolder, EveryFlippedBitOfAWordIsSeen) {
  for (const char* name : {"identity", "processes"}) {
    const std::string path = absl::StrCat("state/worker-3/", name);
    SimFileSystem files(1);
    Open(files);
    for (size_t bit = 0; bit < 8 * TextOf(files, path).size(); ++bit) {
      const std::byte mask = std::byte{1} << (bit % 8);
      files.Corrupt(path, bit / 8, mask);
      EXPECT_EQ(WorkerFolder::Open(&files, "state/worker-3").status().code(),
                absl::StatusCode::kDataLoss)
          << path << ", bit " << bit;
      files.Corrupt(path, bit / 8, mask);
    }
  }
}

TEST(WorkerFolder, WordsOfEarlierVersionsHaveNoChecksum) {
  SimFileSystem files(1);
  ASSERT_TRUE(files.CreateFolder("state/worker-3").ok());
  for (const auto& [name, text] :
       {std::pair<const char*, std::string>{"identity", "00000000deadbeef\n"},
        {"processes", "0000000000000007\n"}}) {
    const std::array<std::span<const std::byte>, 1> pieces = {std::as_bytes(std::span(text))};
    ASSERT_TRUE(Publish(files, "state/worker-3", name, pieces).ok());
  }
  const auto folder = Open(files);
  EXPECT_EQ(folder->identity(), 0xdeadbeefu);
  EXPECT_EQ(folder->process(), 8u);
  EXPECT_EQ(TextOf(files, "state/worker-3/processes").size(), 26u) << "it has one from now on";
}

TEST(WorkerFolder, AWrongReadLosesNothing) {
  SimFileSystem files(1);
  ASSERT_TRUE(Open(files)->Write(OfRound(1)).ok());
  ASSERT_TRUE(Open(files)->Retire().ok());
  ASSERT_TRUE(Open(files)->Write(OfRound(3)).ok());
  const uint64_t identity = Open(files)->identity();
  const auto start = [&](FileSystem& disk) {
    const auto folder = Open(disk);
    ASSERT_NE(folder, nullptr);
    EXPECT_EQ(folder->identity(), identity);
    EXPECT_EQ(folder->process(), (uint64_t{4} << 32) + 5);
    const auto found = Read(*folder);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->checkpoint, OfRound(3));
    EXPECT_FALSE(found->stale);
  };
  EXPECT_GE(ExpectWrongReadsToChangeNothing(files, {"state/worker-3"}, start), 5u);
}

TEST(WorkerFolder, ACheckpointOfAnotherReleaseIsRefusedUntilItIsMovedAway) {
  for (const char* name : {"checkpoint", "checkpoint.stale"}) {
    SimFileSystem files(1);
    Open(files);
    std::vector<std::byte> bytes = FileOf(OfRound(1));
    StoreLe<uint32_t>(0x3143574c, bytes.data());
    StoreLe<uint16_t>(2, bytes.data() + 4);
    const std::array<std::span<const std::byte>, 1> pieces = {std::span<const std::byte>(bytes)};
    ASSERT_TRUE(Publish(files, "state/worker-3", name, pieces).ok());
    const absl::Status refused = WorkerFolder::Open(&files, "state/worker-3").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        std::string(refused.message()),
        AllOf(HasSubstr(absl::StrCat("state/worker-3/", name, ": checkpoint: got version 2")),
              HasSubstr("move the file away")));
    ASSERT_TRUE(files.Remove(absl::StrCat("state/worker-3/", name)).ok());
    EXPECT_FALSE(Read(*Open(files)).has_value());
  }
}

TEST(WorkerFolder, AFileThatGoesOnAfterItsEndIsNotRead) {
  SimFileSystem files(1);
  const auto folder = Open(files);
  std::vector<std::byte> bytes = FileOf(OfRound(1));
  bytes.resize(bytes.size() + 4096);
  const std::array<std::span<const std::byte>, 1> pieces = {std::span<const std::byte>(bytes)};
  ASSERT_TRUE(Publish(files, "state/worker-3", "checkpoint", pieces).ok());
  const auto found = ReadOf(*folder);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(WorkerFolder, SaysHowManyRoundsItsResidualAccountsFor) {
  SimFileSystem files(1);
  {
    const auto folder = Open(files);
    ASSERT_TRUE(folder->Write(OfRound(41)).ok());
  }
  EXPECT_EQ(Open(files)->process(), (uint64_t{42} << 32) + 2);
  ASSERT_TRUE(Open(files)->Retire().ok());
  EXPECT_EQ(Open(files)->process(), 4u);  // the content is no longer used
}

TEST(WorkerFolder, CountsItsProcesses) {
  SimFileSystem files(1);
  EXPECT_EQ(Open(files)->process(), 1u);
  EXPECT_EQ(Open(files)->process(), 2u);
  files.Restart(SimFileSystem::Stop::kPower);
  EXPECT_EQ(Open(files)->process(), 3u);
  files.Corrupt("state/worker-3/processes", 3, std::byte{0x80});
  const auto folder = WorkerFolder::Open(&files, "state/worker-3");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("wanted a count"));
}

TEST(WorkerFolder, IsHeldByOneProcess) {
  SimFileSystem files(1);
  const auto first = Open(files);
  EXPECT_TRUE(absl::IsUnavailable(WorkerFolder::Open(&files, "state/worker-3").status()));
}

TEST(WorkerFolder, HasNoCheckpointAtFirst) {
  SimFileSystem files(1);
  const auto folder = Open(files);
  EXPECT_FALSE(Read(*folder).has_value());
  EXPECT_TRUE(folder->Retire().ok());
}

TEST(WorkerFolder, ARetiredCheckpointIsStaleUntilTheNext) {
  SimFileSystem files(1);
  ASSERT_TRUE(Open(files)->Write(OfRound(1)).ok());
  ASSERT_TRUE(Open(files)->Retire().ok());
  auto found = Read(*Open(files));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.round, 1u);
  EXPECT_TRUE(found->stale);
  ASSERT_TRUE(Open(files)->Write(OfRound(3)).ok());
  found = Read(*Open(files));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.round, 3u);
  EXPECT_FALSE(found->stale);
}

TEST(WorkerFolder, AnotherRunsOrWorkersOrLayoutsIsNone) {
  SimFileSystem files(1);
  const auto folder = Open(files);
  ASSERT_TRUE(folder->Write(OfRound(1)).ok());
  EXPECT_FALSE(ReadOf(*folder, 78, "worker-3", 3)->has_value());
  EXPECT_FALSE(ReadOf(*folder, 77, "worker-4", 3)->has_value());
  EXPECT_FALSE(ReadOf(*folder, 77, "worker-3", 4)->has_value());
  CheckpointShape shape = TestShape();
  shape.layout_hash = 1;
  EXPECT_FALSE(ReadOf(*folder, 77, "worker-3", 3, shape)->has_value());
}

TEST(WorkerFolder, ADamagedCheckpointIsNamed) {
  SimFileSystem files(1);
  const auto folder = Open(files);
  ASSERT_TRUE(folder->Write(OfRound(1)).ok());
  files.Corrupt("state/worker-3/checkpoint", 200, std::byte{1});
  const auto found = ReadOf(*folder);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("state/worker-3/checkpoint: "));
}

// Damaged, the current one must not hide the optimizer of the one before.
TEST(WorkerFolder, ADamagedCheckpointLeavesTheStaleOne) {
  SimFileSystem files(1);
  ASSERT_TRUE(Open(files)->Write(OfRound(1)).ok());
  ASSERT_TRUE(Open(files)->Retire().ok());
  ASSERT_TRUE(Open(files)->Write(OfRound(2)).ok());
  files.Corrupt("state/worker-3/checkpoint", 200, std::byte{1});
  const auto found = Read(*Open(files));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint, OfRound(1));
  EXPECT_TRUE(found->stale);
  files.Corrupt("state/worker-3/checkpoint.stale", 200, std::byte{1});
  const auto neither = ReadOf(*Open(files));
  EXPECT_EQ(neither.status().code(), absl::StatusCode::kDataLoss);
}

TEST(WorkerFolder, AFullDiskKeepsTheLastOneWhichCanStillBeRetired) {
  SimFileSystem files(1);
  const auto folder = Open(files);
  ASSERT_TRUE(folder->Write(OfRound(1)).ok());
  files.faults.capacity_bytes = 600;
  EXPECT_TRUE(absl::IsResourceExhausted(folder->Write(OfRound(2))));
  ASSERT_TRUE(folder->Retire().ok());
  files.Restart(SimFileSystem::Stop::kPower);
  const auto found = Read(*Open(files));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.round, 1u);
  EXPECT_TRUE(found->stale);
}

// Whatever the moment of a power failure: an old checkpoint or the new one, whole, and never one
// that is taken for current after Retire has returned.
TEST(WorkerFolder, ACrashAtAnyMomentLeavesOneWholeCheckpoint) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (uint64_t at = 0;; ++at) {
      SimFileSystem files(seed);
      ASSERT_TRUE(Open(files)->Write(OfRound(1)).ok());
      files.faults.crash_at = files.operations() + at;
      bool written = false, retired = false;
      if (auto folder = WorkerFolder::Open(&files, "state/worker-3"); folder.ok()) {
        written = (*folder)->Write(OfRound(2)).ok();
        retired = written && (*folder)->Retire().ok();
      }
      const bool crashed = files.crashed();
      files.Restart(SimFileSystem::Stop::kPower);
      const auto found = Read(*Open(files));
      ASSERT_TRUE(found.has_value()) << seed << " " << at;
      if (written) {
        EXPECT_EQ(found->checkpoint.round, 2u) << seed << " " << at;
      }
      EXPECT_TRUE(!retired || found->stale) << seed << " " << at;
      if (!crashed) break;
    }
  }
}

}  // namespace
}  // namespace longwave

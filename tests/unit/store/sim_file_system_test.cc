#include "tests/support/sim_file_system.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/store_helpers.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

std::vector<std::byte> Content(FileSystem& files, const std::string& path) {
  const auto bytes = ReadWhole(files, path, 1 << 20);
  LONGWAVE_CHECK(bytes.ok());
  return {bytes->bytes().begin(), bytes->bytes().end()};
}

TEST(SimFileSystem, PowerLossKeepsWhatWasSyncedAndAnyPartOfTheRest) {
  const std::vector<std::byte> synced = TestBytes(200, 1);
  const std::vector<std::byte> rest = TestBytes(300, 2);
  std::set<size_t> sizes;
  bool with_hole = false;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimFileSystem files(seed);
    ASSERT_TRUE(files.CreateFolder("d").ok());
    auto file = files.Create("d/f");
    ASSERT_TRUE(AppendBytes(**file, synced).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE(files.SyncFolder("d").ok());
    ASSERT_TRUE(AppendBytes(**file, rest).ok());
    files.Restart(SimFileSystem::Stop::kPower);
    EXPECT_TRUE(absl::IsAborted((*file)->Sync())) << "of a process that is gone";
    const std::vector<std::byte> left = Content(files, "d/f");
    ASSERT_GE(left.size(), synced.size());
    ASSERT_TRUE(std::equal(synced.begin(), synced.end(), left.begin()));
    sizes.insert(left.size());
    with_hole |= !std::equal(left.begin() + 200, left.end(), rest.begin());
  }
  EXPECT_GT(sizes.size(), 50u);
  EXPECT_TRUE(with_hole);
}

TEST(SimFileSystem, ARenameWithoutASyncOfTheFolderHappenedOrNot) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimFileSystem files(seed);
    ASSERT_TRUE(files.CreateFolder("d").ok());
    auto file = files.Create("d/a");
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE(files.SyncFolder("d").ok());
    ASSERT_TRUE(files.Rename("d/a", "d/b").ok());
    files.Restart(SimFileSystem::Stop::kPower);
    const auto names = files.List("d").value();
    ASSERT_EQ(names.size(), 1u) << "a rename is whole or not at all";
    seen.insert(names[0]);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(SimFileSystem, ASyncedRenameAndAPublishedFileStay) {
  const std::vector<std::byte> bytes = TestBytes(100, 3);
  const std::array<std::span<const std::byte>, 1> pieces = {bytes};
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimFileSystem files(seed);
    ASSERT_TRUE(files.CreateFolder("d").ok());
    ASSERT_TRUE(Publish(files, "d", "f", pieces).ok());
    files.Restart(SimFileSystem::Stop::kPower);
    EXPECT_EQ(Content(files, "d/f"), bytes);
    EXPECT_EQ(files.List("d")->size(), 1u);
  }
}

TEST(SimFileSystem, APublishThatIsInterruptedAnywhereLeavesTheOldOrTheNew) {
  const std::vector<std::byte> before = TestBytes(100, 3), after = TestBytes(150, 4);
  const std::array<std::span<const std::byte>, 1> old_pieces = {before}, new_pieces = {after};
  std::set<size_t> sizes;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimFileSystem files(seed);
    ASSERT_TRUE(files.CreateFolder("d").ok());
    ASSERT_TRUE(Publish(files, "d", "f", old_pieces).ok());
    files.faults.crash_at = files.operations() + seed % 5;
    ASSERT_TRUE(absl::IsAborted(Publish(files, "d", "f", new_pieces)));
    files.Restart(SimFileSystem::Stop::kPower);
    const auto left = Content(files, "d/f");
    EXPECT_TRUE(left == before || left == after) << seed;
    sizes.insert(left.size());
    ASSERT_TRUE(RemoveTemporaries(files, "d").ok());
    EXPECT_EQ(files.List("d")->size(), 1u);
  }
  EXPECT_EQ(sizes.size(), 2u);
}

TEST(SimFileSystem, AfterAFailedSyncALaterOneSaysNothing) {
  bool lost = false;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimFileSystem files(seed);
    ASSERT_TRUE(files.CreateFolder("d").ok());
    auto file = files.Create("d/f");
    ASSERT_TRUE(files.SyncFolder("d").ok());
    const std::vector<std::byte> bytes = TestBytes(300, 5);
    ASSERT_TRUE(AppendBytes(**file, bytes).ok());
    files.faults.failed_sync_at = files.syncs();
    ASSERT_FALSE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Sync().ok());
    EXPECT_EQ(Content(files, "d/f"), bytes) << "readers see it all";
    const bool settled = seed % 2 == 0;
    if (settled) {
      ASSERT_TRUE(files.Settle("d/f", bytes.size()).ok());
    }
    files.Restart(SimFileSystem::Stop::kPower);
    if (settled) {
      EXPECT_EQ(Content(files, "d/f"), bytes);
    }
    lost |= Content(files, "d/f") != bytes;
  }
  EXPECT_TRUE(lost);
}

TEST(SimFileSystem, TheSameSeedGivesTheSameDisk) {
  const auto run = [](uint64_t seed) {
    SimFileSystem files(seed);
    LONGWAVE_CHECK(files.CreateFolder("d").ok());
    auto file = files.Create("d/f");
    LONGWAVE_CHECK(files.SyncFolder("d").ok());
    LONGWAVE_CHECK(AppendBytes(**file, TestBytes(3000, 6)).ok());
    files.Restart(SimFileSystem::Stop::kPower);
    return Content(files, "d/f");
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(SimFileSystem, ALockIsHeldByOneUntilItsProcessEnds) {
  SimFileSystem files(1);
  auto lock = files.Lock("lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(absl::IsUnavailable(files.Lock("lock").status()));
  files.Restart(SimFileSystem::Stop::kProcess);
  auto second = files.Lock("lock");
  ASSERT_TRUE(second.ok());
  lock->reset();
  EXPECT_TRUE(absl::IsUnavailable(files.Lock("lock").status())) << "a dead holder frees nothing";
  second->reset();
  EXPECT_TRUE(files.Lock("lock").ok());
}

}  // namespace
}  // namespace longwave

// The machine's own disk: the same store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "server/store/posix_file_system.h"
#include "server/store/shard_store.h"
#include "tests/support/store_helpers.h"
#include "tests/support/test_folder.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ShardStoreOptions PosixOptions() {
  ShardStoreOptions options;
  options.identity = TestIdentity();
  options.settings = "run:\n  seed: 1\n";
  options.log.file_bytes_max = 16 << 10;
  return options;
}

// A shard with snapshots far apart has thousands of them.
TEST(DeltaLogOnDisk, ReadsMoreFilesThanAProcessMayHaveOpen) {
  TestFolder folder;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  ShardStoreOptions options = PosixOptions();
  options.log.file_bytes_max = kLogFileBytesMin;  // a record each
  constexpr uint32_t kRounds = 100;
  {
    auto store = ShardStore::Open(files.get(), folder.path() + "/shard", options);
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint32_t round = 0; round < kRounds; ++round) {
      ASSERT_TRUE((*store)->log().Append(TestMerged(round, 2, kLogFileBytesMin)).ok());
      ASSERT_TRUE((*store)->log().Sync().ok());
    }
  }
  rlimit all;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
  const rlimit few = {.rlim_cur = 40, .rlim_max = all.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  auto store = ShardStore::Open(files.get(), folder.path() + "/shard", options);
  ASSERT_TRUE(store.ok()) << store.status();
  uint32_t replayed = 0;
  const absl::Status all_read = (*store)->log().Replay(1, [&](uint64_t, const LogRecord&) {
    ++replayed;
    return absl::OkStatus();
  });
  EXPECT_TRUE(all_read.ok()) << all_read;
  EXPECT_GE(replayed, kRounds);
  for (uint32_t round = 0; round < kRounds; ++round)
    EXPECT_TRUE((*store)->log().ReadMerged(2, round).ok()) << round;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
}

TEST(PosixFileSystem, DoesWhatItSays) {
  TestFolder folder;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::string deep = folder.path() + "/a/b/c";
  ASSERT_TRUE(files->CreateFolder(deep).ok());
  ASSERT_TRUE(files->CreateFolder(deep).ok()) << "again";
  const std::string path = deep + "/file";
  const std::vector<std::byte> one = TestBytes(5000, 1), two = TestBytes(300, 2);
  {
    auto file = files->Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const std::array<std::span<const std::byte>, 3> pieces = {one, {}, two};
    ASSERT_TRUE((*file)->Append(pieces).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  EXPECT_TRUE(absl::IsAlreadyExists(files->Create(path).status()));
  std::vector<std::byte> wanted = one;
  wanted.insert(wanted.end(), two.begin(), two.begin() + 100);
  ASSERT_TRUE(files->Settle(path, wanted).ok());
  EXPECT_TRUE(absl::IsOutOfRange(files->Settle(path, TestBytes(5101, 3))));
  EXPECT_TRUE(std::ranges::equal(ReadWhole(*files, path, 5100)->bytes(), wanted));
  EXPECT_TRUE(absl::IsResourceExhausted(ReadWhole(*files, path, 5099).status()));
  {
    auto file = files->OpenToAppend(path);
    ASSERT_TRUE(AppendBytes(**file, two).ok());
  }
  const auto reader = files->OpenToRead(path).value();
  EXPECT_EQ(reader->Size().value(), 5400u);
  std::vector<std::byte> tail(300);
  ASSERT_TRUE(reader->ReadAt(5100, tail).ok());
  EXPECT_EQ(tail, two);
  EXPECT_TRUE(absl::IsOutOfRange(reader->ReadAt(5101, tail)));

  ASSERT_TRUE(files->Rename(path, deep + "/other").ok());
  ASSERT_TRUE(files->SyncFolder(deep).ok());
  EXPECT_THAT(files->List(deep).value(), ElementsAre("other"));
  EXPECT_TRUE(files->List(folder.path() + "/a")->empty()) << "folders are not listed";
  ASSERT_TRUE(files->Remove(deep + "/other").ok());

  for (const absl::Status& status :
       {files->OpenToRead(path).status(), files->OpenToAppend(path).status(), files->Remove(path),
        files->Settle(path, {}), files->Rename(path, deep + "/x")}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

// A run's state tells its tokens' hashes, its model and who takes part.
TEST(PosixFileSystem, StateIsForItsOwnerAlone) {
  TestFolder folder;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::string state = folder.path() + "/deep/state";
  ASSERT_TRUE(ShardStore::Open(files.get(), state, PosixOptions()).ok());
  ASSERT_TRUE(files->Create(state + "/file").ok());
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    EXPECT_EQ(entry.status().permissions() & std::filesystem::perms::all,
              entry.is_directory()
                  ? std::filesystem::perms::owner_all
                  : std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(PosixFileSystem, AppendsMorePiecesThanOneCallTakes) {
  TestFolder folder;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::vector<std::byte> bytes = TestBytes(5000, 3);
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < bytes.size(); ++i) pieces.push_back(std::span(bytes).subspan(i, 1));
  auto file = files->Create(folder.path() + "/f");
  ASSERT_TRUE((*file)->Append(pieces).ok());
  EXPECT_TRUE(std::ranges::equal(ReadWhole(*files, folder.path() + "/f", 5000)->bytes(), bytes));
}

TEST(PosixFileSystem, AFullDiskIsNamedWithBytesWantedAndFree) {
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  auto full = files->OpenToAppend("/dev/full");
  if (!full.ok()) GTEST_SKIP() << "there is no /dev/full: " << full.status();
  const absl::Status status = AppendBytes(**full, TestBytes(777, 1));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/dev/full: the disk is full: wanted 777 bytes, "));
}

TEST(PosixStore, AFolderBelongsToOneProcess) {
  TestFolder folder;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  auto store = ShardStore::Open(files.get(), folder.path(), PosixOptions());
  ASSERT_TRUE(store.ok()) << store.status();
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status =
        ShardStore::Open(files.get(), folder.path(), PosixOptions()).status();
    _exit(absl::IsUnavailable(status) ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0) << "another process opened the folder, or failed for another reason";
  EXPECT_TRUE(
      absl::IsUnavailable(ShardStore::Open(files.get(), folder.path(), PosixOptions()).status()));
  store->reset();
  store = ShardStore::Open(files.get(), folder.path(), PosixOptions());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*LoadCatalog(*files, folder.path()))->incarnation, 2u)
      << "refused openings do not count";
}

}  // namespace
}  // namespace longwave

#include "server/store/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "server/store/posix_file_system.h"
#include "tests/support/test_folder.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CatalogTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Catalog>> Open(const StoreIdentity& identity,
                                                const std::string& settings, uint64_t folder = 0) {
    return Catalog::Open(posix_.get(), folder_.path(), identity, settings, folder);
  }

  TestFolder folder_;
  std::unique_ptr<FileSystem> posix_ = MakePosixFileSystem();
};
TEST_F(CatalogTest, RemembersAll) {
  CatalogContents contents;
  {
    auto catalog = Open(TestIdentity(), "run:\n  seed: 1\n", 0xfedcba9876543210);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    EXPECT_EQ((*catalog)->contents().incarnation, 1u);
    EXPECT_EQ((*catalog)->contents().folder, 0xfedcba9876543210);
    for (uint32_t number = 1; number <= 5; ++number) {
      ASSERT_TRUE((*catalog)->AddLogFile({number, 0xf000000000000000 + number}).ok());
    }
    ASSERT_TRUE((*catalog)->DropLogFilesBefore(3).ok());
    ASSERT_TRUE((*catalog)->SetSnapshots({"b", "a", "c'; --"}).ok());
    contents = (*catalog)->contents();
    EXPECT_THAT(contents.snapshots, ElementsAre("a", "b", "c'; --"));
    EXPECT_EQ(contents.log_files.size(), 3u);
  }
  auto catalog = Open(TestIdentity(), "", 7);  // the word stays that of who made it
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ((*catalog)->contents().settings, "run:\n  seed: 1\n");
  contents.incarnation = 2;
  EXPECT_EQ((*catalog)->contents(), contents);
}

TEST_F(CatalogTest, RefusesAnotherRunShardLayoutAndSettings) {
  ASSERT_TRUE(Open(TestIdentity(), "run:\n  seed: 1\n").ok());
  const auto refusal = [&](const StoreIdentity& identity, const std::string& settings) {
    const absl::Status status = Open(identity, settings).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  StoreIdentity other = TestIdentity();
  other.run = 0xf1;
  EXPECT_EQ(
      refusal(other, ""),
      folder_.path() + ": belongs to another run: got 0123456789abcdef, wanted 00000000000000f1");
  other = TestIdentity();
  other.shard = 7;
  EXPECT_EQ(refusal(other, ""), folder_.path() + ": belongs to another shard: got 3, wanted 7");
  other = TestIdentity();
  other.layout_hash = 0;
  EXPECT_THAT(refusal(other, ""), HasSubstr("got hash feedfacecafebeef, wanted 0000000000000000"));
  EXPECT_EQ(refusal(TestIdentity(), "run:\n  seed: 2\n"),
            folder_.path() +
                ": belongs to a run with other settings: got \"  seed: 1\", wanted \"  seed: 2\"");
  EXPECT_EQ(Open(TestIdentity(), "")->get()->contents().incarnation, 2u) << "refusals do not count";
}

TEST_F(CatalogTest, TakesTheSettingsOfARunThatWasMadeLonger) {
  const std::string steps_4 = "run.steps: 4\nrun.seed: 1\n",
                    steps_8 = "run.steps: 8\nrun.seed: 1\n";
  ASSERT_TRUE(Open(TestIdentity(), steps_4).ok());
  EXPECT_EQ(Open(TestIdentity(), steps_8)->get()->contents().settings, steps_8);
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(TestIdentity(), steps_4).status())) << "shorter";
  EXPECT_EQ(Open(TestIdentity(), "")->get()->contents().settings, steps_8);
}

TEST_F(CatalogTest, RefusesAnotherSchemaAndOtherFiles) {
  ASSERT_TRUE(Open(TestIdentity(), "").ok());
  const std::string path = folder_.path() + "/shard.catalog";
  const absl::StatusOr<Buffer> good = ReadWhole(*posix_, path, 1 << 20);
  ASSERT_TRUE(good.ok()) << good.status();
  const auto refusal_of = [&](std::vector<std::byte> bytes) {
    const std::array<std::span<const std::byte>, 1> pieces = {bytes};
    EXPECT_TRUE(Publish(*posix_, folder_.path(), "shard.catalog", pieces).ok());
    return Open(TestIdentity(), "").status();
  };
  std::vector<std::byte> bytes(good->bytes().begin(), good->bytes().end());
  bytes[4] = std::byte{9};
  absl::Status status = refusal_of(bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(status.message(), path + ": schema: got 9, wanted 3");

  bytes.assign(good->bytes().begin(), good->bytes().end() - 1);
  status = refusal_of(bytes);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("bytes behind its head, wanted "));

  status = refusal_of(TestBytes(5000, 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(path + ": is no catalog of ours: magic: got "));
}

TEST_F(CatalogTest, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const absl::Status status =
      Catalog::Open(posix_.get(), "/nowhere/at/all", TestIdentity(), "").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/at/all/shard.catalog"));
}

// In which the catalog was a database.
TEST_F(CatalogTest, AFolderOfAnOlderVersionIsRefusedWithWhatToDo) {
  ASSERT_TRUE(posix_->Create(folder_.path() + "/shard.db").ok());
  const absl::Status status = Open(TestIdentity(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(status.message(),
            folder_.path() +
                "/shard.db: got a database of an older version of Longwave, which kept its state "
                "in SQLite; wanted a folder of this version: finish the run with the older "
                "version, or set the folder aside to begin anew");
}

TEST(Catalog, EveryFlippedBitIsSeen) {
  SimFileSystem files(1);
  ASSERT_TRUE(files.CreateFolder("d").ok());
  ASSERT_TRUE(Catalog::Open(&files, "d", TestIdentity(), "x: 1").ok());
  const size_t size = ReadWhole(files, "d/shard.catalog", 1 << 20)->size();
  for (size_t bit = 0; bit < 8 * size; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    files.Corrupt("d/shard.catalog", bit / 8, mask);
    EXPECT_FALSE(Catalog::Open(&files, "d", TestIdentity(), "").ok()) << bit;
    files.Corrupt("d/shard.catalog", bit / 8, mask);
  }
}

}  // namespace
}  // namespace longwave

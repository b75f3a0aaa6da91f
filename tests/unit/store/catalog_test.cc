#include "server/store/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <functional>

#include "server/store/posix_file_system.h"
#include "server/store/sqlite_catalog.h"
#include "tests/unit/store/store_testing.h"
#include "tests/unit/store/temporary_folder.h"

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Both kinds answer to the same claims.
class CatalogTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<CatalogBackend> Backend() {
    if (GetParam()) return MakeSqliteCatalog(folder_.path());
    return MakeFileCatalog(posix_.get(), folder_.path());
  }
  absl::StatusOr<std::unique_ptr<Catalog>> Open(const StoreIdentity& identity,
                                                const std::string& settings, uint64_t folder = 0) {
    return Catalog::Open("shard-3", Backend(), identity, settings, folder);
  }

  TemporaryFolder folder_;
  std::unique_ptr<FileSystem> posix_ = MakePosixFileSystem();
};
INSTANTIATE_TEST_SUITE_P(Backends, CatalogTest, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Sqlite") : std::string("File");
});

TEST_P(CatalogTest, RemembersAll) {
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

TEST_P(CatalogTest, RefusesAnotherRunShardLayoutAndSettings) {
  ASSERT_TRUE(Open(TestIdentity(), "run:\n  seed: 1\n").ok());
  const auto refusal = [&](const StoreIdentity& identity, const std::string& settings) {
    const absl::Status status = Open(identity, settings).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  StoreIdentity other = TestIdentity();
  other.run = 0xf1;
  EXPECT_EQ(refusal(other, ""),
            "shard-3: belongs to another run: got 0123456789abcdef, wanted 00000000000000f1");
  other = TestIdentity();
  other.shard = 7;
  EXPECT_EQ(refusal(other, ""), "shard-3: belongs to another shard: got 3, wanted 7");
  other = TestIdentity();
  other.layout_hash = 0;
  EXPECT_THAT(refusal(other, ""), HasSubstr("got hash feedfacecafebeef, wanted 0000000000000000"));
  EXPECT_EQ(
      refusal(TestIdentity(), "run:\n  seed: 2\n"),
      "shard-3: belongs to a run with other settings: got \"  seed: 1\", wanted \"  seed: 2\"");
  EXPECT_EQ(Open(TestIdentity(), "")->get()->contents().incarnation, 2u) << "refusals do not count";
}

TEST(SqliteCatalog, RefusesANewerSchemaAndOtherDatabases) {
  TemporaryFolder folder;
  ASSERT_TRUE(Catalog::Open("d", MakeSqliteCatalog(folder.path()), TestIdentity(), "").ok());
  const auto run = [&](const std::string& path, const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  };
  run(folder.path() + "/shard.db", "PRAGMA user_version = 3");
  absl::Status status =
      Catalog::Open("d", MakeSqliteCatalog(folder.path()), TestIdentity(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("shard.db: schema: got 3, wanted 2"));

  TemporaryFolder foreign;
  run(foreign.path() + "/shard.db", "CREATE TABLE songs (name TEXT)");
  status = Catalog::Open("d", MakeSqliteCatalog(foreign.path()), TestIdentity(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("no catalog of ours"));

  TemporaryFolder text;
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem();
  const std::vector<std::byte> bytes = TestBytes(5000, 1);
  const std::array<std::span<const std::byte>, 1> pieces = {bytes};
  ASSERT_TRUE(Publish(*files, text.path(), "shard.db", pieces).ok());
  status = Catalog::Open("d", MakeSqliteCatalog(text.path()), TestIdentity(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("shard.db"));
}

TEST(SqliteCatalog, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const absl::Status status =
      Catalog::Open("d", MakeSqliteCatalog("/nowhere/at/all"), TestIdentity(), "").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/at/all/shard.db"));
}

TEST(FileCatalog, EveryFlippedBitIsSeen) {
  SimFileSystem files(1);
  ASSERT_TRUE(files.CreateFolder("d").ok());
  ASSERT_TRUE(Catalog::Open("d", MakeFileCatalog(&files, "d"), TestIdentity(), "x: 1").ok());
  const size_t size = ReadWhole(files, "d/shard.catalog", 1 << 20)->size();
  for (size_t bit = 0; bit < 8 * size; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    files.Corrupt("d/shard.catalog", bit / 8, mask);
    EXPECT_FALSE(Catalog::Open("d", MakeFileCatalog(&files, "d"), TestIdentity(), "").ok()) << bit;
    files.Corrupt("d/shard.catalog", bit / 8, mask);
  }
}

}  // namespace
}  // namespace longwave

// Holds the worked examples of proto/LOG.md against the code, byte for byte.

#include <gtest/gtest.h>

#include <string>

#include "server/store/snapshot_content.h"
#include "server/store/snapshot_store.h"
#include "tests/support/example_bytes.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

std::string Example(const std::string& name) { return ExampleBytes(LONGWAVE_LOG_MD, name); }

Buffer PayloadOf(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return Buffer(std::move(bytes));
}

// A disk of shard 3 with an open catalog.
struct Shard {
  SimFileSystem files{1};
  std::unique_ptr<Catalog> catalog;

  Shard() {
    LONGWAVE_CHECK(files.CreateFolder("d").ok());
    catalog = Catalog::Open(&files, "d", TestIdentity(), "").value();
  }
};

TEST(LogMd, ShowsTheFileThatTheLogWrites) {
  Shard shard;
  DeltaLogOptions options;
  options.salt = 0x5a17c0de;
  auto log =
      DeltaLog::Open(&shard.files, "d/log", TestIdentity(), options, shard.catalog.get()).value();

  PushRecord push;
  push.payload = PayloadOf({1, 2, 3, 4, 5});
  push.header = TestPushFrame(17, 3, 2, push.payload.bytes());
  MergedRecord merged;
  merged.payload = PayloadOf({9, 8, 7});
  merged.header = TestFrame<MergedFrame>(17, 2, merged.payload.bytes());
  merged.header.contributions = 1;
  merged.residual_hash = 0x1122334455667788;
  merged.contributors = {{3, 61440, 1, push.header.payload_crc}};
  MembershipRecord membership;
  membership.membership = {2, {{3, "anna", 0}}};
  ASSERT_TRUE(log->Append(push).ok());
  ASSERT_TRUE(log->Append(merged).ok());
  ASSERT_TRUE(log->Append(membership).ok());
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Append(NoteRecord{18, "round 18 opens"}).ok());
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Append(RestoredRecord{2, 20, 3}).ok());
  ASSERT_TRUE(log->Sync().ok());

  const auto file = ReadWhole(shard.files, "d/log/00000001.lwlog", 1 << 20);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Example("file") + Example("push") + Example("merged") + Example("membership") +
                Example("note") + Example("restored"),
            Hex(file->bytes()));
}

TEST(LogMd, ShowsTheSnapshotThatTheStoreWrites) {
  Shard shard;
  auto store =
      SnapshotStore::Open(&shard.files, "d/snap", TestIdentity(), shard.catalog.get()).value();
  const std::vector<float> first = {1, -0.5f}, second = {0.25f};
  const std::vector<std::span<const float>> segments = {first, second};
  ASSERT_TRUE(store
                  ->Write({SnapshotKind::kModel, 2, 2, 18}, 5, EncodeModelContent(segments),
                          Compression::kNone)
                  .ok());
  const auto file =
      ReadWhole(shard.files, "d/snap/model-00000002-00000002-r00000018.lwsnap", 1 << 20);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Example("snapshot"), Hex(file->bytes()));
}

}  // namespace
}  // namespace longwave

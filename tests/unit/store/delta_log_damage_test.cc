// Files that are not as they were written: a torn tail is cut, everything else is refused, and
// never is a record read that was not written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/byte_stream.h"
#include "tests/support/store_helpers.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kDamageRecords = 24;

// A disk with kDamageRecords records in three files or so, the last sync of which held the last
// record alone.
struct Written {
  SimFileSystem files{1};
  LogOnDisk disk{&files};
  std::vector<std::string> names;

  Written() {
    LONGWAVE_CHECK(disk.Open().ok());
    for (uint32_t i = 0; i < kDamageRecords; ++i) {
      LONGWAVE_CHECK(disk.log().Append(TestRecord(i)).ok());
      LONGWAVE_CHECK(disk.log().Sync().ok());
    }
    names = files.List("disk/log").value();
    LONGWAVE_CHECK(names.size() >= 3);
    disk.Close();
  }
  std::string Path(size_t file) const { return "disk/log/" + names[file]; }
  size_t Size(size_t file) { return ReadWhole(files, Path(file), 1 << 20)->size(); }
};

// Whether it opened; then it holds the first of the records, at least `least` of them.
bool OpensWithPrefix(Written& written, uint32_t least) {
  const absl::Status status = written.disk.Open();
  if (!status.ok()) {
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(".lwlog"));
    return false;
  }
  const auto records = written.disk.Records();
  EXPECT_TRUE(records.ok()) << records.status();
  const auto expected = ExpectedRecords(kDamageRecords);
  EXPECT_GE(records->size(), least);
  EXPECT_LE(records->size(), expected.size());
  EXPECT_TRUE(std::equal(records->begin(), records->end(), expected.begin()));
  EXPECT_EQ(written.disk.log().recovery().cut_bytes == 0,
            written.disk.log().recovery().cut.empty());
  return true;
}

TEST(DeltaLogDamage, EveryFlippedBitIsRefusedOrCut) {
  const size_t files = Written().names.size();
  for (size_t file = 0; file < files; ++file) {
    const bool is_last = file + 1 == files;
    const size_t size = Written().Size(file);
    uint32_t opened = 0;
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      Written written;
      written.files.Corrupt(written.Path(file), bit / 8, std::byte{1} << (bit % 8));
      // In the last file, only the last record can be taken for one that was never synced.
      if (OpensWithPrefix(written, kDamageRecords - 1)) {
        ++opened;
        EXPECT_TRUE(is_last) << "file " << file << ", bit " << bit;
        EXPECT_EQ(written.disk.log().next_sequence(), kDamageRecords);
        EXPECT_THAT(written.disk.log().recovery().cut, HasSubstr(written.Path(file)));
      }
      if (testing::Test::HasFailure()) {
        FAIL() << "file " << file << ", bit " << bit;
      }
    }
    if (is_last) {
      EXPECT_GT(opened, 0u);
    }
  }
}

TEST(DeltaLogDamage, EveryTruncationOfTheLastFileIsCutAndOfOthersRefused) {
  const size_t files = Written().names.size();
  for (size_t file = 0; file < files; ++file) {
    const size_t size = Written().Size(file);
    for (size_t length = 0; length < size; ++length) {
      Written written;
      ASSERT_TRUE(CutFile(written.files, written.Path(file), length).ok());
      // A file that lost its whole end cannot show the loss, but must not show other records.
      const bool opens = OpensWithPrefix(written, 0);
      const bool may_open = file + 1 == files && length >= kLogFileHeaderBytes;
      ASSERT_EQ(opens, may_open) << "file " << file << ", length " << length;
    }
  }
}

class DeltaLogOfOneFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.Open().ok()); }

  SimFileSystem files_{1};
  LogOnDisk disk_{&files_, 1 << 20};
};

TEST_F(DeltaLogOfOneFile, ATornGroupIsCutAtItsFirstHole) {
  // Three records in one sync that never came back: the first is damaged, the others are whole.
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(disk_.log().Append(TestRecord(i)).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  const uint64_t group = disk_.log().file_bytes();
  for (uint32_t i = 4; i < 7; ++i) ASSERT_TRUE(disk_.log().Append(TestRecord(i)).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  disk_.Close();
  files_.Corrupt("disk/log/00000001.lwlog", group + 40, std::byte{1});
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.Records().value(), ExpectedRecords(4));
  EXPECT_THAT(disk_.log().recovery().cut, HasSubstr("offset " + std::to_string(group)));
}

TEST_F(DeltaLogOfOneFile, AHoleBeforeASyncedRecordIsLossWithFileAndOffset) {
  ASSERT_TRUE(disk_.log().Append(TestRecord(0)).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  const uint64_t second = disk_.log().file_bytes();
  for (uint32_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(disk_.log().Append(TestRecord(i)).ok());
    ASSERT_TRUE(disk_.log().Sync().ok());
  }
  disk_.Close();
  files_.Corrupt("disk/log/00000001.lwlog", second + 50, std::byte{0x80});
  const absl::Status status = disk_.Open();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("disk/log/00000001.lwlog, offset " +
                                          std::to_string(second) + ": record 2: CRC32C"));
  EXPECT_THAT(status.message(), HasSubstr("had been synced"));
}

TEST_F(DeltaLogOfOneFile, APayloadThatLooksLikeARecordProvesNothing) {
  // A worker's payload holds a whole record of a far later time, right but for the file's salt, and
  // the push that it came in is torn. Without the salt the log would take this for the loss of a
  // synced record.
  const NoteRecord note{9, "forged"};
  const auto body = EncodeLogBody(note);
  const auto forged = EncodeLogRecordHead({LogKind::kNote, 1000, 0, body->bytes, body->crc}, 0);
  std::vector<std::byte> payload(forged.begin(), forged.end());
  payload.insert(payload.end(), body->front.begin(), body->front.end());
  payload.resize(AlignedUp(payload.size()));
  const uint64_t start = disk_.log().file_bytes();
  const PushFrame header = TestPushFrame(1, 1, 1, payload);
  ASSERT_TRUE(disk_.log().Append(PushRecord{header, Buffer(payload)}).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  disk_.Close();
  files_.Corrupt("disk/log/00000001.lwlog", start + 40, std::byte{1});
  ASSERT_TRUE(disk_.Open().ok());
  EXPECT_EQ(disk_.log().recovery().next_sequence, 1u);
}

TEST(DeltaLogDamage, AMissingFileIsNamed) {
  for (size_t file = 0; file < Written().names.size(); ++file) {
    Written written;
    ASSERT_TRUE(written.files.Remove(written.Path(file)).ok());
    const absl::Status status = written.disk.Open();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(written.Path(file) + ": is gone"));
  }
}

TEST(DeltaLogDamage, FilesInEachOthersPlaceAreRefused) {
  Written written;
  ASSERT_TRUE(written.files.Rename(written.Path(0), "disk/log/x").ok());
  ASSERT_TRUE(written.files.Rename(written.Path(1), written.Path(0)).ok());
  ASSERT_TRUE(written.files.Rename("disk/log/x", written.Path(1)).ok());
  const absl::Status status = written.disk.Open();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("got the header of file 2"));
}

TEST_F(DeltaLogOfOneFile, DamageAfterTheStartIsSeenByReaders) {
  ASSERT_TRUE(disk_.log().Append(TestMerged(1, 2, 50)).ok());
  ASSERT_TRUE(disk_.log().Sync().ok());
  files_.Corrupt("disk/log/00000001.lwlog", disk_.log().file_bytes() - 10, std::byte{1});
  EXPECT_TRUE(absl::IsDataLoss(disk_.log().ReadMerged(2, 1).status()));
  EXPECT_TRUE(absl::IsDataLoss(disk_.Records().status()));
}

}  // namespace
}  // namespace longwave

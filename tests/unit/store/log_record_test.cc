#include "server/store/log_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/store/log_format.h"
#include "tests/unit/store/store_testing.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

TEST(LogRecord, RoundTripsEveryKind) {
  for (uint32_t number = 0; number < 10; ++number) {
    const LogRecord record = TestRecord(number);
    const std::vector<std::byte> bytes = BytesOf(record);
    const auto owner = std::make_shared<int>(0);
    const auto again = DecodeLogBody(KindOf(record), std::span(bytes).subspan(1), owner);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(BytesOf(*again), bytes);
  }
}

TEST(LogRecord, RefusesToWriteWhatItCouldNotRead) {
  PushRecord push = TestPush(1, 2, 3, 40);
  push.header.payload_crc ^= 1;
  EXPECT_THAT(EncodeLogBody(push).status().message(), HasSubstr("CRC32C"));
  push = TestPush(1, 2, 3, 40);
  push.header.payload_bytes = 39;
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeLogBody(push).status()));

  MergedRecord merged = TestMerged(1, 2, 40);
  merged.header.contributions = 3;
  EXPECT_THAT(EncodeLogBody(merged).status().message(), HasSubstr("got 2 contributors"));
  merged = TestMerged(1, 2, 40);
  std::swap(merged.contributors[0], merged.contributors[1]);
  EXPECT_THAT(EncodeLogBody(merged).status().message(), HasSubstr("ascending"));
  for (const double factor : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    merged = TestMerged(1, 2, 40);
    merged.contributors[1].factor = factor;
    EXPECT_THAT(EncodeLogBody(merged).status().message(), HasSubstr("factor"));
  }

  EXPECT_THAT(
      EncodeLogBody(NoteRecord{1, std::string(kLogNoteBytesMax + 1, 'a')}).status().message(),
      HasSubstr("4097 bytes"));
  EXPECT_THAT(EncodeLogBody(NoteRecord{1, "\xff"}).status().message(), HasSubstr("UTF-8"));
  MembershipRecord membership = TestMembership(1);
  membership.membership.members[0].name = std::string(kLogNameBytesMax + 1, 'a');
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeLogBody(membership).status()));
}

TEST(LogRecord, RefusesAFrameOfAnotherKind) {
  const std::vector<std::byte> bytes = BytesOf(TestPush(1, 2, 3, 40));
  const auto got = DecodeLogBody(LogKind::kMerged, std::span(bytes).subspan(1), nullptr);
  EXPECT_THAT(got.status().message(), HasSubstr("got push, wanted merged"));
}

TEST(LogRecord, RefusesBodiesOfEveryOtherLength) {
  for (uint32_t number = 0; number < 5; ++number) {
    const LogRecord record = TestRecord(number);
    const std::vector<std::byte> bytes = BytesOf(record);
    const auto body = std::span(bytes).subspan(1);
    for (size_t length = 0; length < body.size(); ++length) {
      const auto got = DecodeLogBody(KindOf(record), body.first(length), nullptr);
      // A note's text may end anywhere: there the record's head alone tells.
      if (KindOf(record) == LogKind::kNote && length >= 4) continue;
      EXPECT_FALSE(got.ok()) << Name(KindOf(record)) << " of " << length;
    }
  }
}

TEST(LogFormat, EveryFlippedBitOfAHeadIsSeen) {
  const LogRecordHead head{LogKind::kMerged, 77, 3, 100, 0x12345678};
  const auto bytes = EncodeLogRecordHead(head, 9);
  ASSERT_EQ(DecodeLogRecordHead(bytes, 9).value(), head);
  EXPECT_TRUE(absl::IsDataLoss(DecodeLogRecordHead(bytes, 8).status())) << "another file's salt";
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(DecodeLogRecordHead(flipped, 9).status())) << bit;
  }
}

TEST(LogFormat, EveryFlippedBitOfAFileHeaderIsSeen) {
  const LogFileHeader header{TestIdentity(), 5, 1234, 0x5a5a5a5a};
  const auto bytes = EncodeLogFileHeader(header);
  ASSERT_EQ(DecodeLogFileHeader(bytes).value(), header);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(DecodeLogFileHeader(flipped).ok()) << bit;
  }
}

}  // namespace
}  // namespace longwave

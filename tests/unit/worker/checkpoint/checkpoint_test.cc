#include "worker/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/wire/bytes.h"
#include "server/store/snapshot_format.h"
#include "tests/unit/worker/checkpoint/checkpoint_testing.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

constexpr size_t kHeaderHashAt = kCheckpointHeaderBytes - 8;
constexpr size_t kBodyHashAt = kCheckpointHeaderBytes - 16;

// With both hashes put right.
std::vector<std::byte> Rehashed(std::vector<std::byte> file) {
  const auto all = std::span<const std::byte>(file);
  StoreLe<uint64_t>(HashContent(all.subspan(kCheckpointHeaderBytes)), file.data() + kBodyHashAt);
  StoreLe<uint64_t>(HashContent(all.first(kHeaderHashAt)), file.data() + kHeaderHashAt);
  return file;
}

absl::Status Decode(std::vector<std::byte> file) {
  return DecodeCheckpoint(Buffer(std::move(file)), TestShape()).status();
}

TEST(Checkpoint, ComesBackAsItWas) {
  const auto decoded = DecodeCheckpoint(Buffer(FileOf(TestCheckpoint())), TestShape());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, TestCheckpoint());
  EXPECT_EQ(FileOf(*decoded), FileOf(TestCheckpoint()));
}

TEST(Checkpoint, PartsBeginAtMultiplesOfEight) {
  EXPECT_EQ(FileOf(TestCheckpoint()).size() % 8, 0u);
  Checkpoint bare = TestCheckpoint();
  bare.pushes.clear();
  bare.name.clear();
  const auto decoded = DecodeCheckpoint(Buffer(FileOf(bare)), TestShape());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, bare);
}

TEST(Checkpoint, ItsHeaderTellsWhatItIsOf) {
  Checkpoint checkpoint = TestCheckpoint();
  const auto head_of = [](const Checkpoint& of) {
    const std::vector<std::byte> file = FileOf(of);
    return DecodeCheckpointHead(std::span(file).first(kCheckpointHeaderBytes)).value();
  };
  EXPECT_EQ(head_of(checkpoint).file_bytes, FileOf(checkpoint).size());
  EXPECT_EQ(head_of(checkpoint).accounted_rounds, 13u);
  // Between two fragments the sent part of the round is not in the residual.
  checkpoint.pushes.clear();
  EXPECT_EQ(head_of(checkpoint).accounted_rounds, 13u);
  checkpoint.fragment = 0;
  EXPECT_EQ(head_of(checkpoint).accounted_rounds, 12u);
}

TEST(Checkpoint, EveryChangedByteIsFound) {
  const std::vector<std::byte> file = FileOf(TestCheckpoint());
  for (size_t i = 0; i < file.size(); ++i) {
    std::vector<std::byte> damaged = file;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(Decode(damaged).ok()) << i;
  }
}

TEST(Checkpoint, EveryCutIsFound) {
  const std::vector<std::byte> file = FileOf(TestCheckpoint());
  for (size_t size = 0; size < file.size(); ++size) {
    const auto status = Decode({file.begin(), file.begin() + static_cast<ptrdiff_t>(size)});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(Checkpoint, RejectsWhatGoesOnAfterItsEnd) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  file.resize(file.size() + 8);
  EXPECT_THAT(std::string(Decode(file).message()), HasSubstr("bytes after the header"));
}

TEST(Checkpoint, RefusesAnotherVersionWithWhatIsToBeDone) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  StoreLe<uint16_t>(4, file.data() + 4);
  EXPECT_EQ(Decode(file),
            absl::FailedPreconditionError(
                "checkpoint: got version 4, wanted 3: another release of Longwave wrote it; finish "
                "the run with that release, or move the file away: the worker then comes back "
                "without its optimizer's state and without the residual that it had not sent yet"));
  // Version 2 began as a shard's catalog does.
  StoreLe<uint32_t>(0x3143574c, file.data());
  StoreLe<uint16_t>(2, file.data() + 4);
  EXPECT_EQ(Decode(file).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Decode(file).message()), HasSubstr("got version 2, wanted 3"));
  StoreLe<uint32_t>(0x3143574d, file.data());
  EXPECT_EQ(Decode(file).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Checkpoint, RejectsArraysOfOtherLengths) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.momentum.push_back(1);
  EXPECT_THAT(std::string(Decode(FileOf(checkpoint)).message()),
              HasSubstr("got 8 coefficients, wanted 7"));
}

TEST(Checkpoint, RejectsPushesThatNobodyCouldHavePosted) {
  const size_t table = kCheckpointHeaderBytes + 8 + 16;  // the name has eight bytes
  const struct {
    size_t at;
    uint32_t value;
  } kBad[] = {{table, 4},                 // no such segment
              {table, 3},                 // the same as the next one
              {table + 4, 0x7fc00000},    // a norm that is none
              {table + 20, 0xffffffff}};  // a length beyond every frame
  for (const auto& bad : kBad) {
    std::vector<std::byte> file = FileOf(TestCheckpoint());
    StoreLe<uint32_t>(bad.value, file.data() + bad.at);
    EXPECT_THAT(std::string(Decode(Rehashed(file)).message()),
                HasSubstr("nobody could have posted"))
        << bad.at;
  }
}

TEST(Checkpoint, RejectsPaddingThatIsNotZero) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  file.back() = std::byte{1};  // behind the three bytes of the payload
  EXPECT_THAT(std::string(Decode(Rehashed(file)).message()), HasSubstr("not as long as the file"));
}

TEST(Checkpoint, RejectsNumbersThatAreNone) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.seconds_computing = std::nan("");
  EXPECT_EQ(Decode(FileOf(checkpoint)).code(), absl::StatusCode::kDataLoss);
  checkpoint = TestCheckpoint();
  checkpoint.seconds_syncing = -1;
  EXPECT_EQ(Decode(FileOf(checkpoint)).code(), absl::StatusCode::kDataLoss);
}

TEST(Checkpoint, RejectsBlobsThatNobodyCouldHaveSaved) {
  // Behind the table of two pushes.
  const size_t table = kCheckpointHeaderBytes + 8 + 16 + 48;
  const auto decode_with = [&](size_t at, uint64_t value) {
    std::vector<std::byte> file = FileOf(TestCheckpoint());
    StoreLe<uint64_t>(value, file.data() + at);
    return std::string(Decode(Rehashed(file)).message());
  };
  const size_t payload_bytes = kCheckpointHeaderBytes + 8 + 16 + 16;  // of the first push
  EXPECT_THAT(decode_with(payload_bytes, 1000), HasSubstr("not as long as the file"));
  EXPECT_THAT(decode_with(table, 1000), HasSubstr("not as long as the file"));
  EXPECT_THAT(decode_with(table, ~uint64_t{0}), HasSubstr("not as long as the file"));
  EXPECT_THAT(decode_with(table + 8, 6 | uint64_t{'n'} << 32), HasSubstr("not as long as"));
  EXPECT_THAT(decode_with(112, 65), HasSubstr("got 65 blobs, wanted at most 64"));
  // Two of one name, which both end where their names do.
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.blobs[0].name = "nona";
  std::vector<std::byte> file = FileOf(checkpoint);
  file[table + 8 + 4 + 3] = std::byte{'e'};
  EXPECT_THAT(std::string(Decode(Rehashed(file)).message()), HasSubstr("got none a second time"));
}

TEST(Checkpoint, TakesAsManyBlobsAsItMay) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.blobs.clear();
  for (size_t i = 0; i < kCheckpointBlobsMax; ++i) {
    checkpoint.blobs.push_back({.name = std::string(i + 1, 'x'), .bytes = BytesOf({1})});
  }
  const auto decoded = DecodeCheckpoint(Buffer(FileOf(checkpoint)), TestShape());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, checkpoint);
  checkpoint.blobs.push_back({.name = "one more", .bytes = Buffer()});
  EXPECT_EQ(EncodeCheckpoint(checkpoint).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Checkpoint, IsNotWrittenWithBlobsWithoutANameOfTheirOwn) {
  for (const std::string& name : {std::string(), std::string(65, 'x'), std::string("none")}) {
    Checkpoint checkpoint = TestCheckpoint();
    checkpoint.blobs[0].name = name;
    EXPECT_EQ(EncodeCheckpoint(checkpoint).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(Checkpoint, IsNotWrittenWithPushesOutOfOrderOrALongName) {
  Checkpoint checkpoint = TestCheckpoint();
  std::swap(checkpoint.pushes[0], checkpoint.pushes[1]);
  EXPECT_EQ(EncodeCheckpoint(checkpoint).status().code(), absl::StatusCode::kInvalidArgument);
  checkpoint = TestCheckpoint();
  checkpoint.name.assign(kCheckpointNameBytesMax + 1, 'x');
  EXPECT_EQ(EncodeCheckpoint(checkpoint).status().code(), absl::StatusCode::kInvalidArgument);
  checkpoint = TestCheckpoint();
  checkpoint.accounted.pop_back();  // of a segment that has a push
  EXPECT_EQ(EncodeCheckpoint(checkpoint).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace longwave

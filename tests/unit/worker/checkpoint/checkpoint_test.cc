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

TEST(Checkpoint, IsNeverLargerThanItMayBe) {
  EXPECT_LE(FileOf(TestCheckpoint()).size(), CheckpointBytesMax(TestShape()));
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

TEST(Checkpoint, RejectsAnotherVersionByItsNumber) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  StoreLe<uint16_t>(1, file.data() + 4);
  EXPECT_EQ(Decode(file), absl::InvalidArgumentError("checkpoint: got version 1, wanted 2"));
}

TEST(Checkpoint, AnotherLayoutsIsToldApart) {
  CheckpointShape shape = TestShape();
  shape.layout_hash = 1;
  EXPECT_EQ(DecodeCheckpoint(Buffer(FileOf(TestCheckpoint())), shape).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Checkpoint, RejectsArraysOfOtherLengths) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.momentum.push_back(1);
  EXPECT_THAT(std::string(Decode(FileOf(checkpoint)).message()),
              HasSubstr("got 5 parameters and 8 coefficients, wanted 5 and 7"));
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

TEST(Checkpoint, RejectsPayloadsLongerThanTheFile) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  StoreLe<uint64_t>(1000, file.data() + kCheckpointHeaderBytes + 8 + 16 + 16);
  EXPECT_THAT(std::string(Decode(Rehashed(file)).message()), HasSubstr("not as long as the file"));
}

TEST(Checkpoint, RejectsPaddingThatIsNotZero) {
  std::vector<std::byte> file = FileOf(TestCheckpoint());
  file.back() = std::byte{1};  // behind the three bytes of the payload
  EXPECT_THAT(std::string(Decode(Rehashed(file)).message()), HasSubstr("not as long as the file"));
}

TEST(Checkpoint, RejectsNumbersThatAreNone) {
  Checkpoint checkpoint = TestCheckpoint();
  checkpoint.beta1_power = std::nan("");
  EXPECT_EQ(Decode(FileOf(checkpoint)).code(), absl::StatusCode::kDataLoss);
  checkpoint = TestCheckpoint();
  checkpoint.seconds_syncing = -1;
  EXPECT_EQ(Decode(FileOf(checkpoint)).code(), absl::StatusCode::kDataLoss);
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

#include "common/wire/snapshot_payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/bytes.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;

std::vector<std::byte> Encode(const std::vector<std::vector<float>>& arrays) {
  const std::vector<std::span<const float>> spans(arrays.begin(), arrays.end());
  const Buffer payload = EncodeSnapshotPayload(spans);
  return {payload.bytes().begin(), payload.bytes().end()};
}

std::vector<std::vector<float>> SomeArrays(size_t count, size_t elements) {
  Rng rng(elements);
  std::vector<std::vector<float>> arrays(count);
  for (auto& array : arrays) array = RandomValues(elements, 0.02f, rng);
  return arrays;
}

// Replaces the bytes after the head.
std::vector<std::byte> WithFrame(std::vector<std::byte> payload, std::span<const std::byte> frame) {
  payload.resize(kSnapshotPayloadHeadBytes);
  payload.insert(payload.end(), frame.begin(), frame.end());
  return payload;
}

std::vector<std::byte> Compressed(std::span<const std::byte> raw) {
  std::vector<std::byte> frame(ZSTD_compressBound(raw.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), raw.data(), raw.size(), 1));
  return frame;
}

void ExpectRefused(std::span<const std::byte> payload, uint32_t arrays, uint64_t elements,
                   absl::StatusCode code, const std::string& what) {
  const absl::Status status = DecodeSnapshotPayload(payload, arrays, elements).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("snapshot payload: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

TEST(SnapshotPayload, GivesBackEveryArrayToTheBit) {
  for (const size_t count : {1, 2}) {
    for (const size_t elements : {1, 7, 4096, 300'000}) {
      auto arrays = SomeArrays(count, elements);
      arrays[0][0] = std::numeric_limits<float>::signaling_NaN();
      arrays.back().back() = -0.0f;
      const auto decoded =
          DecodeSnapshotPayload(Encode(arrays), static_cast<uint32_t>(count), elements);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ASSERT_EQ(decoded->size(), count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ((*decoded)[i].size(), elements);
        EXPECT_EQ(std::memcmp((*decoded)[i].data(), arrays[i].data(), elements * sizeof(float)), 0);
      }
    }
  }
}

TEST(SnapshotPayload, IsSmallerThanWhatItHolds) {
  EXPECT_LT(Encode(SomeArrays(1, 100'000)).size(), 380'000u);
  EXPECT_LT(Encode({std::vector<float>(100'000, 0.0f)}).size(), 1000u);
}

TEST(SnapshotPayload, RefusesAnotherHead) {
  const std::vector<std::byte> good = Encode(SomeArrays(2, 10));
  using enum absl::StatusCode;
  for (size_t bytes = 0; bytes < kSnapshotPayloadHeadBytes; ++bytes) {
    ExpectRefused(std::span(good).first(bytes), 2, 10, kInvalidArgument, "wanted a head of 24");
  }
  std::vector<std::byte> other = good;
  other[0] ^= std::byte{1};
  ExpectRefused(other, 2, 10, kInvalidArgument, "magic: got ");
  ExpectRefused(good, 1, 10, kInvalidArgument, "got 2 arrays of 10 elements, wanted 1 of 10");
  ExpectRefused(good, 2, 11, kInvalidArgument, "got 2 arrays of 10 elements, wanted 2 of 11");
  // An array of twenty has as many bytes, and is a different content.
  ExpectRefused(good, 1, 20, kInvalidArgument, "got 2 arrays of 10");
}

TEST(SnapshotPayload, RefusesAHeadThatPromisesMoreThanItsFrame) {
  std::vector<std::byte> payload = Encode(SomeArrays(1, 10));
  StoreLe<uint64_t>(uint64_t{1} << 40, payload.data() + 8);
  // The error comes before the decoder requests four terabytes.
  ExpectRefused(payload, 1, uint64_t{1} << 40, absl::StatusCode::kDataLoss, "another length");
}

TEST(SnapshotPayload, RefusesAFrameThatIsNotWholeOrNotAlone) {
  const std::vector<std::byte> good = Encode(SomeArrays(1, 1000));
  for (size_t bytes = kSnapshotPayloadHeadBytes; bytes < good.size(); ++bytes) {
    EXPECT_EQ(DecodeSnapshotPayload(std::span(good).first(bytes), 1, 1000).status().code(),
              absl::StatusCode::kDataLoss);
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  ExpectRefused(longer, 1, 1000, absl::StatusCode::kDataLoss, "one whole zstd frame");
  // A second, empty frame, which a decompressor would take along.
  longer.pop_back();
  const std::vector<std::byte> empty = Compressed({});
  longer.insert(longer.end(), empty.begin(), empty.end());
  ExpectRefused(longer, 1, 1000, absl::StatusCode::kDataLoss, "one whole zstd frame");
}

TEST(SnapshotPayload, RefusesAFrameOfAnotherContent) {
  const auto arrays = SomeArrays(1, 1000);
  const std::vector<std::byte> good = Encode(arrays);
  auto other = arrays;
  other[0][500] = 9;
  ExpectRefused(WithFrame(good, Compressed(std::as_bytes(std::span(other[0])))), 1, 1000,
                absl::StatusCode::kDataLoss, "XXH3-64: got ");
  other[0].pop_back();
  ExpectRefused(WithFrame(good, Compressed(std::as_bytes(std::span(other[0])))), 1, 1000,
                absl::StatusCode::kDataLoss, "another length");
  ExpectRefused(WithFrame(good, Bytes({1, 2, 3, 4, 5, 6, 7, 8})), 1, 1000,
                absl::StatusCode::kDataLoss, "another length");
}

TEST(SnapshotPayload, RefusesEveryFlippedByte) {
  const auto arrays = SomeArrays(2, 50);
  const std::vector<std::byte> good = Encode(arrays);
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> flipped = good;
    flipped[at] ^= std::byte{0x55};
    const auto decoded = DecodeSnapshotPayload(flipped, 2, 50);
    // Some bits of a zstd frame have no effect; the decoded content is unchanged.
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, arrays) << at;
    }
    if (at < kSnapshotPayloadHeadBytes) {
      EXPECT_FALSE(decoded.ok()) << at;
    }
  }
}

}  // namespace
}  // namespace longwave

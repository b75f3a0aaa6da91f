#include "common/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeader Sample() {
  return {.kind = FrameKind::kPush,
          .run = 0x0123456789abcdef,
          .epoch = 1,
          .round = 17,
          .worker = 3,
          .segment = 2,
          .weight = 61440,
          .norm = 0.5f,
          .contributions = 0,
          .payload_bytes = 40,
          .payload_crc = 0xdeadbeef};
}

HeaderBytes Encode(const FrameHeader& header) {
  HeaderBytes bytes;
  bytes.fill(std::byte{0xaa});
  EncodeFrameHeader(header, bytes);
  return bytes;
}

// Decodes changed bytes with a correct CRC, as from a writer that meant them.
absl::Status DecodeWith(size_t at, std::vector<std::byte> change) {
  HeaderBytes bytes = Encode(Sample());
  std::copy(change.begin(), change.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  StoreLe<uint32_t>(Crc32c(std::span<const std::byte>(bytes).first(60)), bytes.data() + 60);
  return DecodeFrameHeader(bytes).status();
}

TEST(FrameEncode, PutsEachFieldWhereTheFormatSays) {
  const HeaderBytes bytes = Encode(Sample());
  const std::byte* at = bytes.data();
  EXPECT_EQ(std::vector<std::byte>(at, at + 8), Bytes({'L', 'W', 'W', '1', 1, 0, 2, 0}));
  EXPECT_EQ(LoadLe<uint64_t>(at + 8), 0x0123456789abcdefu);
  EXPECT_EQ(LoadLe<uint32_t>(at + 16), 1u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 20), 17u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 24), 3u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 28), 2u);
  EXPECT_EQ(LoadLe<uint64_t>(at + 32), 61440u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 40), 0x3f000000u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 44), 0u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 48), 40u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 52), 0xdeadbeefu);
  EXPECT_EQ(LoadLe<uint32_t>(at + 56), 0u);
  EXPECT_EQ(LoadLe<uint32_t>(at + 60), Crc32c(std::span<const std::byte>(bytes).first(60)));
}

TEST(FrameDecode, GivesBackEveryHeader) {
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    FrameHeader header;
    header.kind = static_cast<FrameKind>(1 + rng.Below(8));
    header.outcome = static_cast<Outcome>(rng.Below(8));
    header.run = rng.Next();
    header.epoch = static_cast<uint32_t>(rng.Next());
    header.round = static_cast<uint32_t>(rng.Next());
    header.worker = static_cast<uint32_t>(rng.Next());
    header.segment = static_cast<uint32_t>(rng.Next());
    header.weight = rng.Next();
    header.norm = static_cast<float>(rng.Uniform() * 1e30);
    header.contributions = static_cast<uint32_t>(rng.Next());
    header.payload_bytes = static_cast<uint32_t>(rng.Below(kPayloadBytesMax + 1));
    header.payload_crc = static_cast<uint32_t>(rng.Next());
    if (header.kind == FrameKind::kAnswer && header.outcome == Outcome::kDuplicate) {
      header.held = static_cast<uint32_t>(rng.Next());
    }
    const auto decoded = DecodeFrameHeader(Encode(header));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, header);
  }
}

TEST(FrameDecode, RejectsEveryOtherLength) {
  const HeaderBytes bytes = Encode(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeFrameHeader(std::span(bytes).first(size)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_THAT(std::string(DecodeFrameHeader(longer).status().message()),
              HasSubstr("got 65 bytes, wanted 64"));
}

TEST(FrameDecode, RejectsEveryFlippedBit) {
  for (size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    HeaderBytes bytes = Encode(Sample());
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const absl::Status status = DecodeFrameHeader(bytes).status();
    // Magic and version determine the format, hence the place of its CRC.
    EXPECT_EQ(status.code(),
              bit < 8 * 6 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss)
        << bit;
  }
}

TEST(FrameDecode, NamesTheMagicAndTheVersionThatItGot) {
  EXPECT_THAT(std::string(DecodeWith(0, Bytes({'H', 'T', 'T', 'P'})).message()),
              HasSubstr("magic: got 50545448, wanted 3157574c"));
  EXPECT_THAT(std::string(DecodeWith(4, Bytes({2, 0})).message()),
              HasSubstr("version: got 2, wanted 1"));
}

TEST(FrameDecode, RejectsAnUnknownKind) {
  for (int kind : {0, 9, 255}) {
    const absl::Status status = DecodeWith(6, Bytes({kind}));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("kind"));
  }
}

TEST(FrameDecode, RejectsAnUnknownOutcome) {
  EXPECT_THAT(std::string(DecodeWith(7, Bytes({8})).message()), HasSubstr("outcome: got 8"));
}

TEST(FrameDecode, RejectsAHeldCrcInWhatIsNoDuplicate) {
  for (size_t at = 56; at < 60; ++at) {
    EXPECT_THAT(std::string(DecodeWith(at, Bytes({1})).message()), HasSubstr("held: got"));
  }
}

TEST(FrameCodec, AnAnswerToAHelloCountsFrames) {
  FrameHeader header;
  header.kind = FrameKind::kAnswer;
  header.outcome = Outcome::kAccepted;
  header.segment = kNoSegment;
  header.held = 7;
  const auto decoded = DecodeFrameHeader(Encode(header));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, header);
}

TEST(FrameDecode, RejectsANormThatIsNotFinite) {
  for (uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u}) {
    std::vector<std::byte> norm(4);
    StoreLe(bits, norm.data());
    EXPECT_THAT(std::string(DecodeWith(40, norm).message()), HasSubstr("norm"));
  }
}

TEST(FrameDecode, RejectsAPayloadOverTheLimit) {
  std::vector<std::byte> size(4);
  StoreLe<uint32_t>(kPayloadBytesMax, size.data());
  EXPECT_TRUE(DecodeWith(48, size).ok());
  StoreLe<uint32_t>(kPayloadBytesMax + 1, size.data());
  EXPECT_THAT(std::string(DecodeWith(48, size).message()), HasSubstr("payload bytes"));
}

TEST(VerifyPayload, AcceptsWhatTheHeaderNames) {
  const auto payload = Bytes({1, 2, 3});
  FrameHeader header;
  header.payload_bytes = 3;
  header.payload_crc = Crc32c(payload);
  EXPECT_TRUE(VerifyPayload(header, payload).ok());
  EXPECT_TRUE(VerifyPayload(FrameHeader{}, {}).ok());
}

TEST(VerifyPayload, RejectsAnotherLengthBeforeAnotherCrc) {
  FrameHeader header;
  header.payload_bytes = 3;
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2, 3, 4})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2, 3})).code(), absl::StatusCode::kDataLoss);
}

TEST(FrameNames, AreThoseOfTheLogs) {
  EXPECT_EQ(Name(FrameKind::kHello), "hello");
  EXPECT_EQ(Name(FrameKind::kPush), "push");
  EXPECT_EQ(Name(FrameKind::kAnswer), "answer");
  EXPECT_EQ(Name(FrameKind::kMerged), "merged");
  EXPECT_EQ(Name(FrameKind::kPull), "pull");
  EXPECT_EQ(Name(FrameKind::kFetch), "fetch");
  EXPECT_EQ(Name(FrameKind::kSnapshot), "snapshot");
  EXPECT_EQ(Name(FrameKind::kRequest), "request");
  EXPECT_EQ(Name(Outcome::kNone), "none");
  EXPECT_EQ(Name(Outcome::kAccepted), "accepted");
  EXPECT_EQ(Name(Outcome::kDuplicate), "duplicate");
  EXPECT_EQ(Name(Outcome::kLate), "late");
  EXPECT_EQ(Name(Outcome::kRejected), "rejected");
  EXPECT_EQ(Name(Outcome::kBusy), "busy");
  EXPECT_EQ(Name(Outcome::kCompacted), "compacted");
  EXPECT_EQ(Name(Outcome::kNotMember), "not a member");
}

}  // namespace
}  // namespace longwave

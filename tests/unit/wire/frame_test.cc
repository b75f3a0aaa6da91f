#include "common/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "tests/unit/wire/wire_testing.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

PushFrame Sample() {
  return {.run = 0x0123456789abcdef,
          .epoch = 1,
          .round = 17,
          .worker = 3,
          .segment = 2,
          .weight = 61440,
          .norm = 0.5f,
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

template <typename Frame>
Frame Random(Rng& rng) {
  const auto word = [&] { return static_cast<uint32_t>(rng.Next()); };
  Frame frame;
  frame.run = rng.Next();
  if constexpr (requires { frame.epoch; }) frame.epoch = word();
  if constexpr (requires { frame.round; }) frame.round = word();
  if constexpr (requires { frame.worker; }) frame.worker = word();
  if constexpr (requires { frame.segment; }) frame.segment = word();
  if constexpr (requires { frame.open_round; }) frame.open_round = word();
  if constexpr (requires { frame.weight; }) frame.weight = rng.Next();
  if constexpr (requires { frame.norm; }) frame.norm = static_cast<float>(rng.Uniform() * 1e30);
  if constexpr (requires { frame.accounted; }) frame.accounted = word();
  if constexpr (requires { frame.contributions; }) frame.contributions = word();
  if constexpr (requires { frame.frames_sent; }) frame.frames_sent = word();
  if constexpr (requires { frame.payload_crc; }) {
    frame.payload_bytes = static_cast<uint32_t>(rng.Below(kPayloadBytesMax + 1));
    frame.payload_crc = word();
  }
  if constexpr (std::same_as<Frame, HelloFrame>) {
    frame.connection = word();
    frame.bytes_per_second_max = rng.Next();
    const uint32_t ranks = 1 + static_cast<uint32_t>(rng.Below(NodeRank::kRanksMax));
    frame.node = {static_cast<uint32_t>(rng.Below(ranks)), ranks};
  }
  if constexpr (std::same_as<Frame, WelcomeFrame>) {
    frame.outcome = rng.Below(2) == 0 ? Outcome::kAccepted : Outcome::kRejected;
    frame.frames_missing = word();
    frame.shard_frames_sent = word();
    frame.incarnation = rng.Next();
  }
  if constexpr (std::same_as<Frame, AnswerFrame>) {
    constexpr FrameKind kAsked[] = {FrameKind::kPush, FrameKind::kPull, FrameKind::kFetch,
                                    FrameKind::kSnapshot};
    frame.outcome = static_cast<Outcome>(1 + rng.Below(7));
    frame.to = kAsked[rng.Below(4)];
    if (frame.outcome == Outcome::kDuplicate) frame.held_crc = word();
  }
  return frame;
}

template <typename Frame>
class EachFrame : public testing::Test {};
using Frames = testing::Types<HelloFrame, WelcomeFrame, PushFrame, AnswerFrame, MergedFrame,
                              PullFrame, FetchFrame, SnapshotFrame, RequestFrame>;
TYPED_TEST_SUITE(EachFrame, Frames);

TYPED_TEST(EachFrame, IsGivenBack) {
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    const FrameHeader header = Random<TypeParam>(rng);
    const auto decoded = DecodeFrameHeader(Encode(header));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, header);
    ASSERT_EQ(decoded->kind(), TypeParam::kKind);
  }
}

// Each byte of a header belongs to a field, or is what its kind always has there.
TYPED_TEST(EachFrame, HasOneEncoding) {
  Rng rng(4);
  for (size_t at = 6; at < 60; ++at) {
    HeaderBytes bytes = Encode(Random<TypeParam>(rng));
    bytes[at] ^= std::byte{0x15};
    StoreLe<uint32_t>(Crc32c(std::span<const std::byte>(bytes).first(60)), bytes.data() + 60);
    const auto decoded = DecodeFrameHeader(bytes);
    if (!decoded.ok()) continue;
    EXPECT_EQ(Encode(*decoded), bytes) << at;
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

TEST(FrameDecode, RejectsAnOutcomeThatItsKindHasNot) {
  const auto decoded = [](const FrameHeader& header) {
    return std::string(DecodeFrameHeader(Encode(header)).status().message());
  };
  EXPECT_THAT(std::string(DecodeWith(7, Bytes({1})).message()),
              HasSubstr("frame header: push: byte 7: got 1, wanted 0"));
  EXPECT_THAT(decoded(AnswerFrame{.outcome = static_cast<Outcome>(8)}),
              HasSubstr("frame header: answer: outcome: got 8, wanted 1 to 7"));
  EXPECT_THAT(decoded(AnswerFrame{}), HasSubstr("outcome: got 0"));
  EXPECT_THAT(decoded(WelcomeFrame{.outcome = Outcome::kLate}), HasSubstr("outcome to a hello"));
  EXPECT_THAT(decoded(AnswerFrame{.outcome = Outcome::kLate, .to = FrameKind::kMerged}),
              HasSubstr("kind that it answers: got 4, wanted 2, 5, 6 or 7"));
}

TEST(FrameDecode, RejectsBytesOfNoField) {
  for (size_t at = 56; at < 60; ++at) {
    EXPECT_EQ(DecodeWith(at, Bytes({1})).message(),
              absl::StrCat("frame header: push: byte ", at, ": got 1, wanted 0"));
  }
  HeaderBytes late = Encode(AnswerFrame{.outcome = Outcome::kDuplicate, .held_crc = 0xab});
  EXPECT_TRUE(DecodeFrameHeader(late).ok());
  late[7] = std::byte{3};
  StoreLe<uint32_t>(Crc32c(std::span<const std::byte>(late).first(60)), late.data() + 60);
  EXPECT_EQ(DecodeFrameHeader(late).status().message(),
            "frame header: answer: byte 56: got 171, wanted 0");
}

// A shard rejects a push to no segment like one to a segment of another shard.
TEST(FrameDecode, AnAnswerMayNameNoSegment) {
  const AnswerFrame answer{.outcome = Outcome::kRejected, .segment = kNoSegment};
  EXPECT_EQ(DecodeFrameHeader(Encode(answer)).value(), FrameHeader(answer));
}

TEST(FrameDecode, RejectsARankThatNoNodeHas) {
  for (const auto& [rank, ranks] : {std::pair{0u, 0u}, {3u, 0u}, {1u, 1u}, {2u, 2u}, {0u, 65u}}) {
    HeaderBytes bytes = Encode(HelloFrame{});
    StoreLe<uint32_t>(ranks << 16 | rank, bytes.data() + 44);
    StoreLe<uint32_t>(Crc32c(std::span<const std::byte>(bytes).first(60)), bytes.data() + 60);
    const auto decoded = DecodeFrameHeader(bytes);
    EXPECT_EQ(decoded.ok(), rank == 0 && ranks == 0);
    if (decoded.ok()) continue;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("wanted a rank of 2 to 64"));
  }
}

TEST(FrameDecode, GivesAHeaderOfTheKindThatIsWanted) {
  EXPECT_EQ(DecodeFrameHeaderOf<PushFrame>(Encode(Sample())).value(), Sample());
  EXPECT_EQ(DecodeFrameHeaderOf<MergedFrame>(Encode(Sample())).status().message(),
            "frame header: got push, wanted merged");
}

TEST(FrameName, HasWhatMostKindsHave) {
  const FrameName push = FrameHeader(Sample());
  EXPECT_EQ(push.kind, FrameKind::kPush);
  EXPECT_EQ(push.run, 0x0123456789abcdefu);
  EXPECT_EQ(push.worker, 3u);
  EXPECT_EQ(push.segment, 2u);
  EXPECT_EQ(push.round, 17u);
  const FrameName welcome = WelcomeFrame{.frames_sent = 9, .worker = 4};
  EXPECT_EQ(welcome.kind, FrameKind::kAnswer);
  EXPECT_EQ(welcome.worker, 4u);
  EXPECT_EQ(welcome.segment, kNoSegment);
  EXPECT_EQ(welcome.round, 0u);
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
  PushFrame header;
  header.payload_bytes = 3;
  header.payload_crc = Crc32c(payload);
  EXPECT_TRUE(VerifyPayload(header, payload).ok());
  EXPECT_TRUE(VerifyPayload(PullFrame{}, {}).ok());
  EXPECT_FALSE(VerifyPayload(PullFrame{}, payload).ok());
}

TEST(VerifyPayload, RejectsAnotherLengthBeforeAnotherCrc) {
  PushFrame header;
  header.payload_bytes = 3;
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2, 3, 4})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VerifyPayload(header, Bytes({1, 2, 3})).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace longwave

#include "common/wire/frame.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/enum_name.h"
#include "common/base/errors.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

namespace longwave {
namespace {

constexpr size_t kKindAt = 6;
constexpr size_t kSegmentAt = 28;
constexpr size_t kToAt = 44;
constexpr size_t kHeaderCrcAt = 60;
static_assert(kHeaderCrcAt + sizeof(uint32_t) == kFrameHeaderBytes);

template <typename T>
constexpr bool kHasPayload = requires(T frame) {
  frame.payload_crc;
};

// The table of WIRE.md: `at` takes each field of a kind with its offset. All other bytes are zero.
template <typename Frame>
void Fields(Frame& frame, auto& at) {
  if constexpr (requires { frame.outcome; }) at(7, frame.outcome);
  at(8, frame.run);
  if constexpr (requires { frame.epoch; }) at(16, frame.epoch);
  if constexpr (requires { frame.connection; }) at(16, frame.connection);
  if constexpr (requires { frame.frames_missing; }) at(16, frame.frames_missing);
  if constexpr (requires { frame.round; }) at(20, frame.round);
  if constexpr (requires { frame.frames_sent; }) at(20, frame.frames_sent);
  if constexpr (requires { frame.worker; }) at(24, frame.worker);
  if constexpr (requires { frame.segment; }) at(kSegmentAt, frame.segment);
  if constexpr (requires { frame.weight; }) at(32, frame.weight);
  if constexpr (requires { frame.bytes_per_second_max; }) at(32, frame.bytes_per_second_max);
  if constexpr (requires { frame.incarnation; }) at(32, frame.incarnation);
  if constexpr (requires { frame.open_round; }) at(32, frame.open_round);
  if constexpr (requires { frame.norm; }) at(40, frame.norm);
  if constexpr (requires { frame.accounted; }) at(44, frame.accounted);
  if constexpr (requires { frame.contributions; }) at(44, frame.contributions);
  if constexpr (requires { frame.node; }) at(44, frame.node);
  if constexpr (requires { frame.to; }) at(kToAt, frame.to);
  if constexpr (kHasPayload<Frame>) at(48, frame.payload_bytes);
  if constexpr (kHasPayload<Frame>) at(52, frame.payload_crc);
  if constexpr (requires { frame.shard_frames_sent; }) at(56, frame.shard_frames_sent);
  if constexpr (requires { frame.held_crc; }) {
    if (frame.outcome == Outcome::kDuplicate) at(56, frame.held_crc);
  }
}

struct Writer {
  std::byte* to;
  template <typename T>
  void operator()(size_t offset, T field) {
    StoreLe<T>(field, to + offset);
  }
  void operator()(size_t offset, NodeRank node) { StoreLe<uint32_t>(node.packed(), to + offset); }
};

struct Reader {
  const std::byte* from;
  absl::Status status;
  template <typename T>
  void operator()(size_t offset, T& field) {
    field = LoadLe<T>(from + offset);
  }
  void operator()(size_t offset, NodeRank& node) {
    const auto unpacked = NodeRank::Unpack(LoadLe<uint32_t>(from + offset));
    if (unpacked.ok()) node = *unpacked;
    status.Update(unpacked.status());
  }
};

// Writes all but the header's CRC.
template <typename Frame>
void Put(const Frame& frame, std::span<std::byte, kFrameHeaderBytes> out) {
  std::ranges::fill(out, std::byte{0});
  Writer at{out.data()};
  at(0, kFrameMagic);
  at(4, kFrameVersion);
  at(kKindAt, Frame::kKind);
  if constexpr (requires { frame.frames_sent; }) at(kSegmentAt, kNoSegment);
  if constexpr (requires { frame.incarnation; }) at(kToAt, FrameKind::kHello);
  Fields(frame, at);
}

absl::Status Refuse(absl::string_view what, const auto& got, const auto&... wanted) {
  return InvalidArgument(what, ": got ", got, ", wanted ", wanted...);
}

absl::Status Check(const auto& frame) {
  if constexpr (requires { frame.outcome; }) {
    const int outcome = static_cast<int>(frame.outcome);
    if (outcome < 1 || outcome > 7) return Refuse("outcome", outcome, "1 to 7");
  }
  if constexpr (requires { frame.incarnation; }) {
    if (frame.outcome != Outcome::kAccepted && frame.outcome != Outcome::kRejected)
      return Refuse("outcome to a hello", std::string(Name(frame.outcome)), "accepted or rejected");
  }
  if constexpr (requires { frame.to; }) {
    if (frame.to != FrameKind::kPush && frame.to != FrameKind::kPull &&
        frame.to != FrameKind::kFetch && frame.to != FrameKind::kSnapshot)
      return Refuse("kind that it answers", static_cast<int>(frame.to), "2, 5, 6 or 7");
  }
  if constexpr (requires { frame.norm; }) {
    if (!std::isfinite(frame.norm)) return Refuse("norm", frame.norm, "a finite number");
  }
  if constexpr (kHasPayload<decltype(frame)>) {
    if (frame.payload_bytes > kPayloadBytesMax)
      return Refuse("payload bytes", frame.payload_bytes, "at most ", kPayloadBytesMax);
  }
  return absl::OkStatus();
}

template <typename Frame>
absl::StatusOr<FrameHeader> Get(std::span<const std::byte> bytes) {
  Frame frame;
  Reader at{bytes.data(), absl::OkStatus()};
  Fields(frame, at);
  if (at.status.ok()) at.status = Check(frame);
  // A content has one encoding, so a difference is a byte of no field.
  std::array<std::byte, kFrameHeaderBytes> wanted;
  Put(frame, wanted);
  const auto [got, want] = std::ranges::mismatch(bytes.first(kHeaderCrcAt), wanted);
  if (at.status.ok() && got != bytes.begin() + kHeaderCrcAt) {
    at.status = Refuse(absl::StrCat("byte ", got - bytes.begin()), std::to_integer<int>(*got),
                       std::to_integer<int>(*want));
  }
  if (at.status.ok()) return frame;
  return InvalidArgument("frame header: ", Name(Frame::kKind), ": ", at.status.message());
}

}  // namespace

FrameName::FrameName(const FrameHeader& header)
    : FrameName(std::visit([](const auto& frame) { return FrameName(frame); }, header)) {}

void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out) {
  std::visit([&](const auto& frame) { Put(frame, out); }, header);
  StoreLe<uint32_t>(Crc32c(out.first(kHeaderCrcAt)), out.data() + kHeaderCrcAt);
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kFrameHeaderBytes) {
    return InvalidArgument("frame header: got ", bytes.size(), " bytes, wanted ",
                           kFrameHeaderBytes);
  }
  const std::byte* const from = bytes.data();
  if (const auto magic = LoadLe<uint32_t>(from); magic != kFrameMagic) {
    return InvalidArgument(
        absl::StrFormat("frame header: magic: got %08x, wanted %08x", magic, kFrameMagic));
  }
  if (const auto version = LoadLe<uint16_t>(from + 4); version != kFrameVersion) {
    return InvalidArgument("frame header: version: got ", version, ", wanted ", kFrameVersion);
  }
  const auto crc = LoadLe<uint32_t>(from + kHeaderCrcAt);
  if (const uint32_t wanted = Crc32c(bytes.first(kHeaderCrcAt)); crc != wanted) {
    return DataLoss(
        absl::StrFormat("frame header: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }
  const auto kind = LoadLe<uint8_t>(from + kKindAt);
  switch (static_cast<FrameKind>(kind)) {
    case FrameKind::kHello:
      return Get<HelloFrame>(bytes);
    case FrameKind::kPush:
      return Get<PushFrame>(bytes);
    case FrameKind::kAnswer:
      if (from[kToAt] == std::byte{1}) return Get<WelcomeFrame>(bytes);  // to a hello
      return Get<AnswerFrame>(bytes);
    case FrameKind::kMerged:
      return Get<MergedFrame>(bytes);
    case FrameKind::kPull:
      return Get<PullFrame>(bytes);
    case FrameKind::kFetch:
      return Get<FetchFrame>(bytes);
    case FrameKind::kSnapshot:
      return Get<SnapshotFrame>(bytes);
    case FrameKind::kRequest:
      return Get<RequestFrame>(bytes);
  }
  return InvalidArgument("frame header: kind: got ", kind, ", wanted 1 to 8");
}

template <typename Frame>
absl::StatusOr<Frame> DecodeFrameHeaderOf(std::span<const std::byte> bytes) {
  const absl::StatusOr<FrameHeader> header = DecodeFrameHeader(bytes);
  if (!header.ok()) return header.status();
  if (const auto* frame = std::get_if<Frame>(&*header)) return *frame;
  return Refuse("frame header", std::string(Name(header->kind())), std::string(Name(Frame::kKind)));
}
template absl::StatusOr<PushFrame> DecodeFrameHeaderOf(std::span<const std::byte> bytes);
template absl::StatusOr<MergedFrame> DecodeFrameHeaderOf(std::span<const std::byte> bytes);

absl::Status SetPayload(std::span<const std::byte> payload, FrameHeader& header) {
  const auto set = [&](auto& frame) -> absl::Status {
    if constexpr (kHasPayload<decltype(frame)>) {
      frame.payload_bytes = static_cast<uint32_t>(payload.size());
      frame.payload_crc = Crc32c(payload);
    } else if (!payload.empty()) {
      return Refuse(std::string(Name(frame.kKind)) + " frame: payload bytes", payload.size(), "0");
    }
    return absl::OkStatus();
  };
  return std::visit(set, header);
}

absl::Status VerifyPayload(const FrameHeader& header, std::span<const std::byte> payload) {
  const auto sizes_of = [](const auto& frame) -> std::pair<uint32_t, uint32_t> {
    if constexpr (kHasPayload<decltype(frame)>) return {frame.payload_bytes, frame.payload_crc};
    return {0, 0};
  };
  const auto [bytes, wanted] = std::visit(sizes_of, header);
  if (payload.size() != bytes) {
    return InvalidArgument("frame payload: got ", payload.size(), " bytes, its header says ",
                           bytes);
  }
  if (const uint32_t crc = Crc32c(payload); crc != wanted) {
    return DataLoss(absl::StrFormat(
        "frame payload: CRC32C: its header says %08x, its bytes give %08x", wanted, crc));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeRank> NodeRank::Unpack(uint32_t packed) {
  if (packed == 0) return NodeRank{};
  const NodeRank got{.rank = packed & 0xffff, .ranks = packed >> 16};
  if (got.ranks > 1 && got.ranks <= kRanksMax && got.rank < got.ranks) return got;
  return InvalidArgument("hello: got rank ", got.rank, " of ", got.ranks,
                         ", wanted a rank of 2 to ", kRanksMax);
}

std::string_view Name(FrameKind kind) {
  return EnumName(kind,
                  {"hello", "push", "answer", "merged", "pull", "fetch", "snapshot", "request"},
                  FrameKind::kHello);
}

std::string_view Name(Outcome outcome) {
  return EnumName(outcome, {"none", "accepted", "duplicate", "late", "rejected", "busy",
                            "compacted", "not a member"});
}

}  // namespace longwave

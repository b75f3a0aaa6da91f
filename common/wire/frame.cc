#include "common/wire/frame.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

namespace longwave {
namespace {

// The offset of each field in bytes. The fields fill the header without a gap.
enum Offset : size_t {
  kMagicAt = 0,
  kVersionAt = 4,
  kKindAt = 6,
  kOutcomeAt = 7,
  kRunAt = 8,
  kEpochAt = 16,
  kRoundAt = 20,
  kWorkerAt = 24,
  kSegmentAt = 28,
  kWeightAt = 32,
  kNormAt = 40,
  kContributionsAt = 44,
  kPayloadBytesAt = 48,
  kPayloadCrcAt = 52,
  kHeldAt = 56,
  kHeaderCrcAt = 60,
};
static_assert(kHeaderCrcAt + sizeof(uint32_t) == kFrameHeaderBytes);

}  // namespace

void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out) {
  std::byte* const to = out.data();
  StoreLe<uint32_t>(kFrameMagic, to + kMagicAt);
  StoreLe<uint16_t>(kFrameVersion, to + kVersionAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(header.kind), to + kKindAt);
  StoreLe<uint8_t>(static_cast<uint8_t>(header.outcome), to + kOutcomeAt);
  StoreLe<uint64_t>(header.run, to + kRunAt);
  StoreLe<uint32_t>(header.epoch, to + kEpochAt);
  StoreLe<uint32_t>(header.round, to + kRoundAt);
  StoreLe<uint32_t>(header.worker, to + kWorkerAt);
  StoreLe<uint32_t>(header.segment, to + kSegmentAt);
  StoreLe<uint64_t>(header.weight, to + kWeightAt);
  StoreLe<float>(header.norm, to + kNormAt);
  StoreLe<uint32_t>(header.contributions, to + kContributionsAt);
  StoreLe<uint32_t>(header.payload_bytes, to + kPayloadBytesAt);
  StoreLe<uint32_t>(header.payload_crc, to + kPayloadCrcAt);
  StoreLe<uint32_t>(header.held, to + kHeldAt);
  StoreLe<uint32_t>(Crc32c(out.first(kHeaderCrcAt)), to + kHeaderCrcAt);
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes) {
  if (bytes.size() != kFrameHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame header: got ", bytes.size(), " bytes, wanted ", kFrameHeaderBytes));
  }
  const std::byte* const from = bytes.data();
  if (const auto magic = LoadLe<uint32_t>(from + kMagicAt); magic != kFrameMagic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("frame header: magic: got %08x, wanted %08x", magic, kFrameMagic));
  }
  if (const auto version = LoadLe<uint16_t>(from + kVersionAt); version != kFrameVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame header: version: got ", version, ", wanted ", kFrameVersion));
  }
  const auto crc = LoadLe<uint32_t>(from + kHeaderCrcAt);
  if (const uint32_t wanted = Crc32c(bytes.first(kHeaderCrcAt)); crc != wanted) {
    return absl::DataLossError(
        absl::StrFormat("frame header: CRC32C: got %08x, its bytes give %08x", crc, wanted));
  }

  const auto kind = LoadLe<uint8_t>(from + kKindAt);
  if (kind < static_cast<uint8_t>(FrameKind::kHello) ||
      kind > static_cast<uint8_t>(FrameKind::kRequest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame header: kind: got ", kind, ", wanted 1 to 8"));
  }
  const auto outcome = LoadLe<uint8_t>(from + kOutcomeAt);
  if (outcome > static_cast<uint8_t>(Outcome::kNotMember)) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame header: outcome: got ", outcome, ", wanted 0 to 7"));
  }
  const bool is_duplicate = kind == static_cast<uint8_t>(FrameKind::kAnswer) &&
                            outcome == static_cast<uint8_t>(Outcome::kDuplicate);
  const bool is_welcome = kind == static_cast<uint8_t>(FrameKind::kAnswer) &&
                          LoadLe<uint32_t>(from + kSegmentAt) == kNoSegment;
  const auto held = LoadLe<uint32_t>(from + kHeldAt);
  if (held != 0 && !is_duplicate && !is_welcome) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "frame header: held: got %08x, wanted zeros in what answers no hello and is no duplicate",
        held));
  }

  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.outcome = static_cast<Outcome>(outcome);
  header.run = LoadLe<uint64_t>(from + kRunAt);
  header.epoch = LoadLe<uint32_t>(from + kEpochAt);
  header.round = LoadLe<uint32_t>(from + kRoundAt);
  header.worker = LoadLe<uint32_t>(from + kWorkerAt);
  header.segment = LoadLe<uint32_t>(from + kSegmentAt);
  header.weight = LoadLe<uint64_t>(from + kWeightAt);
  header.norm = LoadLe<float>(from + kNormAt);
  header.contributions = LoadLe<uint32_t>(from + kContributionsAt);
  header.payload_bytes = LoadLe<uint32_t>(from + kPayloadBytesAt);
  header.payload_crc = LoadLe<uint32_t>(from + kPayloadCrcAt);
  header.held = held;
  if (!std::isfinite(header.norm)) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame header: norm: got ", header.norm, ", wanted a finite number"));
  }
  if (header.payload_bytes > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame header: payload bytes: got ",
                                                   header.payload_bytes, ", wanted at most ",
                                                   kPayloadBytesMax));
  }
  return header;
}

absl::Status VerifyPayload(const FrameHeader& header, std::span<const std::byte> payload) {
  if (payload.size() != header.payload_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "frame payload: got ", payload.size(), " bytes, its header says ", header.payload_bytes));
  }
  if (const uint32_t crc = Crc32c(payload); crc != header.payload_crc) {
    return absl::DataLossError(
        absl::StrFormat("frame payload: CRC32C: its header says %08x, its bytes give %08x",
                        header.payload_crc, crc));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeRank> NodeRank::Unpack(uint32_t packed) {
  if (packed == 0) return NodeRank{};
  const NodeRank got{.rank = packed & 0xffff, .ranks = packed >> 16};
  if (got.ranks > 1 && got.ranks <= kRanksMax && got.rank < got.ranks) return got;
  return absl::InvalidArgumentError(absl::StrCat("hello: got rank ", got.rank, " of ", got.ranks,
                                                 ", wanted a rank of 2 to ", kRanksMax));
}

std::string_view Name(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
      return "hello";
    case FrameKind::kPush:
      return "push";
    case FrameKind::kAnswer:
      return "answer";
    case FrameKind::kMerged:
      return "merged";
    case FrameKind::kPull:
      return "pull";
    case FrameKind::kFetch:
      return "fetch";
    case FrameKind::kSnapshot:
      return "snapshot";
    case FrameKind::kRequest:
      return "request";
  }
  return "unknown";
}

std::string_view Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNone:
      return "none";
    case Outcome::kAccepted:
      return "accepted";
    case Outcome::kDuplicate:
      return "duplicate";
    case Outcome::kLate:
      return "late";
    case Outcome::kRejected:
      return "rejected";
    case Outcome::kBusy:
      return "busy";
    case Outcome::kCompacted:
      return "compacted";
    case Outcome::kNotMember:
      return "not a member";
  }
  return "unknown";
}

}  // namespace longwave

#ifndef LONGWAVE_COMMON_WIRE_FRAME_H_
#define LONGWAVE_COMMON_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// A data-plane message is one frame: this header, then payload_bytes bytes. proto/WIRE.md defines
// it for other implementations; this file and that page change together.
enum class FrameKind : uint8_t {
  kHello = 1,   // worker to shard: opens the route back; kAnswer answers
  kPush = 2,    // worker to shard: one segment's contribution to one round
  kAnswer = 3,  // shard to worker: the outcome of a push, or the receipt of a snapshot
  kMerged = 4,  // shard to worker: one segment's merged update of one round
  kPull = 5,    // worker to shard: requests the merged update of (round, segment) again
  // Worker to shard: its anchor of the segment has all rounds before `round`, and it requests the
  // cheapest way to the present. The shard answers with kSnapshot, or with kAnswer, accepted: pull
  // from there. Round 2^32 - 1: the worker lacks even the first weights, so only a snapshot helps.
  kFetch = 6,
  // A segment's state before `round` (snapshot_payload.h). Shard to worker: the answer to kFetch.
  // Worker to shard: the answer to kRequest; kAnswer confirms its receipt.
  kSnapshot = 7,
  // Shard to worker: requests the segment's state before `round`. Round 0 requests a pull of the
  // round that the segment waits for; round 2^32 - 1 requests the first weights; kNoSegment
  // requests a hello.
  kRequest = 8,
};

// The outcome of a push. A contribution that was not accepted goes back into the worker's residual,
// except a duplicate, whose first copy was accepted.
enum class Outcome : uint8_t {
  kNone = 0,  // not an answer
  kAccepted = 1,
  kDuplicate = 2,
  kLate = 3,
  kRejected = 4,   // the answer's payload is a sentence with the reason
  kBusy = 5,       // not accepted for lack of memory: push again later
  kCompacted = 6,  // of a pull: the update was deleted; fetch instead
  kNotMember = 7,  // the sender is not, or not yet, in this round: send again later
};

inline constexpr uint32_t kFrameMagic = 0x3157574c;  // "LWW1" read as bytes
inline constexpr uint16_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 64;
// The largest payload: 64 MiB is sixteen times a fp32 segment of a million parameters.
inline constexpr uint32_t kPayloadBytesMax = 64u << 20;
// The largest weight of one push. In the merge w · scale stays exact in double, and the sum of 2^30
// weights fits int64.
inline constexpr uint64_t kWeightMax = uint64_t{1} << 32;

// No segment. A hello has it, so that its answer cannot be taken for a push's.
inline constexpr uint32_t kNoSegment = ~uint32_t{0};

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  Outcome outcome = Outcome::kNone;
  uint64_t run = 0;  // random name of the run
  // Membership epoch. Hello: the number of its connection, larger than any earlier one's. Answer to
  // a hello: the frames that the hello counts and the shard has not received.
  uint32_t epoch = 0;
  uint32_t round = 0;   // hello: frames that were sent on this connection before it
  uint32_t worker = 0;  // sender of a push; addressee of an answer; 0 in a merged update
  uint32_t segment = 0;
  // Push: tokens behind this contribution. Merged: the sum of its pushes' tokens. Hello: the most
  // bytes a second that the shard may send this worker, 0: no limit. Answer to a hello: the shard's
  // incarnation. Other answers: the open round of the segment.
  uint64_t weight = 0;
  // Push: L2 norm of the dequantized contribution; merged: of the update.
  float norm = 0;
  // Merged: the pushes in it. Push: the rounds that the residual accounts for (WIRE.md, 3). Answer:
  // the kind of the frame that it answers, since outcomes differ in meaning between kinds. Hello:
  // see NodeRank.
  uint32_t contributions = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;  // CRC32C
  // Answer `duplicate`: the payload CRC of the push that the shard has under this name. A worker
  // that returned without its residual compares it, to tell its own push from its predecessor's.
  // Answer to a hello: the frames that the shard had received on this connection before.
  uint32_t held = 0;

  bool operator==(const FrameHeader&) const = default;
};

// The sender of a hello: one rank of a node of `ranks` devices, whose connection serves the
// segments that SegmentsOfRank gives it. A worker of one device is rank 0 of 1.
struct NodeRank {
  static constexpr uint32_t kRanksMax = 64;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  bool is_alone() const { return ranks == 1; }
  // As a hello's `contributions`: the rank and 2^16 times the ranks; 0 for one device.
  uint32_t packed() const { return is_alone() ? 0 : ranks << 16 | rank; }
  // InvalidArgument: not what `packed` gives.
  static absl::StatusOr<NodeRank> Unpack(uint32_t packed);
  bool operator==(const NodeRank&) const = default;
};

// Writes `header` and its own CRC32C to `out`.
void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);

// Reads a header. The CRC is checked before any field is used. Errors, in the order of checking:
// InvalidArgument (not 64 bytes, magic, version), DataLoss (header CRC), InvalidArgument (kind,
// outcome, `held` where it has no meaning, a norm that is not finite, payload_bytes over
// kPayloadBytesMax).
absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes);

// Checks the payload against its header. Errors: InvalidArgument (length), DataLoss (CRC).
absl::Status VerifyPayload(const FrameHeader& header, std::span<const std::byte> payload);

// Whether an answer may be to a frame of that kind. An answer without a kind may be to any.
inline bool MayAnswer(const FrameHeader& answer, FrameKind asked) {
  return answer.contributions == 0 || answer.contributions == static_cast<uint32_t>(asked);
}

std::string_view Name(FrameKind kind);   // "hello", "push", "answer", "merged", …
std::string_view Name(Outcome outcome);  // "none", "accepted", "duplicate", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_FRAME_H_

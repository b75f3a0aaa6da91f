#ifndef LONGWAVE_COMMON_WIRE_FRAME_H_
#define LONGWAVE_COMMON_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// A data-plane message is one frame: this header, then payload_bytes bytes. proto/WIRE.md is the
// definition for strangers; this file and that page change together.
enum class FrameKind : uint8_t {
  kHello = 1,   // worker to shard: opens the route back; answered by kAnswer
  kPush = 2,    // worker to shard: one segment's contribution to one round
  kAnswer = 3,  // shard to worker: what became of a push (see Outcome), or that a snapshot came
  kMerged = 4,  // shard to worker: one segment's merged update of one round
  kPull = 5,    // worker to shard: send the merged update of (round, segment) again
  // Worker to shard: its anchor of the segment has all rounds before `round`; how does it get to
  // the present with the fewest bytes? Answered by kSnapshot, or by kAnswer: accepted, pull from
  // there. Of round 2^32 - 1: it has not even what the run began with, and only a
  // snapshot helps.
  kFetch = 6,
  // A segment's state before `round`, both ways (snapshot_payload.h): shard to worker as an answer
  // to kFetch, worker to shard as an answer to kAsk, of which kAnswer says that it has come.
  kSnapshot = 7,
  // Shard to worker: send the segment's state before `round`; of round 0: a pull of the round that
  // the segment waits for; of round 2^32 - 1: what the run began with; of
  // kNoSegment: a hello.
  kAsk = 8,
};

// What became of a push. Whatever was not accepted goes back into the worker's residual, except a
// duplicate, whose first copy was accepted.
enum class Outcome : uint8_t {
  kNone = 0,  // not an answer
  kAccepted = 1,
  kDuplicate = 2,
  kLate = 3,
  kRejected = 4,   // the answer's payload is a sentence that says why
  kBusy = 5,       // not accepted for want of memory: to be pushed again after a while
  kGone = 6,       // of a pull: the update is no longer kept; to be fetched instead
  kNotMember = 7,  // the sender takes no part in this round, or not yet: to be sent again later
};

inline constexpr uint32_t kFrameMagic = 0x3157574c;  // "LWW1" read as bytes
inline constexpr uint16_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 64;
// No payload is larger: 64 MiB is sixteen times a fp32 segment of a million parameters.
inline constexpr uint32_t kPayloadBytesMax = 64u << 20;
// The largest weight of one push: where it is merged, w · scale stays exact in double, and the sum
// of 2^30 weights fits int64.
inline constexpr uint64_t kWeightMax = uint64_t{1} << 32;

// A segment of no model: in a hello, so that its answer is no push's.
inline constexpr uint32_t kNoSegment = ~uint32_t{0};

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  Outcome outcome = Outcome::kNone;
  uint64_t run = 0;    // random name of the run
  uint32_t epoch = 0;  // membership epoch
  uint32_t round = 0;
  uint32_t worker = 0;  // sender of a push; addressee of an answer; 0 in a merged update
  uint32_t segment = 0;
  // Push: tokens behind this contribution; merged: their sum; hello: bytes a second that the shard
  // may send this worker at most, 0: no limit. Answer: to a hello the shard's incarnation, to
  // anything else the open round of the segment.
  uint64_t weight = 0;
  // Push: L2 norm of the dequantized contribution; merged: of the update.
  float norm = 0;
  // Merged: pushes that went into it. Push: rounds that its residual accounts for (WIRE.md, 3).
  // Answer: the kind of the frame that it answers: what is said of a fetch is not said of a push.
  uint32_t contributions = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;  // CRC32C
  // Answer `duplicate` alone: the payload CRC of the push that the shard has under this name. A
  // worker that came back without its residual tells by it whether that is the push that it asks
  // for, or one of the process before.
  uint32_t held_crc = 0;

  bool operator==(const FrameHeader&) const = default;
};

// Writes `header` (payload_bytes and payload_crc taken from it) and its own CRC32C to `out`.
void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);

// Reads a header. Errors, in the order of checking: InvalidArgument (not 64 bytes, magic, version),
// DataLoss (header CRC), InvalidArgument (kind, outcome, a held CRC in what is no `duplicate`, a
// norm that is not finite, payload_bytes over kPayloadBytesMax). Nothing in a header is believed
// before its CRC holds.
absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes);

// Holds the payload against its header: InvalidArgument (length), DataLoss (CRC).
absl::Status VerifyPayload(const FrameHeader& header, std::span<const std::byte> payload);

// Whether an answer may be to a frame of that kind. One that does not say is to any.
inline bool MayAnswer(const FrameHeader& answer, FrameKind asked) {
  return answer.contributions == 0 || answer.contributions == static_cast<uint32_t>(asked);
}

std::string_view Name(FrameKind kind);   // "hello", "push", "answer", "merged", …
std::string_view Name(Outcome outcome);  // "none", "accepted", "duplicate", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_FRAME_H_

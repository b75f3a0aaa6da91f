#ifndef LONGWAVE_COMMON_WIRE_FRAME_H_
#define LONGWAVE_COMMON_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

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

// No segment. A hello has it on the wire, so that its answer cannot be taken for a push's. A
// request that names it requests a hello.
inline constexpr uint32_t kNoSegment = ~uint32_t{0};

// The sender of a hello: one rank of a node of `ranks` devices, whose connection serves the
// segments that SegmentsOfRank gives it. A worker of one device is rank 0 of 1.
struct NodeRank {
  static constexpr uint32_t kRanksMax = 64;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  bool is_alone() const { return ranks == 1; }
  // On the wire: the rank and 2^16 times the ranks; 0 for one device.
  uint32_t packed() const { return is_alone() ? 0 : ranks << 16 | rank; }
  // InvalidArgument: not what `packed` gives.
  static absl::StatusOr<NodeRank> Unpack(uint32_t packed);
  bool operator==(const NodeRank&) const = default;
};

// The header of each kind of frame. A field's name says its place, which is the same in all kinds.
//   run                         the random name of the run
//   epoch                       of the sender's membership, unless stated otherwise
//   worker                      the sender, or the addressee of a shard's frame
//   open_round                  of the segment, at the shard
//   payload_bytes, payload_crc  CRC32C; kinds without them have no payload

struct HelloFrame {
  static constexpr FrameKind kKind = FrameKind::kHello;
  uint64_t run = 0;
  uint32_t connection = 0;   // its number, larger than that of any earlier one of the worker
  uint32_t frames_sent = 0;  // by the worker on this connection before
  uint32_t worker = 0;
  uint64_t bytes_per_second_max = 0;  // that the shard may send this worker; 0: no limit
  NodeRank node;
  bool operator==(const HelloFrame&) const = default;
};

// The answer to a hello; a kAnswer on the wire.
struct WelcomeFrame {
  static constexpr FrameKind kKind = FrameKind::kAnswer;
  Outcome outcome = Outcome::kAccepted;  // or kRejected
  uint64_t run = 0;
  uint32_t frames_missing = 0;  // of the hello's frames_sent: the shard has not received them
  uint32_t frames_sent = 0;     // the hello's
  uint32_t worker = 0;
  uint64_t incarnation = 0;  // of the shard: another one after each of its starts
  uint32_t payload_bytes = 0, payload_crc = 0;
  uint32_t shard_frames_sent = 0;  // on this connection before
  bool operator==(const WelcomeFrame&) const = default;
};

struct PushFrame {
  static constexpr FrameKind kKind = FrameKind::kPush;
  uint64_t run = 0;
  uint32_t epoch = 0, round = 0, worker = 0, segment = 0;
  uint64_t weight = 0;     // tokens behind this contribution
  float norm = 0;          // L2 norm of the dequantized contribution
  uint32_t accounted = 0;  // rounds that the sender's residual accounts for (WIRE.md, 3)
  uint32_t payload_bytes = 0, payload_crc = 0;
  bool operator==(const PushFrame&) const = default;
};

// The answer to any other kind, with its round, worker and segment.
struct AnswerFrame {
  static constexpr FrameKind kKind = FrameKind::kAnswer;
  Outcome outcome = Outcome::kNone;
  uint64_t run = 0;
  uint32_t epoch = 0, round = 0, worker = 0, segment = 0;
  uint32_t open_round = 0;
  FrameKind to = FrameKind::kPush;  // the kind that it answers: outcomes differ in meaning
  uint32_t payload_bytes = 0, payload_crc = 0;
  // Of a duplicate: the payload CRC of the push that the shard has under this name; 0: not known. A
  // worker that returned without its residual compares it, to tell its own push from its
  // predecessor's.
  uint32_t held_crc = 0;
  bool operator==(const AnswerFrame&) const = default;
};

struct MergedFrame {
  static constexpr FrameKind kKind = FrameKind::kMerged;
  uint64_t run = 0;
  uint32_t epoch = 0, round = 0, segment = 0;
  uint64_t weight = 0;         // the sum of its pushes' weights
  float norm = 0;              // L2 norm of the update
  uint32_t contributions = 0;  // pushes in it
  uint32_t payload_bytes = 0, payload_crc = 0;
  bool operator==(const MergedFrame&) const = default;
};

struct PullFrame {
  static constexpr FrameKind kKind = FrameKind::kPull;
  uint64_t run = 0;
  uint32_t epoch = 0;  // of a fetch: 0; that answers a request: the request's
  uint32_t round = 0, worker = 0, segment = 0;
  bool operator==(const PullFrame&) const = default;
};

struct FetchFrame {
  static constexpr FrameKind kKind = FrameKind::kFetch;
  uint64_t run = 0;
  uint32_t round = 0, worker = 0, segment = 0;
  bool operator==(const FetchFrame&) const = default;
};

struct SnapshotFrame {
  static constexpr FrameKind kKind = FrameKind::kSnapshot;
  uint64_t run = 0;
  uint32_t epoch = 0;  // from a worker: 0
  uint32_t round = 0, worker = 0, segment = 0;
  uint32_t open_round = 0;  // from a worker: 0
  uint32_t payload_bytes = 0, payload_crc = 0;
  bool operator==(const SnapshotFrame&) const = default;
};

struct RequestFrame {
  static constexpr FrameKind kKind = FrameKind::kRequest;
  uint64_t run = 0;
  uint32_t epoch = 0, round = 0, worker = 0, segment = 0;
  uint32_t open_round = 0;
  bool operator==(const RequestFrame&) const = default;
};

struct FrameHeader;

// The fields that most kinds have, of any kind: for routes, answers and messages.
struct FrameName {
  FrameKind kind;
  uint64_t run;
  uint32_t worker = 0;            // a merged update has none
  uint32_t segment = kNoSegment;  // a hello and its answer have no segment and no round
  uint32_t round = 0;

  FrameName(const FrameHeader& header);  // NOLINT: converts implicitly
  template <typename Frame>
  requires requires { Frame::kKind; }
  FrameName(const Frame& frame) : kind(frame.kKind), run(frame.run) {  // NOLINT
    if constexpr (requires { frame.worker; }) worker = frame.worker;
    if constexpr (requires { frame.segment; }) segment = frame.segment;
    if constexpr (requires { frame.round; }) round = frame.round;
  }
};

struct FrameHeader : std::variant<HelloFrame, WelcomeFrame, PushFrame, AnswerFrame, MergedFrame,
                                  PullFrame, FetchFrame, SnapshotFrame, RequestFrame> {
  using variant::variant;
  FrameKind kind() const { return FrameName(*this).kind; }
  uint64_t run() const { return FrameName(*this).run; }
  uint32_t worker() const { return FrameName(*this).worker; }
  uint32_t segment() const { return FrameName(*this).segment; }
  uint32_t round() const { return FrameName(*this).round; }
  bool operator==(const FrameHeader&) const = default;
};

// Writes `header` and its own CRC32C to `out`.
void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);

// Reads a header. The CRC is checked before any field is used. Errors, in the order of checking:
// InvalidArgument (not 64 bytes, magic, version), DataLoss (header CRC), InvalidArgument (kind, and
// the kind's own: outcome, the kind that an answer names, the rank of a hello, a norm that is not
// finite, payload_bytes over kPayloadBytesMax, and bytes of no field that are not zero).
absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte> bytes);

// The same for PushFrame or MergedFrame alone; InvalidArgument also: of another kind.
template <typename Frame>
absl::StatusOr<Frame> DecodeFrameHeaderOf(std::span<const std::byte> bytes);

// Fills in payload_bytes and payload_crc. InvalidArgument: the kind has no payload, and there is
// one.
absl::Status SetPayload(std::span<const std::byte> payload, FrameHeader& header);

// Checks the payload against its header. Errors: InvalidArgument (length), DataLoss (CRC).
absl::Status VerifyPayload(const FrameHeader& header, std::span<const std::byte> payload);

std::string_view Name(FrameKind kind);   // "hello", "push", "answer", "merged", …
std::string_view Name(Outcome outcome);  // "none", "accepted", "duplicate", …

}  // namespace longwave

#endif  // LONGWAVE_COMMON_WIRE_FRAME_H_

#ifndef LONGWAVE_SERVER_SHARD_AGGREGATOR_H_
#define LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "server/shard/merge.h"
#include "server/shard/tile_runner.h"

namespace longwave {

struct AggregatorOptions {
  uint64_t run = 0;
  uint64_t run_seed = 0;  // what random and stride selection draw from
  uint32_t shard = 0;
  // What pushes must be. Under topk the selection alone is binding: codec and k are each worker's
  // own, since a payload names both in its head and the merge takes any. Under all, random and
  // stride the codec and (random, stride) the k must be these.
  PayloadFormat up;
  double rho = 0;  // G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w), per coefficient
  // kTopK: the top k of E + G goes down, the rest stays in E. kAll: all that was merged does, on
  // the support on which it came up; merge.h says in which form. kRandom and kStride are refused.
  PayloadFormat down;
  // What the machine can give; 0: not asked. The caller has read it, since nothing here reads
  // files.
  uint64_t available_bytes = 0;
  // Of the run: as many pushes to a segment can be open at once. For the estimate alone.
  uint32_t workers = 1;
  // A contribution to a segment counts at most as this multiple of the median norm of the segment's
  // contributions (ClipFactors); 0: as it is.
  double clip = 0;
  // Bytes of pushes that are kept for open rounds, of all segments together; 0: no limit. What
  // would exceed it is answered busy.
  uint64_t open_bytes_max = 0;
  // Who does the merges' work; null: the caller of Step alone.
  std::shared_ptr<TileRunner> runner;
};

// What happens to a shard, from outside.
struct PushArrived {
  FrameHeader header;
  Buffer payload;
};
struct PullArrived {
  FrameHeader header;
};
struct MembershipChanged {
  Membership membership;
};
using AggregatorEvent = std::variant<PushArrived, PullArrived, MembershipChanged>;

// What the shard is to do about it, in order.

// A kAnswer frame to header.worker; reason travels as the payload of a rejection.
struct AnswerPush {
  FrameHeader header;
  std::string reason;
};
struct SendMerged {  // a kMerged frame to each of `workers`, all from one buffer
  std::vector<uint32_t> workers;
  FrameHeader header;
  Buffer payload;
};
using AggregatorEffect = std::variant<AnswerPush, SendMerged>;

// A shard's decisions, pure: no socket, thread or clock inside. For each of its segments there is
// one open round, 0 at first. Segments know nothing of each other.
//
//   open r    Entered by the close of r − 1. Legal: one push of round r from each member that has
//             reached its first_round. Waits for all of those, for as long as it takes (who is
//             silent for too long is removed by the coordinator, which comes in as
//             MembershipChanged).
//   close     As soon as nobody is waited for and there is a push at all: the pushes are merged
//             (merge.h), the result goes to every member that has reached round r, the payloads are
//             dropped and r + 1 opens. A member that leaves is no longer waited for; what it had
//             pushed to the open round stays in the merge.
//   closed r  The last closed round's merged update is kept, to answer pulls and repeated pushes.
//             The next one takes its place; nothing older is kept.
//
// A push is answered
//   accepted   it is of the open round of its segment, and the first of its worker
//   duplicate  its worker has pushed to the open round already, or the round is the last closed one
//              and this worker's push went into its merge: then the merged update is sent again
//   busy       open rounds hold open_bytes_max already and its segment is not the oldest open one
//              (lowest round, then lowest index): nothing is kept of it, its worker pushes it
//              again. Pushes to the oldest one are always taken, so that it closes and makes room
//   late       its round is closed and its push was not in it, or the round is older than the last
//              closed one (who was in that is no longer known)
//   rejected   it names another run or segment, is of no member, before its worker's first round or
//              of a round not yet open, its weight is not 1 … kWeightMax, its norm is negative, its
//              payload does not fit, or (where contributions are clipped by it) its norm is not its
//              payload's; the reason says what was got and what was wanted
// The frame's epoch is not looked at: a push is as good under the membership before.
//
// A pull of the last closed round is answered with its merged update; of the open round with
// nothing now (the close will send it); any other with `rejected`.
//
// With `clip` and three or more contributions to a segment whose norm is not zero, contribution i
// is merged with the factor min(1, clip · median / norm_i), where the norms are those of the
// headers and the median is that of those above zero, the lower one of an even number
// (ClipFactors). A worker cannot state a smaller norm than it has. What is clipped off is gone: its
// worker has sent it and keeps nothing of it, and the shard does not put it into E.
//
// Memory, with M = open_bytes_max, N members and a payload of at most P bytes a segment (P is that
// of the dearest format accepted: 4·c + 16 for a segment of c coefficients, or some 5.2·c for topk
// at its worst):
//   open pushes       M + N·P at most: M of any segments and, beyond it, the oldest one's;
//                     without a limit N·P a segment
//   closed payloads   one a segment, the last merged update: 0.063·c in topk 256 and int2
//   E                 4·c a segment if it is kept
//   tables            kFormatsMax byte layouts of 28 bytes a tile and 8 bytes a tile, a segment. An
//                     open push keeps its layout even when others have taken its place: where one
//                     round has more formats than kFormatsMax, 28 bytes a tile for each push more
//   a merge           some 130 KB a slot of the runner; 4·c once under "all of topk" in fp32
class Aggregator {
 public:
  // InvalidArgument: an option out of range, a shard without segments in `layout`, a segment whose
  // payload would be larger than a frame carries. ResourceExhausted, before anything is allocated:
  // E, the tables and the pushes that can be open at once, those of all workers as far as
  // open_bytes_max lets them, are more than available_bytes.
  static absl::StatusOr<Aggregator> Create(const AggregatorOptions& options, Layout layout);

  std::vector<AggregatorEffect> Step(const AggregatorEvent& event, absl::Time now);

  // The figures of the heartbeat (bytes are the socket's and stay 0 here).
  ShardState state() const;

  struct OpenSegment {
    uint32_t segment = 0;
    uint32_t open_round = 0;
    std::vector<uint32_t> waiting_for;
    uint64_t open_bytes = 0;
  };
  std::vector<OpenSegment> OpenSegments() const;

  // Sum of squares of the shard's own residual E of all its segments.
  double ResidualSquareSum() const;

 private:
  // Byte layouts that a segment remembers; a worker that makes up formats can't fill the memory.
  static constexpr size_t kFormatsMax = 16;

  struct Accepted {
    uint64_t weight = 0;
    float norm = 0;
    std::shared_ptr<const PayloadLayout> layout;
    Buffer payload;
  };
  struct Closed {
    FrameHeader header;
    Buffer payload;
    std::vector<uint32_t> contributors;  // ascending
  };
  struct SegmentState {
    uint32_t segment = 0;
    uint32_t open_round = 0;
    std::map<uint32_t, Accepted> accepted;  // by worker, of the open round
    uint64_t open_bytes = 0;
    std::optional<Closed> closed;  // round open_round − 1
    std::vector<float> residual;   // E; empty unless KeepsResidual
    std::vector<uint32_t> tile_sizes;
    std::vector<std::shared_ptr<const PayloadLayout>> formats;
  };
  using Effects = std::vector<AggregatorEffect>;

  Aggregator(const AggregatorOptions& options, Layout layout);

  void OnPush(const PushArrived& push, Effects& effects);
  void OnPull(const FrameHeader& header, Effects& effects);
  void OnMembership(const Membership& membership, Effects& effects);

  void Answer(const FrameHeader& header, Outcome outcome, std::string reason, Effects& effects);
  void SendAgain(const SegmentState& segment, uint32_t worker, Effects& effects) const;
  void CloseIfComplete(SegmentState& segment, Effects& effects);

  // Whether so many bytes more would exceed what open rounds may hold.
  bool IsBusyFor(const SegmentState& segment, size_t bytes) const;

  // Run, segment and sender of a frame; the reason if one does not fit, else empty.
  std::string Misaddressed(const FrameHeader& header) const;
  // The payload's byte layout, after it was held against it.
  absl::StatusOr<std::shared_ptr<const PayloadLayout>> CheckPayload(
      SegmentState& segment, std::span<const std::byte> payload) const;
  absl::Status CheckFormat(const PayloadFormat& format) const;
  absl::Status CheckNorm(float norm, const PayloadLayout& layout,
                         std::span<const std::byte> payload) const;

  const Member* FindMember(uint32_t worker) const;
  SegmentState& StateOf(uint32_t segment) { return segments_[segment - first_segment_]; }
  std::vector<uint32_t> WaitingFor(const SegmentState& segment) const;
  bool IsComplete(const SegmentState& segment) const;

  AggregatorOptions options_;
  std::unique_ptr<const Layout> layout_;
  std::unique_ptr<Merger> merger_;
  Membership membership_;
  std::unordered_map<uint32_t, uint32_t> member_places_;  // in membership_, by worker
  std::vector<uint32_t> first_rounds_;                    // of the members, ascending
  uint32_t first_segment_ = 0;
  std::vector<SegmentState> segments_;
  uint64_t open_bytes_ = 0;  // of all segments
  ShardState counts_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

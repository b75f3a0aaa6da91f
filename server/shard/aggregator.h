#ifndef LONGWAVE_SERVER_SHARD_AGGREGATOR_H_
#define LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"

namespace longwave {

struct AggregatorOptions {
  uint64_t run = 0;
  uint64_t run_seed = 0;  // what random and stride selection draw from
  uint32_t shard = 0;
  PayloadFormat up;    // what pushes must be; codec and k may be others from issue to issue, see .cc
  double rho = 0;      // G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w), per coefficient
  PayloadFormat down;  // kAll: all of G goes down; kTopK: the top k of E + G, the rest stays in E
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
struct AnswerPush {  // a kAnswer frame to header.worker; reason travels as the payload of a rejection
  FrameHeader header;
  std::string reason;
};
struct SendMerged {  // a kMerged frame to each of `workers`, all from one buffer
  std::vector<uint32_t> workers;
  FrameHeader header;
  Buffer payload;
};
using AggregatorEffect = std::variant<AnswerPush, SendMerged>;

// A shard's decisions, pure: no socket, thread or clock inside. For each of its segments there is one
// open round. It waits for a push of every member whose first_round it has reached; then it closes:
// the pushes are merged, the result is sent to the members, and the next round opens. Segments close
// on their own.
//
// A push is answered
//   accepted   it is of the open round of its segment, and the first of its worker
//   duplicate  the same worker has pushed to this round already, or it is of the round last closed and
//              its push went into that merge; the merged update is sent again in the second case
//   late       its round is closed, and its push was not in it
//   rejected   not a member, another run, an unknown segment, a round that is not open yet, a payload
//              that does not fit: the reason says what was got and what was wanted
// A push may run ahead: once a worker has seen round r of a segment closed it may push r + 1.
class Aggregator {
 public:
  // InvalidArgument: an option out of range, a shard without segments in `layout`.
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
  // (the owner of this file completes it)
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

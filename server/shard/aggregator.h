#ifndef LONGWAVE_SERVER_SHARD_AGGREGATOR_H_
#define LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/codec.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "longwave/v1/shard.records.h"
#include "server/shard/grace.h"
#include "server/shard/merge.h"
#include "server/shard/shard_effect.h"
#include "server/shard/shard_records.h"
#include "server/shard/tile_threads.h"

namespace longwave {

struct AggregatorOptions {
  uint64_t run = 0;
  uint64_t run_seed = 0;  // seed of random and stride selection
  uint32_t shard = 0;
  // The format of pushes. The codec is each worker's own, since a payload names it in its head and
  // the merge takes any; but with an integer codec here the shard rejects fp32 and bf16. Under topk
  // the k is each worker's own, too. Under random and stride the round's draw gives the indices, so
  // the k must be this one.
  PayloadFormat up;
  double rho = 0;  // G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w), per coefficient
  // kTopK: the top k of E + G goes down, and the rest stays in E. kAll: the whole merged update
  // goes down, on the support of the pushes; merge.h states the forms. kRandom and kStride are
  // refused.
  PayloadFormat down;
  // Available memory of the machine, read by the caller since nothing here reads files; 0: no
  // check.
  uint64_t available_bytes = 0;
  // The largest number of members at once, for the memory estimate: as many pushes to a segment can
  // be open.
  uint32_t workers = 1;
  // Also for the estimate: bytes that the process may hold beside the aggregator, in model
  // snapshots and in its socket's queues.
  uint64_t snapshot_bytes = 0;
  uint64_t queue_bytes = 0;
  // The largest weight of a push; at most kWeightMax.
  uint64_t weight_max = kWeightMax;
  // The limit of a contribution's norm, as a multiple of the segment's usual norm (ClipFactors); 0:
  // no limit.
  double clip = 0;
  // The run's number of fragments as configured (see FragmentCount). Workers push the fragments of
  // a round in order, and segments open in this order (see Aggregator).
  uint32_t fragments = 1;
  // Limit of the bytes of pushes to open rounds, over all segments; 0: none. A push beyond it is
  // answered busy.
  uint64_t open_bytes_max = 0;
  // For the merges' work; null: the caller of Step.
  std::shared_ptr<TileThreads> threads;
  // Share of a round's members, 0 to 1, whose pushes (at least one) let the round close without the
  // others after the grace; 1: all members.
  double quorum = 1;
  absl::Duration grace_min;  // bounds of Grace; unused with quorum 1
  absl::Duration grace_max;
  // A log exists: KeepRecord and AnswerFromDisk are among the effects. Without a log, older rounds
  // are compacted at once.
  bool logs = false;
  uint64_t rounds = 0;  // the run's rounds, after which pushes are rejected; 0: unlimited
};

// Events. Payloads have been checked against their headers.
struct PushArrived {
  PushFrame header;
  Buffer payload;
};
struct PullArrived {
  PullFrame header;
};
struct MembershipChanged {
  Membership membership;
};
struct TimePassed {};  // at NextDue or later
using AggregatorEvent = std::variant<PushArrived, PullArrived, MembershipChanged, TimePassed>;

// A shard's decisions. The class is pure: no socket, thread, clock or disk is inside. Each segment
// has one open round, at first round 0. Segments are independent of each other.
//
//   open r    Follows the close of r − 1, or Restore. The members due are those whose first_round
//             is r or before. Each of them may push once to round r. The round waits for all
//             members due, except those given up. The quorum is reached when max(1, ⌈quorum · due⌉)
//             of them have pushed. The other members then have the grace (grace.h, computed from
//             this segment's past closes), after which the round no longer waits. Without a quorum
//             the round waits without limit: the coordinator removes a member after its heartbeat
//             timeout, and MembershipChanged says so.
//   given up  A member due that missed the last two closes of the segment, and sent no push to the
//             segment, not even a late one, since the first of these rounds opened. The member
//             still counts as due. Its next push, of whatever round, ends this.
//   close     Happens as soon as the round waits for no member and has a push. The pushes are
//             merged (merge.h), the result goes to every member including joining ones, the
//             payloads are dropped, and r + 1 opens. The round does not wait for a member that has
//             left. The push of such a member stays in the merge, but does not count for the
//             quorum.
//   closed r  The merged update of the last closed round is kept, to answer pulls and late or
//             repeated pushes, until the next close. The log answers requests for older rounds.
//
// The answer to a push has the segment's open round and one of
//   accepted    The push is its worker's first to the segment's open round.
//   duplicate   The worker has pushed to the open round already, or its push of the last closed
//               round is in the merge. In the second case the merged update is sent again. The
//               answer's `held_crc` is the CRC of the push that the shard holds. That push may
//               differ from this one if an earlier process of the worker made it and its residual
//               is lost.
//   late        The push is of the last closed round and not in its merge. The merged update is
//               sent. (AnswerFromDisk handles older rounds.)
//   busy        The push would exceed open_bytes_max, and the segment is not the oldest open one.
//               The shard keeps nothing, and the worker pushes again. The oldest segment is the
//               first by round, then by fragment (index modulo the number of fragments), then by
//               index. The worker needs this segment first, since it applies fragments in order.
//               Pushes to it are always taken, so that it closes and frees memory. A segment that
//               awaits its Restore takes no push and does not count as the oldest.
//   not member  The sender is no member, or joins only at a later round. The shard keeps nothing.
//   rejected    The push names another run or segment, or a round that is not open yet or after the
//               run's last. The weight is not 1 … weight_max, the norm is negative, or the payload
//               does not fit. With `clip`, the norm is not the payload's or above kPushNormMax. Or
//               the shard has accepted a later push of the worker than the residual accounts for,
//               so that the content of that push would count twice: the push comes from a copy of
//               the worker's folder. The reason states what was got and what was wanted.
// A push is as good under an earlier membership, so the frame's epoch is not checked.
//
// A pull by a member, whatever its first_round, is answered with the merged update if it is of the
// last closed round. A pull of the open round has no answer now, since the close sends the update.
// A pull of a later round is answered `rejected`, of an older round by AnswerFromDisk. The answer
// to a worker that is no member is `not member`.
//
// With `clip`, contribution i is merged with a factor of at most clip · usual / norm_i, or left out
// if the factor is nearly zero. The usual norm follows from the norms in the headers and, with
// fewer than three of them, from the norm of the segment's last merged update (ClipFactors). The
// norm in a header is checked against the payload. The clipped part is lost: the worker has sent it
// and keeps nothing of it, and the shard does not put it into E.
//
// Recovery after a crash: Create, then Restore of each segment that has a snapshot, then Replay of
// the log's records in order, then Step(TimePassed), which closes the rounds that are complete.
// Given-up members and the history of the grace are not durable. The workers of accepted pushes are
// known as far back as the records reach. For workers that were away longer, the coordinator checks
// the registration.
//
// Memory, with M = open_bytes_max, N members and at most P bytes of payload a segment. P is the
// size of the largest accepted format: 4·c + 16 for a segment of c coefficients, or about 5.2·c for
// the worst topk.
//   open pushes       at most M + N·P: M over any segments, and N·P beyond it for the oldest
//                     segment. Without a limit N·P a segment. While segments are restored, N·P for
//                     each segment that becomes the oldest in their place
//   closed payloads   the last merged update of each segment: 0.063·c in topk 256 and int2, 4·c in
//                     "all in fp32"
//   E                 4·c a segment if it is kept
//   newest pushes     48 bytes for each pair of a segment and a worker that has ever pushed to it
//   tables            at most kPushFormatsMax byte layouts a segment, of 28 bytes a tile, and 8
//                     bytes a tile. An open push keeps its layout even after replacement in the
//                     table: a round with more formats takes 28 bytes a tile for each further push
//   a merge           about 130 KB a thread; 4·c once under "all of topk" in fp32
// The owner holds snapshots (durable_shard.h) and queues (shard_memory.h) beside this. Create
// checks all of it but the merge against available_bytes, with pushes and updates in the configured
// formats.
class Aggregator {
 public:
  // InvalidArgument: an option out of range, a shard without segments in `layout`, or a segment
  // whose payload exceeds a frame. ResourceExhausted, before any allocation: the shard's Memory as
  // above may exceed available_bytes.
  static absl::StatusOr<Aggregator> Create(const AggregatorOptions& options, Layout layout);

  std::vector<ShardEffect> Step(const AggregatorEvent& event, absl::Time now);

  // When TimePassed is due: the end of the earliest grace. InfiniteFuture: never. InfinitePast: at
  // once, after Restore or Replay.
  absl::Time NextDue() const;

  // The header of the answer to a push, pull or fetch, with the segment's open round. Counts
  // pushes. For answers to AnswerFromDisk.
  AnswerFrame AnswerTo(const FrameName& asked, Outcome outcome);

  // The segment's state that the log lacks, or has only in records that may be dropped. Pushes to
  // the open round are left out: Replay must begin before the first of them.
  SegmentSnapshot Export(uint32_t segment) const;
  // The segment's state will come by Restore, and its owner holds its pushes back. The segment is
  // therefore not the oldest open one, which alone is never busy.
  void AwaitRestore(uint32_t segment);
  // The segment closes no round for now, or again.
  void HoldOpen(uint32_t segment, bool holds);
  // Replaces the segment's whole state. Without E and a closed update the snapshot opens its round
  // with E = 0. InvalidArgument, with nothing changed: the segment is another shard's, E has
  // another length, or the closed update is not of the round before or does not fit the layout.
  absl::Status Restore(uint32_t segment, SegmentSnapshot snapshot);
  // Likewise: opens the round with E = 0, and keeps which pushes were the newest.
  absl::Status RestoreAnew(uint32_t segment, uint32_t round);
  // Repeats a record of the log, without effects and counts:
  //   push         of the open round: accepted; of an older one: skipped
  //   merged       of the open round: closes it with exactly the record's contributors and factors;
  //                of an older one: skipped
  //   membership   taken if it is newer
  //   note         skipped
  // DataLoss: the record cannot be this shard's, or the close does not give the record's result.
  // The message names the difference: contributors, weights, factors, the update's bytes or header,
  // or E. InvalidArgument: another run's or shard's record. After an error the object is unusable.
  absl::Status Replay(const LogRecord& record);

  // Figures for the heartbeat. Bytes and the disk's figures stay 0; the caller fills them in.
  ShardState state() const;

  std::vector<SegmentReport> OpenSegments() const;
  struct OpenFigures {
    uint32_t segments = 0;    // segments with pushes to their open rounds
    uint64_t bytes = 0;       // of these pushes
    uint32_t waited_for = 0;  // members that are missing at the oldest open segment
  };
  OpenFigures open_figures() const;
  // segment: of this shard.
  uint32_t open_round(uint32_t segment) const { return StateOf(segment).open_round; }

  uint32_t first_segment() const { return first_segment_; }
  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }
  bool OwnsSegment(uint32_t segment) const { return segment - first_segment_ < segments_.size(); }
  const Membership& membership() const { return membership_; }
  bool IsMember(uint32_t worker) const { return FindMember(worker) != nullptr; }
  bool IsDue(uint32_t worker, uint32_t round) const;

  // Sum of squares of the segment's E. segment: of this shard.
  double ResidualSquareSum(uint32_t segment) const;

 private:
  // A member that has missed so many closes in a row is given up.
  static constexpr uint32_t kMissedMax = 2;

  struct Accepted {
    uint64_t weight = 0;
    float norm = 0;
    uint32_t crc = 0;  // of the payload
    std::shared_ptr<const PayloadLayout> layout;
    Buffer payload;
  };
  struct SegmentRounds {
    explicit SegmentRounds(const Grace& grace) : grace(grace) {}

    uint32_t segment = 0;
    uint32_t open_round = 0;
    bool awaits_restore = false;
    bool is_held_open = false;
    std::map<uint32_t, Accepted> accepted;  // by worker, of the open round
    uint32_t strangers = 0;  // entries of `accepted` from workers that are not due (any more)
    uint64_t open_bytes = 0;
    std::optional<ClosedSegment> closed;  // round open_round − 1
    std::map<uint32_t, uint32_t> newest;  // last round with an accepted push, by worker
    std::vector<float> residual;          // E; empty unless KeepsResidual
    std::vector<uint32_t> tile_sizes;
    std::vector<std::shared_ptr<const PayloadLayout>> formats;

    // For a quorum below 1.
    Grace grace;
    absl::Time quorum_at = absl::InfiniteFuture();  // time of the quorum's push to the open round
    absl::Time last_push;                           // to the open round
    absl::Time closed_quorum_at;                    // quorum_at of the last closed round
    std::map<uint32_t, uint32_t> missed;  // closes missed in a row since a due member's last push
  };
  using Effects = std::vector<ShardEffect>;

  Aggregator(const AggregatorOptions& options, Layout layout);

  void OnPush(const PushArrived& push, absl::Time now, Effects& effects);
  // A push of a round before the open one. had_missed: the worker had missed a close and pushed
  // nothing since.
  void OnClosedPush(SegmentRounds& segment, const PushFrame& header, bool had_missed,
                    absl::Time now, Effects& effects);
  void OnPull(const PullFrame& header, Effects& effects);
  void OnMembership(const Membership& membership, absl::Time now, Effects& effects);
  void OnTimePassed(absl::Time now, Effects& effects);

  void Answer(const FrameName& asked, Outcome outcome, std::string_view reason, Effects& effects,
              Rejection rejection = Rejection::kNone);
  // held_crc: of the push that the shard holds.
  void AnswerDuplicate(const PushFrame& push, uint32_t held_crc, Effects& effects);
  void SendAgain(const SegmentRounds& segment, const FrameName& asked, Effects& effects) const;
  void SetMembership(const Membership& membership);

  // Runs after each change of the pushes or of the members due. Closes the segment if it is
  // complete. Otherwise begins or ends its grace, depending on the quorum.
  void CloseIfComplete(SegmentRounds& segment, absl::Time now, Effects& effects);
  void SetQuorumAt(SegmentRounds& segment, absl::Time at);
  void Close(SegmentRounds& segment, Effects& effects);
  void NoteMissed(SegmentRounds& segment) const;
  // The contributors of the open round with their clipping factors.
  std::vector<Contributor> OpenContributors(const SegmentRounds& segment) const;
  void NoteClipped(const SegmentRounds& segment, const std::vector<Contributor>& contributors,
                   Effects& effects);
  MergedRecord Merge(SegmentRounds& segment, std::vector<Contributor> contributors,
                     bool hashes_residual);
  void OpenNext(SegmentRounds& segment, const MergedRecord& closed);

  void Accept(SegmentRounds& segment, const PushFrame& header,
              std::shared_ptr<const PayloadLayout> layout, const Buffer& payload);
  // The order of open segments: round, fragment, index.
  std::tuple<uint32_t, uint32_t, uint32_t> PlaceInTime(const SegmentRounds& segment) const {
    return {segment.open_round, segment.segment % fragment_count_, segment.segment};
  }
  // Whether so many more bytes would exceed the limit for open rounds.
  bool IsBusyFor(const SegmentRounds& segment, size_t bytes) const;
  // Why run or segment of a frame do not fit; empty if they do.
  std::string Misaddressed(const FrameName& frame) const;

  absl::Status CheckSnapshot(uint32_t segment, const SegmentSnapshot& snapshot) const;
  // False: the record is of an older round and is skipped. DataLoss: of a later round.
  absl::StatusOr<bool> IsOfTheOpenRound(const FrameName& frame) const;
  absl::Status ReplayPush(const PushRecord& record);
  absl::Status ReplayMerged(const MergedRecord& record);

  const Member* FindMember(uint32_t worker) const;
  uint32_t DueCount(uint32_t round) const;
  SegmentRounds& StateOf(uint32_t segment) { return segments_[segment - first_segment_]; }
  const SegmentRounds& StateOf(uint32_t segment) const {
    return segments_[segment - first_segment_];
  }
  std::vector<uint32_t> WaitingFor(const SegmentRounds& segment) const;
  void UpdateStrangers(SegmentRounds& segment) const;

  AggregatorOptions options_;
  std::unique_ptr<const Layout> layout_;
  std::unique_ptr<Merger> merger_;
  Membership membership_;
  std::unordered_map<uint32_t, uint32_t> member_places_;  // in membership_, by worker
  std::vector<uint32_t> first_rounds_;                    // of the members, ascending
  uint32_t fragment_count_ = 1;
  uint32_t first_segment_ = 0;
  std::vector<SegmentRounds> segments_;
  uint64_t open_bytes_ = 0;  // of all segments
  bool restored_ = false;    // since the last TimePassed
  // End of the earliest grace, cached since every frame needs it; nothing: to be recomputed.
  mutable std::optional<absl::Time> due_;
  ShardState counts_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

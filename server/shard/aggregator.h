#ifndef LONGWAVE_SERVER_SHARD_AGGREGATOR_H_
#define LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
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
#include "common/wire/shard_report.h"
#include "server/shard/grace.h"
#include "server/shard/merge.h"
#include "server/shard/shard_records.h"
#include "server/shard/tile_runner.h"

namespace longwave {

struct AggregatorOptions {
  uint64_t run = 0;
  uint64_t run_seed = 0;  // what random and stride selection draw from
  uint32_t shard = 0;
  // What pushes must be. The codec is each worker's own, since a payload names it in its head and
  // the merge takes any; but where this one is an integer codec, fp32 and bf16 are rejected. The k
  // is each worker's own under topk. Under random and stride, where the round's draw gives the
  // indices, the k must be this one.
  PayloadFormat up;
  double rho = 0;  // G = Σ w·q̂ / max(Σ_senders w, ρ·Σ_all w), per coefficient
  // kTopK: the top k of E + G goes down, the rest stays in E. kAll: all that was merged does, on
  // the support on which it came up; merge.h says in which form. kRandom and kStride are refused.
  PayloadFormat down;
  // What the machine can give; 0: not asked. The caller has read it, since nothing here reads
  // files.
  uint64_t available_bytes = 0;
  // For the estimate of what the shard wants alone. Members at once at most: as many pushes to a
  // segment can be open.
  uint32_t workers = 1;
  // Likewise: what else of available_bytes the process may hold beside the aggregator, in model
  // snapshots and in its socket's queues.
  uint64_t snapshot_bytes = 0;
  uint64_t queue_bytes = 0;
  // The largest weight of a push; at most kWeightMax.
  uint64_t weight_max = kWeightMax;
  // A contribution to a segment counts at most as this multiple of what is the usual norm there
  // (ClipFactors); 0: as it is.
  double clip = 0;
  // Of the run, as wanted (see FragmentCount): workers push one fragment of a round after the
  // other, and in this order segments are open (see Aggregator).
  uint32_t fragments = 1;
  // Bytes of pushes that are kept for open rounds, of all segments together; 0: no limit. What
  // would exceed it is answered busy.
  uint64_t open_bytes_max = 0;
  // Who does the merges' work; null: the caller of Step alone.
  std::shared_ptr<TileRunner> runner;
  // Share of the members of a round, 0 to 1, with whose pushes (at least one) it may close without
  // the others once the grace has passed; 1: with all of them.
  double quorum = 1;
  absl::Duration grace_min;  // bounds of what Grace gives the others; without meaning for quorum 1
  absl::Duration grace_max;
  // There is a log: KeepPush, KeepMerged and AskLog are among the effects. Without one what the
  // shard does not hold any more is gone.
  bool logs = false;
  uint64_t rounds = 0;  // of the run, after which no push is taken; 0: it has no end
};

// What happens to a shard, from outside. Payloads have been held against their headers.
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
struct TimePassed {};  // at NextDue or later
using AggregatorEvent = std::variant<PushArrived, PullArrived, MembershipChanged, TimePassed>;

// What the shard is to do about it, in order.

// What a rejected push has wrong, for those who count.
enum class Rejection : uint8_t { kNone, kAddress, kRound, kWeight, kNorm, kPayload };
// A kAnswer frame to header.worker; reason travels as the payload of a rejection.
struct AnswerPush {
  FrameHeader header;
  std::string reason;
  Rejection rejection = Rejection::kNone;
};
struct SendMerged {  // a kMerged frame to each of `workers`, all from one buffer
  std::vector<uint32_t> workers;
  FrameHeader header;
  Buffer payload;
};
// To be in the log before the effects behind it are performed: a push before it is answered
// `accepted`, a close before anybody sees its update.
struct KeepPush {
  FrameHeader header;
  Buffer payload;
};
struct KeepMerged {
  MergedRecord record;
};
// Only who has the log can answer this push or pull of a round before the last closed one. A pull:
// with that round's update, or `gone`. A push: `duplicate` if its worker is one of that round's
// contributors, else `late`, and with the update then; `gone` if there is no record: its worker
// must not send again what may be in a merge.
// AnswerTo makes the answer's header.
struct AskLog {
  FrameHeader header;
};
// For people: an accepted contribution was merged with less than its weight, or left out.
struct ContributionClipped {
  uint32_t worker = 0;
  bool left_out = false;
  std::string reason;  // names worker, round and segment
};
using AggregatorEffect =
    std::variant<AnswerPush, SendMerged, KeepPush, KeepMerged, AskLog, ContributionClipped>;

// A shard's decisions, pure: no socket, thread, clock or disk inside. For each of its segments
// there is one open round, 0 at first. Segments know nothing of each other.
//
//   open r    Entered by the close of r − 1, or by Restore. Due are the members whose first_round
//             is r or before; legal is one push of round r from each of them. Waits for all that
//             are due, except those that are given up. It has its quorum when max(1, ⌈quorum ·
//             due⌉) of them have pushed; from then on the others have the grace (grace.h, of this
//             segment's past closes), at whose end nobody is waited for. Without a quorum it waits
//             for as long as it takes: who is silent for too long is removed by the coordinator,
//             which comes in as MembershipChanged.
//   given up  A member that was due and missed the last two closes of the segment, with no push to
//             the segment, not even a late one, since the first of them was open. Counts as due.
//             Its next push of whatever round ends this.
//   close     As soon as nobody is waited for and there is a push at all: the pushes are merged
//             (merge.h), the result goes to every member, the joining ones too, the payloads are
//             dropped and r + 1 opens. A member that leaves is no longer waited for; what it had
//             pushed to the open round stays in the merge, but is not of the quorum.
//   closed r  The last closed round's merged update is kept, to answer pulls and late or repeated
//             pushes. The next one takes its place; who asks for something older is for the log.
//
// A push is answered, with the segment's open round in `weight`,
//   accepted    it is of the open round of its segment, and the first of its worker
//   duplicate   its worker has pushed to the open round already, or the round is the last closed
//               one and this worker's push went into its merge: then the merged update is sent
//               again. The answer's held_crc is that of the push that the shard has: one that an
//               earlier process of the worker made, whose residual is lost, may be another one
//   late        its round is the last closed one and its push was not in it: the merged update is
//               sent. (Of an older round: AskLog.)
//   busy        open rounds hold open_bytes_max already and its segment is not the oldest open one:
//               nothing is kept of it, its worker pushes it again. The oldest is the one of the
//               lowest round, in it of the lowest fragment (index modulo their number), in that of
//               the lowest index: the one that a worker needs first, since it takes no fragment
//               before the one before is applied. Pushes to it are always taken, so that it closes
//               and makes room (one that awaits its Restore is none: it takes nothing)
//   not member  its sender is no member, or it is of the open round and its member joins at a later
//               one: nothing is kept of it either
//   rejected    it names another run or segment, a round not yet open or beyond the run's last
//               (nobody who has done all rounds pushes any more), its weight is not
//               1 … weight_max, its norm is negative, its payload does not fit, or (where
//               contributions are clipped by it) its norm is not its payload's or above
//               kPushNormMax; or a later push of its worker was accepted than its residual accounts
//               for, which would count again what is in that: it comes from a copy of the worker's
//               folder. The reason says what was got and what was wanted
// The frame's epoch is not looked at: a push is as good under the membership before.
//
// A pull by any member, whatever its first_round: of the last closed round it is answered with its
// merged update; of the open round with nothing now (the close will send it); of a later one with
// `rejected`; of an older one, AskLog. Who is no member is told so.
//
// With `clip` contribution i is merged with a factor of at most clip · usual / norm_i, or left out
// where that is next to nothing. What is usual follows from the norms of the headers and, with less
// than three of them, of the segment's last merged update (ClipFactors). A worker cannot state
// another norm than it has. What is clipped off is gone: its worker has sent it and keeps nothing
// of it, and the shard does not put it into E.
//
// After a crash the same object comes about from what is durable: Create, then Restore of each
// segment that there is a snapshot of, then Replay of the log's records in their order, then
// Step(TimePassed), which closes what had come whole. Who was given up and what the grace was is
// not durable and begins anew. Whose pushes were accepted when is known as far back as the records
// go: who was away for longer, its registration is held against (Coordinator).
//
// Memory, with M = open_bytes_max, N members and a payload of at most P bytes a segment (P is that
// of the dearest format accepted: 4·c + 16 for a segment of c coefficients, or some 5.2·c for topk
// at its worst):
//   open pushes       M + N·P at most: M of any segments and, beyond it, the oldest one's;
//                     without a limit N·P a segment. While segments are restored, N·P for each
//                     that takes the place of the oldest one
//   closed payloads   one a segment, the last merged update: 0.063·c in topk 256 and int2, 4·c in
//                     "all in fp32"
//   E                 4·c a segment if it is kept
//   newest pushes     48 bytes a segment and worker that has ever pushed to it
//   tables            kPushFormatsMax byte layouts of 28 bytes a tile and 8 bytes a tile, a
//                     segment. An open push keeps its layout even when others have taken its place:
//                     where one round has more formats than that, 28 bytes a tile for each push
//                     more
//   a merge           some 130 KB a slot of the runner; 4·c once under "all of topk" in fp32
// Who has it keeps snapshots (durable_shard.h) and queues (shard_memory.h) beside it. Create holds
// all of this but the merge against available_bytes, pushes and updates in the configured formats.
class Aggregator {
 public:
  // InvalidArgument: an option out of range, a shard without segments in `layout`, a segment whose
  // payload would be larger than a frame carries. ResourceExhausted, before anything is allocated:
  // what the shard may come to hold (see Memory above) is more than available_bytes.
  static absl::StatusOr<Aggregator> Create(const AggregatorOptions& options, Layout layout);

  std::vector<AggregatorEffect> Step(const AggregatorEvent& event, absl::Time now);

  // When TimePassed is due: the end of the earliest grace. InfiniteFuture: nothing is.
  // InfinitePast, at once: after Restore or Replay.
  absl::Time NextDue() const;

  // The header of an answer to a push, pull or fetch, with the segment's open round; pushes are
  // counted by it. For what AskLog leaves to others.
  FrameHeader AnswerTo(const FrameHeader& asked, Outcome outcome);

  // What is not in the log of a segment, or only in what may be dropped of it. Pushes to the open
  // round are not in it: Replay must begin before the first of them.
  SegmentSnapshot Export(uint32_t segment) const;
  // Its state comes by Restore, and pushes to it wait for that: it is not the oldest open segment,
  // which alone is never busy.
  void AwaitRestore(uint32_t segment) { StateOf(segment).awaits_restore = true; }
  // Takes the place of all that is known of the segment. Without E and a closed update it opens
  // its round with E = 0. InvalidArgument, and nothing is changed: another shard's segment, E of
  // another length, a closed update that is not the round before's or does not fit the layout.
  absl::Status Restore(uint32_t segment, SegmentSnapshot snapshot);
  // Does again what the log says was done, without effects and counts:
  //   push         of the open round: is accepted; of an older one: skipped
  //   merged       of the open round: closes it with exactly the record's contributors and their
  //                factors; of an older one: skipped
  //   membership   is taken, if it is newer
  //   note         skipped
  // DataLoss: what must not be in a log that this shard wrote, or a close that does not lead to
  // what the record has. Says what differs: contributors, weights, factors, the update's bytes or
  // header, E. InvalidArgument: another run's or shard's. The object is of no use afterwards.
  absl::Status Replay(const LogRecord& record);

  // The figures of the heartbeat (bytes, and those of the disk, are for others and stay 0 here).
  ShardState state() const;

  std::vector<SegmentReport> OpenSegments() const;
  struct OpenFigures {
    uint32_t segments = 0;    // with a push to their open round
    uint64_t bytes = 0;       // of these pushes
    uint32_t waited_for = 0;  // members that the oldest open segment waits for
  };
  OpenFigures open_figures() const;
  // segment: of this shard.
  uint32_t open_round(uint32_t segment) const { return StateOf(segment).open_round; }

  uint32_t first_segment() const { return first_segment_; }
  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }
  bool OwnsSegment(uint32_t segment) const { return segment - first_segment_ < segments_.size(); }
  const Membership& membership() const { return membership_; }
  bool IsMember(uint32_t worker) const { return FindMember(worker) != nullptr; }

  // Sum of squares of the shard's own residual E of all its segments.
  double ResidualSquareSum() const;
  double ResidualSquareSum(uint32_t segment) const;  // of one of this shard

 private:
  // So many closes in a row that a member has missed, and it is given up.
  static constexpr uint32_t kMissedMax = 2;

  struct Accepted {
    uint64_t weight = 0;
    float norm = 0;
    uint32_t crc = 0;  // of the payload
    std::shared_ptr<const PayloadLayout> layout;
    Buffer payload;
  };
  struct SegmentState {
    explicit SegmentState(const Grace& grace) : grace(grace) {}

    uint32_t segment = 0;
    uint32_t open_round = 0;
    bool awaits_restore = false;
    std::map<uint32_t, Accepted> accepted;  // by worker, of the open round
    uint32_t strangers = 0;                 // of these, from workers that are not due (any more)
    uint64_t open_bytes = 0;
    std::optional<ClosedSegment> closed;  // round open_round − 1
    std::map<uint32_t, uint32_t> newest;  // by worker, the last round with an accepted push of it
    std::vector<float> residual;          // E; empty unless KeepsResidual
    std::vector<uint32_t> tile_sizes;
    std::vector<std::shared_ptr<const PayloadLayout>> formats;

    // For a quorum below 1.
    Grace grace;
    absl::Time quorum_at = absl::InfiniteFuture();  // that so many had pushed to the open round
    absl::Time last_push;                           // to the open round
    absl::Time closed_quorum_at;                    // quorum_at of the last closed round
    std::map<uint32_t, uint32_t> missed;  // closes in a row, since a due member's last push
  };
  using Effects = std::vector<AggregatorEffect>;

  Aggregator(const AggregatorOptions& options, Layout layout);

  void OnPush(const PushArrived& push, absl::Time now, Effects& effects);
  // Of a round before the open one. had_missed: its worker had pushed nothing since a close that it
  // missed.
  void OnClosedPush(SegmentState& segment, const FrameHeader& header, bool had_missed,
                    absl::Time now, Effects& effects);
  void OnPull(const FrameHeader& header, Effects& effects);
  void OnMembership(const Membership& membership, absl::Time now, Effects& effects);
  void OnTimePassed(absl::Time now, Effects& effects);

  void Answer(const FrameHeader& header, Outcome outcome, std::string reason, Effects& effects,
              Rejection rejection = Rejection::kNone);
  // held_crc: of the push that is there.
  void AnswerDuplicate(const FrameHeader& header, uint32_t held_crc, Effects& effects);
  void SendAgain(const SegmentState& segment, uint32_t worker, Effects& effects) const;
  void TakeMembership(const Membership& membership);

  // After whatever changes who has pushed or who is due: closes the segment if that completes it;
  // else begins its grace, or ends it, as there is a quorum or none.
  void CloseIfComplete(SegmentState& segment, absl::Time now, Effects& effects);
  void SetQuorumAt(SegmentState& segment, absl::Time at);
  void Close(SegmentState& segment, Effects& effects);
  void NoteMissed(SegmentState& segment) const;
  // Those of the open round, with what clipping leaves of each.
  std::vector<Contributor> OpenContributors(const SegmentState& segment) const;
  void NoteClipped(const SegmentState& segment, const std::vector<Contributor>& contributors,
                   Effects& effects);
  MergedRecord Merge(SegmentState& segment, std::vector<Contributor> contributors,
                     bool hashes_residual);
  void OpenNext(SegmentState& segment, const MergedRecord& closed);

  void Accept(SegmentState& segment, const FrameHeader& header,
              std::shared_ptr<const PayloadLayout> layout, const Buffer& payload);
  // By which the oldest open segment is the lowest: round, fragment, index.
  std::tuple<uint32_t, uint32_t, uint32_t> PlaceInTime(const SegmentState& segment) const {
    return {segment.open_round, segment.segment % fragment_count_, segment.segment};
  }
  // Whether so many bytes more would exceed what open rounds may hold.
  bool IsBusyFor(const SegmentState& segment, size_t bytes) const;
  // Run and segment of a frame; the reason if one does not fit, else empty.
  std::string Misaddressed(const FrameHeader& header) const;

  absl::Status CheckSnapshot(uint32_t segment, const SegmentSnapshot& snapshot) const;
  // A record of an older round is to be skipped. DataLoss: of a later one.
  absl::StatusOr<bool> IsOfTheOpenRound(const FrameHeader& header) const;
  absl::Status ReplayPush(const PushRecord& record);
  absl::Status ReplayMerged(const MergedRecord& record);

  const Member* FindMember(uint32_t worker) const;
  bool IsDue(uint32_t worker, uint32_t round) const;
  uint32_t DueCount(uint32_t round) const;
  SegmentState& StateOf(uint32_t segment) { return segments_[segment - first_segment_]; }
  const SegmentState& StateOf(uint32_t segment) const {
    return segments_[segment - first_segment_];
  }
  std::vector<uint32_t> WaitingFor(const SegmentState& segment) const;
  void UpdateStrangers(SegmentState& segment) const;

  AggregatorOptions options_;
  std::unique_ptr<const Layout> layout_;
  std::unique_ptr<Merger> merger_;
  Membership membership_;
  std::unordered_map<uint32_t, uint32_t> member_places_;  // in membership_, by worker
  std::vector<uint32_t> first_rounds_;                    // of the members, ascending
  uint32_t fragment_count_ = 1;
  uint32_t first_segment_ = 0;
  std::vector<SegmentState> segments_;
  uint64_t open_bytes_ = 0;  // of all segments
  bool restored_ = false;    // since the last TimePassed
  // The end of the earliest grace, asked for with every frame; nothing: to be found again.
  mutable std::optional<absl::Time> due_;
  ShardState counts_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_AGGREGATOR_H_

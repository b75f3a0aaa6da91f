#ifndef LONGWAVE_WORKER_TRAINER_CATCH_UP_H_
#define LONGWAVE_WORKER_TRAINER_CATCH_UP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/sync/exchange.h"
#include "worker/sync/pipeline.h"
#include "worker/trainer/trainer_host.h"

namespace longwave {

struct CatchUpParts {
  const Layout* layout = nullptr;
  SyncPipeline* pipeline = nullptr;
  Exchange* exchange = nullptr;
  TrainerHost* host = nullptr;
  uint64_t rounds = 0;  // of the run
  // Whether the replica is a function of the merged updates (CanCatchUp of the configuration).
  bool possible = true;
  // The inner schedule's at the signal of the segment's round.
  std::function<double(uint32_t round, uint32_t segment)> learning_rate;
  // What every replica began with, flat as the layout orders it, in host memory.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  // Makes a gradient nothing, before something is encoded that no inner step stands behind; see
  // filling.
  std::function<absl::Status()> clear_gradient;
  // Sees what fills segments of a fragment before any of it is posted, as FragmentSync has it.
  std::function<absl::Status(uint32_t round, uint32_t fragment, std::span<const SegmentPush>)>
      before_fill;
  // Is told what became of each contribution that goes out from here, or went out in an earlier
  // process and is settled here.
  std::function<void(Fate)> on_fate = [](Fate) {};
  // How long the oldest open rounds may stand still until this worker fills them.
  absl::Duration fill_patience = absl::Seconds(2);
};

// How a replica gets to the present without training: late joiners, workers that come back, those
// that were away for too long, and replicas that differ. Each segment is brought on by its merged
// updates or by a snapshot and those after it, whichever its shard says is cheaper.
//
//   joining   every segment is fetched up to its present; the host is told the oldest of their open
//             rounds (SetReadyRound). Once all segments stand at the same round and the host's
//             first_round is not after it, the anchor becomes θ and training goes on there. Until
//             then every round that closes is taken in.
//   resuming  the pushes of a checkpoint are posted again, so that the shards tell what became of
//             them: accepted (once, however often they are posted) or late, and then they go back
//             into the residual. If a shard no longer knows, the segment's residual is dropped.
//   filling   Segments close one by one, so that workers that died all at once leave some a round
//             ahead of others. When nobody else closes the rounds behind, who may push to them does
//             with what its residual has, without inner steps.
//   repair    segments that differ are fetched from the run's beginning.
// Where the anchor becomes θ, what inner steps have brought since a fragment's last signal is lost:
// with overlap or fragments up to a round's steps, of everything for who has skipped rounds, of the
// segments alone that were repaired.
// Runs whose replicas are no function of the merged updates alone (update inner, local) can do none
// of this: there a worker takes round after round as it comes.
class CatchUp {
 public:
  explicit CatchUp(CatchUpParts parts);

  // Whether a worker that would push to round `next` now had better catch up first: it has to, or
  // some segment's round `next` was closed without it, or is in its anchor already.
  bool IsBehind(uint32_t next) const;

  // Gets to the present and waits until this worker may push. Returns the round to go on with; all
  // rounds before it are in the anchor and θ is the anchor. `rounds` or more: nothing is left to
  // do. Cancelled: the host asked to stop. FailedPrecondition: a shard cannot help, or it is not
  // possible at all.
  absl::StatusOr<uint32_t> Join();

  // As Join, after the pushes of the checkpoint have met their fate. The pipeline's momentum
  // becomes the checkpoint's.
  absl::StatusOr<uint32_t> Resume(const Checkpoint& checkpoint);

  // Between the rounds `next` − 1 and `next`: fetches anew what the host says is to be repaired,
  // once.
  absl::Status RepairIfTold(uint32_t next);

  // From time to time, on the trainer's thread: shards that have moved, and snapshots that they ask
  // for (one a call, in the order of the asks, and none while the one before waits to be sent).
  absl::Status Attend();

  // Since it was made.
  uint64_t repairs() const { return repairs_; }
  uint64_t snapshots_sent() const { return snapshots_sent_; }

 private:
  // A push that was posted here, and how to undo it in the residual.
  using Undo = std::function<absl::Status(const SegmentPush& push)>;

  uint32_t SegmentCount() const { return static_cast<uint32_t>(parts_.layout->segments().size()); }
  uint32_t LowestRound() const;    // of the segments' anchors
  uint32_t HighestAnchor() const;  // likewise
  uint32_t HighestRound() const;   // likewise, or that was heard of
  absl::Status CheckPossible() const;
  absl::Status CheckStop() const;

  // Every segment to its own present.
  absl::Status Hear();
  absl::StatusOr<uint32_t> Follow();
  // Those that stand before `round`, to their present.
  void FetchBelow(uint32_t round);
  // To hear of rounds that have closed: one segment of each shard.
  void AskForNews();
  void FetchAgain(uint32_t segment);
  // Waits for one event of a fetch. False: nothing came.
  absl::StatusOr<bool> TakeNext(absl::Duration timeout);
  absl::Status Take(const FetchEvent& event);
  absl::Status Take(const Fetched& fetched);

  absl::Status PostAndSettle(const std::vector<SegmentPush>& pushes, const Undo& late,
                             const Undo& unknown);
  absl::Status Fill(uint32_t round);
  absl::Status LoadInitial(uint32_t segment);

  const CatchUpParts parts_;
  std::vector<bool> heard_;                // by segment, since Hear
  std::set<uint32_t> anew_;                // being repaired, and not loaded yet
  std::vector<float> initial_;             // while it is needed
  std::vector<uint32_t> repaired_before_;  // by segment: repairs of rounds before this one are done
  bool refused_repair_ = false;            // was said
  uint64_t repairs_ = 0;
  uint64_t snapshots_sent_ = 0;
  std::deque<SnapshotAsk> asks_;  // of shards for snapshots, as they came

  // Of one Join, for the log.
  struct Taken {
    uint64_t updates = 0;
    uint64_t snapshots = 0;
    uint64_t bytes = 0;
  };
  Taken taken_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_CATCH_UP_H_

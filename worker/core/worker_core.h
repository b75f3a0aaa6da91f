#ifndef LONGWAVE_WORKER_CORE_WORKER_CORE_H_
#define LONGWAVE_WORKER_CORE_WORKER_CORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/journal.h"
#include "worker/core/checkpoint_pace.h"
#include "worker/core/session_core.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/worker_ledger.h"

namespace longwave {

struct WorkerCoreOptions {
  // Both outlive the core.
  const Layout* layout = nullptr;
  SyncPipeline* pipeline = nullptr;
  // A plan whose rounds are not all decided learns them from the directives.
  SyncPlan plan;
  std::vector<uint32_t> order;  // the order of encoding and sending (SendOrder)
  // The replica is a function of the merged updates (CanCatchUp of the configuration).
  bool can_catch_up = true;
  // Rounds between checkpoints; 0: no checkpoints. nullopt: the worker has no folder.
  std::optional<uint32_t> checkpoint_every;
  // The driver records pushes in a journal before they leave (SegmentPush, SettledNote), so that
  // checkpoints are written in the background. Otherwise the pushes of a checkpoint's round wait
  // until it is written.
  bool has_journal = false;
  // The inner schedule's learning rate at a step.
  std::function<double(uint64_t step)> learning_rate;
  // The replica's first weights, flat as the layout orders them, in host memory.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  // Zeroes a gradient signal before a round is filled; null: the signal is no gradient.
  std::function<absl::Status()> clear_gradient;
  // A worker fills the oldest open rounds after no progress for so long.
  absl::Duration fill_patience = absl::Seconds(2);
};

// Work for the driver, in this order, each done before the next. A failure ends the worker.
struct RetireCheckpoint {};  // the last checkpoint is stale from now on
// Writes this worker's own state to its disk. Without a journal a failed write makes the last
// checkpoint stale before any post. With one the driver copies the state, begins another journal
// and writes while training goes on; it calls CheckpointCopied and CheckpointEnded. is_last: no
// post follows, so that the last checkpoint may stay then; it is written before the next effect.
struct KeepCheckpoint {
  // With the pushes that are in flight or are posted next. The driver adds run, worker, rank, the
  // other totals and the loop's blobs.
  Checkpoint checkpoint;
  bool is_last = false;
};
// With a journal: what became of a push, for the journal.
struct SettledNote {
  JournalKind kind = JournalKind::kAccepted;
  uint32_t segment = 0;
  uint32_t round = 0;
};
struct FetchWish {  // see WorkerLedger::Fetch
  uint32_t segment = 0;
  uint32_t from_round = 0;
  uint32_t until_round = kRoundNever;
};
struct FragmentApplied {};  // an inner optimizer that takes the update steps now
struct TellFinal {
  bool writes_weights = false;
};
// A RoundReport lacks bytes, times and validation.
using CoreEffect = std::variant<RetireCheckpoint, KeepCheckpoint, SegmentPush, SettledNote,
                                FetchWish, FragmentApplied, RoundReport, TellFinal, CoreNotice>;

// An answer to a SnapshotRequest.
struct SnapshotAnswer {
  uint32_t segment = 0;
  uint32_t round = 0;
  Buffer payload;
};

// A worker's life from the run's beginning until its end, pure: events and times in, effects out.
// No socket, thread, clock, file or model inside; the arithmetic is the pipeline's. The driver
// (TrainingMember, the simulator's worker) reports events, calls Advance and carries out the
// effects in a loop. Not thread-safe.
//
//   Round     A worker begins a round once it knows the round's number of inner steps, which all
//             workers have. Inner steps lead to a fragment's signal. The worker encodes and posts
//             the fragment's segments, takes the overlapping steps and applies the merged updates.
//             The worker reports the round after the last fragment.
//   Catch-up  A replica catches up without training when it joins late, returns, was away for too
//             long or differs. Each segment takes its merged updates, or a snapshot and the updates
//             after it, whichever the shard finds cheaper. Once all segments stand at the same
//             round, not before first_round, the anchor becomes θ and training resumes. The
//             progress of inner steps since a fragment's last signal is lost there. Until then the
//             replica takes in every round that closes.
//   Sealing   A replica with all rounds is reported in sealing rounds, and compared and repaired as
//             before, until all replicas are known to be equal.
//   Stop      A process that is told to end does so between two inner steps. The process writes a
//             checkpoint of that moment if the last one lacks anything; posts in flight are in it
//             as not settled.
//
// Replicas that are not a function of the merged updates alone (update inner, local) have no
// catch-up: their worker takes the rounds one by one.
class WorkerCore {
 public:
  enum class Stage : uint8_t {
    // Every segment is fetched up to the present. Entered by a worker that does not begin with
    // round 0, is behind between two rounds, or waits for a compacted update. A worker that began
    // with weights other than the run's waits for a snapshot of each segment. Ends once the shards
    // have answered for each segment.
    kHearing,
    // The worker posts a checkpoint's pushes again, so that the shards tell their fate. An accepted
    // push counts once, however often it is posted. A late one returns to the residual. For an
    // unknown one the segment's residual is dropped. Entered after kHearing. Ends once all are
    // settled.
    kResuming,
    // The replica takes in closing rounds until this worker may push. Entered after kHearing and
    // kResuming.
    kFollowing,
    // Workers that die all at once may leave some segments a round ahead of others. When no other
    // worker closes the rounds behind, a worker that may push to them does, with its residual and
    // no inner step. Entered from kFollowing and returns there.
    kFilling,
    // Inner steps up to a fragment's signal, or, with a fragment in flight, up to its application.
    kComputing,
    // A fragment is encoded segment by segment, in turn or to fill a round.
    kEncoding,
    // The worker waits for the updates of all posts and applies them.
    kSyncing,
    // After a report or a catch-up the worker checks for a repair and for being behind.
    kBetweenRounds,
    // Segments that differ are fetched from the run's beginning.
    kRepairing,
    // The replica has all rounds. The worker reports it in each sealing round that the coordinator
    // names, and sends the final report once all replicas are known to be equal.
    kSealing
  };
  static const char* Name(Stage stage);

  explicit WorkerCore(WorkerCoreOptions options);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  // Called once, after the first Hear. is_new: no earlier process of this worker took part in the
  // run. checkpoint: the earlier process's, unless stale. FailedPrecondition: the worker has to
  // catch up and cannot.
  absl::Status Begin(bool is_new, std::optional<Checkpoint> checkpoint = std::nullopt);

  void Hear(Directive directive);
  // The newest open round of any segment that the ledger knows.
  void HearOpenRound(uint32_t round) { newest_open_round_ = round; }
  // An inner step with so many tokens was taken. Advance must have returned kTrain. The loss may
  // not be known.
  void StepDone(uint64_t tokens, std::optional<double> loss);
  // Results of WorkerLedger. A FetchEvent only while takes_fetched().
  void On(Settled settled) { settled_.push_back(std::move(settled)); }
  absl::Status On(const FetchEvent& event);
  void On(const SnapshotRequest& request) { AddRequest(request, requests_); }

  // A background checkpoint's copy was taken, within `took`; its write has ended. momentum: the
  // checkpoint's memory, which the next copy uses again.
  void CheckpointCopied(absl::Duration took, absl::Time now) { pace_.Copied(took, now); }
  void CheckpointEnded(bool ok, absl::Time now, std::vector<float> momentum = {}) {
    pace_.Ended(ok, now);
    if (!momentum.empty()) spare_ = std::move(momentum);
  }

  // The copy was not taken, for lack of memory that was touched before: it is due again.
  void CheckpointAgain(std::vector<float> momentum) {
    pace_.Again();
    spare_ = std::move(momentum);
  }
  // No copy is due before CheckpointAgain.
  void HoldCheckpoints() { pace_.Begin(0); }

  // The process has to end. Advance continues to the next inner step or wait, adds a last
  // checkpoint to its effects where needed, and returns kEnd. No inner step may be half taken.
  void Stop() { stops_ = true; }

  enum class Wish : uint8_t {
    kGoOn,   // carry out the effects and call Advance again
    kTrain,  // take an inner step and call StepDone
    kWait,   // wait for an event or wakes_at()
    kEnd,    // carry out the effects and end, after Stop
  };
  // Errors: the pipeline's. FailedPrecondition, Cancelled: a shard's or the caller's.
  absl::StatusOr<Wish> Advance(absl::Time now);
  std::vector<CoreEffect> TakeEffects() { return std::exchange(effects_, {}); }
  absl::Time wakes_at() const { return wakes_at_; }

  // A requested snapshot to send now, if there is one, in the order of the requests among the
  // segments that have room.
  absl::StatusOr<std::optional<SnapshotAnswer>> AnswerRequest(
      absl::FunctionRef<bool(uint32_t segment)> has_room);

  // A worker about to push to round `next` should catch up first: the directive demands it, or some
  // segment's round `next` closed without it or is already in its anchor.
  bool IsBehind(uint32_t next) const;

  Stage stage() const { return stage_; }
  bool takes_fetched() const {
    return stage_ == Stage::kHearing || stage_ == Stage::kFollowing || stage_ == Stage::kRepairing;
  }
  // True in stages that settle posts.
  bool takes_settled() const {
    return stage_ == Stage::kResuming || stage_ == Stage::kFilling || stage_ == Stage::kSyncing;
  }
  bool fills() const { return fills_; }
  // Segments that are encoded or posted and not settled.
  uint32_t awaited() const { return awaited_; }
  // The first round that this worker could push to now, for ControlPlane::SetReadyRound.
  uint32_t ready_round() const { return ready_round_; }
  uint32_t round() const { return round_; }        // under way, or else the next
  uint32_t fragment() const { return fragment_; }  // likewise, of this round
  uint64_t step() const { return step_; }          // the run's inner steps before this point
  const SyncPlan& plan() const { return plan_; }   // with the rounds that were heard of
  // The mean over the round's steps so far that have a loss.
  std::optional<double> train_loss() const {
    return losses_ == 0 ? std::nullopt : std::optional(loss_sum_ / static_cast<double>(losses_));
  }
  // The segment's contents are useless: it is being fetched from the run's beginning.
  bool IsFetchedAnew(uint32_t segment) const {
    return segments_[segment].state == SegmentStage::kAnew;
  }

  // Internal: a fault of this code. The simulator calls it after every event, and Advance in builds
  // without NDEBUG.
  absl::Status CheckInvariants() const;

  // Counts since construction.
  struct Counts {
    // Contributions by fate, including those of an earlier process that were settled here.
    uint64_t accepted = 0;
    uint64_t late = 0;
    uint64_t unknown = 0;
    uint64_t catch_ups = 0;
    uint64_t repairs = 0;
    uint64_t snapshots_sent = 0;
    uint64_t tokens = 0;
  };
  const Counts& counts() const { return counts_; }
  // Tokens of this worker's earlier processes.
  void CountTokensBefore(uint64_t tokens) { counts_.tokens = tokens; }

 private:
  enum class SegmentStage : uint8_t {
    // No fetch or post is outstanding.
    kCurrent,
    // The updates from its anchor's round on are being fetched. Ends with kUpToDate, or with a
    // post.
    kFetching,
    // The segment is fetched from the run's beginning because its contents are useless. Becomes
    // kFetching once the first update or snapshot is loaded.
    kAnew,
    // The contribution is encoded, held back or posted. Becomes kCurrent once settled.
    kPosted
  };
  struct Segment {
    SegmentStage state = SegmentStage::kCurrent;
    SegmentPush push;              // posted
    uint32_t repaired_before = 0;  // all repairs of earlier rounds are done
  };

  uint32_t SegmentCount() const { return static_cast<uint32_t>(segments_.size()); }
  void Await(SegmentPush push);
  // kRoundNever: not known yet.
  uint32_t rounds() const { return static_cast<uint32_t>(plan_.round_count()); }
  bool IsDecided(uint32_t round) const { return plan_.rounds().IsDecided(round); }
  SyncPoint point() const { return plan_.At(round_, fragment_); }
  double LearningRate(uint32_t round, uint32_t segment) const;
  void Notify(std::string text) { effects_.push_back(CoreNotice{false, std::move(text)}); }
  void Warn(std::string text) { effects_.push_back(CoreNotice{true, std::move(text)}); }

  absl::StatusOr<Wish> AdvanceStage(absl::Time now);
  absl::Status KeepLast();
  // Adds a KeepCheckpoint.
  absl::Status Keep(std::span<const SegmentPush> pushes, bool is_last);
  std::vector<SegmentPush> InFlight() const;

  // Rounds (worker_core.cc).
  void GoTo(uint32_t round);
  absl::StatusOr<Wish> Compute(absl::Time now);
  absl::Status BeginEncoding(std::vector<uint32_t> segments);
  absl::StatusOr<Wish> EncodeNext();
  absl::StatusOr<Wish> EndEncoding();
  bool WritesCheckpoint() const;
  absl::StatusOr<Wish> Sync(absl::Time now);
  // Adds an update that the fragment takes to `arrived`.
  absl::Status OnSettled(const Settled& settled, std::vector<SyncPipeline::Merged>& arrived);
  absl::StatusOr<Wish> EndSync();
  absl::StatusOr<Wish> EndRound();
  absl::StatusOr<Wish> GoOn();
  absl::StatusOr<Wish> Seal();

  // Catching up (worker_core_catch_up.cc).
  absl::Status CheckPossible() const;
  // The lowest and the highest of the segments' anchors.
  std::pair<uint32_t, uint32_t> AnchorRounds() const;
  // anew: every segment's contents are useless.
  absl::StatusOr<Wish> CatchUp(bool anew = false);
  // True: all segments that this stage waits for are current.
  bool HeardAll() const;
  void Fetch(uint32_t segment, bool anew = false);
  absl::Status OnFetched(const FetchEvent& fetched);
  // Takes the events in early_ whose rounds are decided by now.
  absl::Status TakeEarly();
  absl::Status Take(const FetchEvent& event);
  // A new fetch or a post ends the segment's last fetch.
  void DropEarly(uint32_t segment);
  // The segment's part of the first weights, which are made or read where they are not here.
  absl::StatusOr<std::vector<std::vector<float>>> Initial(uint32_t segment);
  // The from_round of a fetch anew. kRoundNever: a snapshot has to come first.
  uint32_t AnewFrom() const { return directive_.other_start ? kRoundNever : 0; }
  absl::StatusOr<std::vector<std::vector<float>>> StartOf(uint32_t segment);
  absl::StatusOr<Wish> Heard(absl::Time now);
  absl::StatusOr<Wish> Resume();
  absl::StatusOr<Wish> Follow(absl::Time now);
  void AskForNews(absl::Time now, bool level, uint32_t highest);
  absl::StatusOr<Wish> FillFragment(absl::Time now);
  absl::StatusOr<Wish> EndOutOfTurn(absl::Time now);
  absl::StatusOr<bool> BeginRepair();
  absl::StatusOr<Wish> EndRepair();

  const WorkerCoreOptions options_;
  SyncPlan plan_;
  absl::Status plan_failure_;  // the coordinator has told what contradicts the plan
  std::vector<Segment> segments_;
  Stage stage_ = Stage::kBetweenRounds;
  Directive directive_;
  uint32_t newest_open_round_ = 0;
  std::vector<CoreEffect> effects_;
  absl::Time wakes_at_ = absl::InfiniteFuture();
  uint32_t ready_round_ = kRoundNever;
  Counts counts_;

  uint32_t round_ = 0;
  uint32_t fragment_ = 0;
  uint64_t step_ = 0;
  std::optional<uint32_t> sealed_;       // the last sealing round reported
  double loss_sum_ = 0;                  // over the steps of the round that is trained
  uint64_t losses_ = 0;                  // of these steps, those with a loss
  std::vector<uint64_t> tokens_before_;  // by fragment: at its last signal
  RoundReport round_end_;                // of the last signal
  std::optional<TellFinal> final_;       // the last final report

  // State of encoding and posting.
  bool fills_ = false;
  bool in_flight_ = false;          // a fragment is posted, and training overlaps it
  std::deque<uint32_t> to_encode_;  // segments
  bool holds_ = false;              // no post before all is encoded
  std::vector<SegmentPush> held_;
  uint32_t awaited_ = 0;         // posted segments
  std::deque<Settled> settled_;  // not taken yet
  uint32_t missing_ = 0;         // segments whose update is compacted
  uint32_t late_ = 0;            // of one batch of posts
  uint32_t unknown_ = 0;         // likewise: their fate is unknown

  CheckpointPace pace_;
  std::vector<float> spare_;  // memory for the next copy

  bool stops_ = false;
  bool has_unkept_ = false;  // own state has changed since the last checkpoint

  // State of catching up.
  std::optional<Checkpoint> checkpoint_;
  std::vector<float> initial_;       // while it is needed
  bool gave_start_ = false;          // gave a start from it in this round
  std::vector<uint32_t> repairing_;  // segments
  bool refused_repair_ = false;      // the refusal was logged
  bool has_news_ = false;
  absl::Time last_news_, last_asked_;
  uint32_t filled_ = 0;
  std::deque<SnapshotRequest> requests_;  // of shards, in order of arrival
  // Results of fetches since one of a round that this worker does not know to be decided.
  std::deque<FetchEvent> early_;
  struct Taken {
    uint64_t updates = 0;
    uint64_t snapshots = 0;
    uint64_t bytes = 0;
  };
  Taken taken_;  // by one catch-up
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CORE_WORKER_CORE_H_

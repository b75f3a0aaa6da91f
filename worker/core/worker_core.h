#ifndef LONGWAVE_WORKER_CORE_WORKER_CORE_H_
#define LONGWAVE_WORKER_CORE_WORKER_CORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/core/session_core.h"
#include "worker/sync/fragments.h"
#include "worker/sync/pipeline.h"
#include "worker/sync/worker_ledger.h"

namespace longwave {

struct WorkerCoreOptions {
  // Both outlive the core.
  const Layout* layout = nullptr;
  SyncPipeline* pipeline = nullptr;
  SyncPlan plan;
  std::vector<uint32_t> order;  // in which segments are encoded and sent (SendOrder)
  // Whether the replica is a function of the merged updates (CanCatchUp of the configuration).
  bool can_catch_up = true;
  // A checkpoint is written in every so many rounds, 0: in none; nothing: the worker has no folder.
  std::optional<uint32_t> checkpoint_every;
  // The inner schedule's learning rate at a step.
  std::function<double(uint64_t step)> learning_rate;
  // What this replica began with, flat as the layout orders it, in host memory.
  std::function<absl::StatusOr<std::vector<float>>()> initial_weights;
  // Makes a gradient signal nothing, before a round is filled; null: the signal is none.
  std::function<absl::Status()> clear_gradient;
  // How long the oldest open rounds may stand still until this worker fills them.
  absl::Duration fill_patience = absl::Seconds(2);
};

// What the core wants done, in this order, each before the next: what fails ends the worker.
struct RetireCheckpoint {};  // the last one is stale from now on
// What this worker alone has is on its disk. Otherwise the last checkpoint is stale before anything
// is posted; is_last: nothing is posted after it, so that the one before may stay.
struct KeepCheckpoint {
  uint32_t round = 0;  // see Checkpoint
  uint32_t fragment = 0;
  std::vector<SegmentPush> pushes;  // in flight, or about to be
  bool is_last = false;
};
struct FetchWish {  // see WorkerLedger::Fetch
  uint32_t segment = 0;
  uint32_t from_round = 0;
  uint32_t until_round = kRoundNever;
};
struct FragmentApplied {};  // its update is in the replica: an inner optimizer that takes it steps
struct TellFinal {
  bool writes_weights = false;
};
// A RoundReport lacks bytes, times and validation.
using CoreEffect = std::variant<RetireCheckpoint, KeepCheckpoint, SegmentPush, FetchWish,
                                FragmentApplied, RoundReport, TellFinal, CoreNotice>;

// An answer to a SnapshotAsk.
struct SnapshotAnswer {
  uint32_t segment = 0;
  uint32_t round = 0;
  Buffer payload;
};

// A worker's life from when it knows the run until the run is over, pure: events and times go in,
// effects come out. No socket, thread, clock, file or model inside; the arithmetic is the
// pipeline's. Whoever drives it (TrainingMember, the simulator's worker) says what happened, calls
// Advance and carries the effects out, again and again. Not thread-safe.
//
// Rounds: inner steps until a fragment's signal; its segments are encoded and posted; the steps
// that overlap; the merged updates are applied. After the last fragment the round is reported.
// A replica gets to the present without training where it joins late, comes back, was away for too
// long, or differs: each segment is brought on by its merged updates, or by a snapshot and those
// after it, whichever its shard says is cheaper. Once all segments stand at the same round and
// first_round is not after it, the anchor becomes θ and training goes on there. Until then every
// round that closes is taken in. A replica with all rounds is reported in sealing rounds, which are
// compared and repaired like the rounds before, until all replicas are known to be equal. Where the
// anchor becomes θ, what inner steps have brought since a fragment's last signal is lost. A process
// that is told to end (Stop) ends between two inner steps: with a checkpoint of that moment, if the
// last one lacks anything. What is in flight then is in it, as not settled. Runs whose replicas are
// no function of the merged updates alone (update inner, local) can do none of this: there a worker
// takes round after round as it comes.
class WorkerCore {
 public:
  enum class Stage : uint8_t {
    // Every segment is fetched up to its own present. Entered by who does not begin with round 0,
    // finds itself behind between two rounds, or waits for an update that no shard keeps any more.
    // A worker that began with other weights than the run waits for a snapshot of each segment.
    // Ends once each segment was heard of.
    kHearing,
    // The pushes of a checkpoint are posted again, so that the shards tell what became of them:
    // accepted (once, however often they are posted) or late, and then they go back into the
    // residual; where a shard does not know any more the segment's residual is dropped. Entered
    // after hearing. Ends once all are settled.
    kResuming,
    // What closes is taken in until this worker may push. Entered after hearing and resuming.
    kFollowing,
    // Segments close one by one, so that workers that died all at once leave some a round ahead of
    // others. When nobody else closes the rounds behind, who may push to them does, with what its
    // residual has and no inner step. Entered from following, and goes back there.
    kFilling,
    // Inner steps: up to a fragment's signal, or, while it is in flight, up to its application.
    kComputing,
    // A fragment is encoded, segment by segment, in turn or for a round that is filled.
    kEncoding,
    // The updates of all that was posted are waited for and applied.
    kSyncing,
    // A round was reported, or the replica has caught up: is something to be repaired, is it
    // behind?
    kBetweenRounds,
    // Segments that differ are fetched from the run's beginning.
    kRepairing,
    // All rounds are there. The replica is reported in each sealing round that the coordinator
    // asks for, and once it says that all are equal, the final report is told.
    kSealing
  };
  static const char* Name(Stage stage);

  explicit WorkerCore(WorkerCoreOptions options);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  // Once, after the first Hear. is_new: no earlier process of this worker took part in the run.
  // checkpoint: of the earlier process, unless it is stale. FailedPrecondition: it would have to
  // catch up, and cannot.
  absl::Status Begin(bool is_new, std::optional<Checkpoint> checkpoint = std::nullopt);

  void Hear(Directive directive) { directive_ = std::move(directive); }
  // The newest open round of any segment that the ledger has heard of.
  void HearOpenRound(uint32_t round) { newest_open_round_ = round; }
  // An inner step was taken, with so many tokens. Wanted: that Advance asked for it.
  void StepDone(uint64_t tokens, double loss);
  // What WorkerLedger gives. A FetchEvent only while takes_fetched().
  void On(Settled settled) { settled_.push_back(std::move(settled)); }
  absl::Status On(const FetchEvent& event);
  void On(const SnapshotAsk& ask) { AddAsk(ask, asks_); }

  // The process is to end: Advance gets no further than to the next inner step or wait, has what is
  // to be kept among its effects, and gives kEnd. Wanted: no inner step is half taken.
  void Stop() { stops_ = true; }

  enum class Wish : uint8_t {
    kGoOn,   // Advance is to be called again, once the effects are carried out
    kTrain,  // an inner step, and then StepDone
    kWait,   // for something that happens, or wakes_at()
    kEnd,    // nothing: after Stop, once the effects are carried out
  };
  // Errors: the pipeline's; FailedPrecondition, Cancelled as a shard or the caller has it.
  absl::StatusOr<Wish> Advance(absl::Time now);
  std::vector<CoreEffect> TakeEffects() { return std::exchange(effects_, {}); }
  absl::Time wakes_at() const { return wakes_at_; }

  // A snapshot that a shard has asked for and that is to be sent now, if there is one: in the order
  // of the asks, and none of a segment that has no room.
  absl::StatusOr<std::optional<SnapshotAnswer>> AnswerAsk(
      absl::FunctionRef<bool(uint32_t segment)> has_room);

  // Whether a worker that would push to round `next` now had better catch up first: it has to, or
  // some segment's round `next` was closed without it, or is in its anchor already.
  bool IsBehind(uint32_t next) const;

  Stage stage() const { return stage_; }
  bool takes_fetched() const {
    return stage_ == Stage::kHearing || stage_ == Stage::kFollowing || stage_ == Stage::kRepairing;
  }
  // Posts are settled in this stage.
  bool takes_settled() const {
    return stage_ == Stage::kResuming || stage_ == Stage::kFilling || stage_ == Stage::kSyncing;
  }
  bool fills() const { return fills_; }
  // Encoded or posted, and not settled.
  uint32_t awaited() const { return awaited_; }
  // The first round that this worker could push to now, for SetReadyRound of the control plane.
  uint32_t ready_round() const { return ready_round_; }
  uint32_t round() const { return round_; }          // that is trained or synced, or would be next
  uint32_t fragment() const { return fragment_; }    // likewise, of this round
  uint64_t step() const { return step_; }            // inner steps of the run that are behind it
  double train_loss() const { return train_loss_; }  // the mean over the round's steps so far
  // What the segment has is of no use: it is being fetched from the run's beginning.
  bool IsFetchedAnew(uint32_t segment) const {
    return segments_[segment].state == SegmentState::kAnew;
  }

  // Internal: a fault of this code, and which. Checked after every event by the simulator, and by
  // Advance in builds without NDEBUG.
  absl::Status CheckInvariants() const;

  // Since it was made.
  struct Counts {
    // Contributions by what became of them, those of an earlier process that were settled here
    // included.
    uint64_t accepted = 0;
    uint64_t late = 0;
    uint64_t unknown = 0;
    uint64_t catch_ups = 0;
    uint64_t repairs = 0;
    uint64_t snapshots_sent = 0;
    uint64_t tokens = 0;
  };
  const Counts& counts() const { return counts_; }
  // What earlier processes of this worker had trained with.
  void CountTokensBefore(uint64_t tokens) { counts_.tokens = tokens; }

 private:
  enum class SegmentState : uint8_t {
    // Nothing of it is outstanding.
    kCurrent,
    // The updates from its anchor's round on are fetched. Ends with UpToDate, or with a post.
    kFetching,
    // Fetched from the run's beginning, since what it has is of no use. Fetching once the first
    // update or snapshot is loaded.
    kAnew,
    // Its contribution is encoded, held back or posted. Current once that is settled.
    kPosted
  };
  struct Segment {
    SegmentState state = SegmentState::kCurrent;
    SegmentPush push;              // posted
    uint32_t repaired_before = 0;  // repairs of rounds before this one are done
  };

  uint32_t SegmentCount() const { return static_cast<uint32_t>(segments_.size()); }
  void Await(SegmentPush push);
  uint32_t rounds() const { return static_cast<uint32_t>(options_.plan.round_count()); }
  SyncPoint point() const { return options_.plan.At(round_, fragment_); }
  double LearningRate(uint32_t round, uint32_t segment) const;
  void Tell(std::string text) { effects_.push_back(CoreNotice{false, std::move(text)}); }
  void Warn(std::string text) { effects_.push_back(CoreNotice{true, std::move(text)}); }

  absl::StatusOr<Wish> AdvanceStage(absl::Time now);
  void KeepLast();

  // Rounds (worker_core.cc).
  void GoTo(uint32_t round);
  absl::StatusOr<Wish> Compute();
  absl::Status BeginEncoding(std::vector<uint32_t> segments);
  absl::StatusOr<Wish> EncodeNext();
  absl::StatusOr<Wish> EndEncoding();
  bool WritesCheckpoint() const;
  absl::StatusOr<Wish> Sync(absl::Time now);
  absl::Status TakeSettled(const Settled& settled);
  absl::StatusOr<Wish> EndSync();
  absl::StatusOr<Wish> EndRound();
  absl::StatusOr<Wish> GoOn();
  absl::StatusOr<Wish> Seal();

  // Catching up (worker_core_catch_up.cc).
  absl::Status CheckPossible() const;
  uint32_t LowestRound() const;
  uint32_t HighestAnchor() const;
  // anew: what every segment has is of no use.
  absl::StatusOr<Wish> CatchUp(bool anew = false);
  // Of the segments that this stage waits for.
  bool HeardAll() const;
  void Fetch(uint32_t segment, bool anew = false);
  absl::Status Take(const Fetched& fetched);
  absl::Status ReadInitial();
  absl::Status LoadInitial(uint32_t segment);
  // From which round on a segment that is fetched anew has updates and no snapshot.
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
  std::optional<uint32_t> sealed_;  // the sealing round that was reported last
  double loss_sum_ = 0;             // over the steps of the round that is trained
  double train_loss_ = 0;
  std::vector<uint64_t> tokens_before_;  // by fragment: at its last signal
  RoundReport round_end_;                // of the last signal
  std::optional<TellFinal> final_;       // told since that

  // Of what is encoded and posted.
  bool fills_ = false;
  bool in_flight_ = false;          // a fragment is posted, and training overlaps it
  std::deque<uint32_t> to_encode_;  // segments
  bool holds_ = false;              // nothing is posted before all is encoded
  std::vector<SegmentPush> held_;
  uint32_t awaited_ = 0;         // segments that are posted
  std::deque<Settled> settled_;  // not taken yet
  uint32_t missing_ = 0;         // segments whose update is kept by nobody any more
  uint32_t late_ = 0;            // of what was posted together
  uint32_t unknown_ = 0;         // likewise: nobody knows what became of them

  bool stops_ = false;
  bool has_unkept_ = false;  // something that only this worker has is in no checkpoint

  // Of catching up.
  std::optional<Checkpoint> checkpoint_;
  std::vector<float> initial_;       // while it is needed
  bool gave_start_ = false;          // of it, in this round
  std::vector<uint32_t> repairing_;  // segments
  bool refused_repair_ = false;      // was said
  bool has_news_ = false;
  absl::Time last_news_, last_asked_;
  uint32_t filled_ = 0;
  std::deque<SnapshotAsk> asks_;  // of shards for snapshots, as they came
  struct Taken {
    uint64_t updates = 0;
    uint64_t snapshots = 0;
    uint64_t bytes = 0;
  };
  Taken taken_;  // of one catching up
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CORE_WORKER_CORE_H_

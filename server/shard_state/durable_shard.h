#ifndef LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_
#define LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "server/shard/aggregator.h"
#include "server/shard/shard_effect.h"
#include "server/shard_state/replica_restores.h"
#include "server/shard_state/shard_recovery.h"
#include "server/shard_state/snapshot_requests.h"
#include "server/store/shard_store.h"

namespace longwave {

// A shard's known_epoch in its heartbeat when its folder has an epoch that the coordinator has not
// told it. See DurableShard::knows_untold_epoch.
inline constexpr uint32_t kEpochUntold = ~uint32_t{0};

struct DurableShardOptions {
  AggregatorOptions aggregator;
  // Rounds between two state snapshots of a segment (E); at least 1.
  uint32_t state_rounds = 16;
  // Rounds between two model snapshots of a segment; at least 1. The segments' rounds are spread
  // evenly in between.
  uint32_t snapshot_rounds = 500;
  // Members can catch up by merged updates and snapshots (CanCatchUp(config)). Otherwise the shard
  // requests no snapshots and keeps log for its own recovery alone.
  bool can_catch_up = true;
  // True with run.start member, which requires a folder: the shard keeps a snapshot of each segment
  // of the run's first weights.
  bool keeps_start = false;
  // The user did not set aggregator.open_bytes_max: the shard lowers it to the rest of
  // aggregator.available_bytes.
  bool lowers_open_bytes = false;
  // Arrays of a model snapshot: θ, and with update nesterov the velocity: 1 or 2.
  uint32_t model_arrays = 1;
  // The run is beyond its first round, and this shard has no folder or an empty one: the shard
  // restores its segments from the members' replicas. Ignored if the folder has a log after all.
  bool restore = false;
  // A commit reads so much from the disk for answers, and at most one answer more. Requests beyond
  // are answered busy, so that small requests for large answers do not stop the shard.
  uint64_t read_bytes_max = uint64_t{64} << 20;
  // From the ShardRegistration. Finished rounds: folders and replicas have them all. Durable
  // records of the folder's log. The newest epoch that this shard was told.
  uint32_t rounds = 0;
  uint64_t log_records = 0;
  uint32_t told_epoch = kRoundNever;
  // See ReplicaRestoresOptions. At least the heartbeat timeout.
  absl::Duration join_patience;
};

// Opens the shard's folder. Called again after a failure, once the store before is destroyed.
using OpenStore = std::function<absl::StatusOr<std::unique_ptr<ShardStore>>()>;

// Input of a shard: AggregatorEvent's events, and
struct FetchArrived {
  FetchFrame header;
};
struct SnapshotArrived {  // the answer to a RequestFrame
  SnapshotFrame header;
  Buffer payload;
};
struct HashChecksArrived {  // the coordinator's, on UnconfirmedSnapshots()
  std::vector<HashCheck> hash_checks;
};
using ShardEvent = std::variant<PushArrived, PullArrived, MembershipChanged, TimePassed,
                                FetchArrived, SnapshotArrived, HashChecksArrived>;

// A durable shard: the aggregator behind a delta log and snapshots (proto/LOG.md), or without a
// folder the aggregator alone. Pure: no socket, thread or clock inside; the disk is behind
// FileSystem. The driver calls in a loop, and calls Commit and Tend also at NextDue():
//
//   Step       for each event
//   Commit     one write and one sync for all of them (group commit); the driver may send the
//              result
//   Tend       afterwards: slow work that no worker waits for, such as snapshots and the removal of
//              log
//
// Write-ahead  The shard sends an answer `accepted` or a merged update only once the push or the
//              update is durable. A merged update that was sent is therefore the same after any
//              crash, bit for bit, and so is E.
// Recovery     Open reads each segment's latest state snapshot, then the log's records after it.
//              The shard merges pushes of open rounds again. For closed rounds it takes the log's
//              factors and contributors and compares the result with the log.
// Failed disk  The shard treats the failure as a crash and drops all effects that are not durable.
//              trouble() says why. Pushes, pulls and fetches get `busy`, and workers repeat them.
//              The shard opens the folder again kReopenMin later. A failure sooner than kReopenMax
//              after the last success doubles the wait up to kReopenMax, since opening reads the
//              whole log.
// Bad folder   A folder that cannot be opened is trouble in the same way, also at the start.
//              Causes: a full disk, another process, damage, a log that ends before its snapshots
//              begin. A folder that lacks durable records (log_records) or finished rounds is
//              another one or an older one. Restoring the right folder needs no restart.
// Lost end     A disk may lose the end of what it had confirmed, when power fails. After a start,
//              and until a segment closes a round, a member that has a later round than the log
//              proves it. The shard then restores the segment (Restore), and what it held back is
//              lost. More than kLostRoundsMax rounds mean that the folder is from an older time.
//              After a start the shard first hears where the members stand
//              (ReplicaRestores::Check), and pushes get `busy` meanwhile.
// Snapshots    The shard writes a segment's state when the segment closes a round r with (r +
//              segment) a multiple of state_rounds. Every snapshot_rounds rounds, segment i of the
//              run's n at i / n of them, the shard requests the segment's parameters from a member
//              (SnapshotRequests). After a start the shard requests the snapshots that were due
//              last and are missing. Catching up, replay and log go by segment, so segments need no
//              common round. A snapshot stays in memory until its hash check confirms it, and is
//              then written. The shard answers each snapshot at once, so that the sender knows that
//              its link is free.
// Start        With keeps_start the shard requests each segment as it was before round 0 from a
//              member that began with the run's first weights (not Member::other_start). The hash
//              check applies here too. The shard keeps these snapshots for good. Without such a
//              member the shard logs once what is missing; workers that join, and a replay, then
//              begin with a model snapshot.
// Log          The shard removes log that neither the older of the two state snapshots nor the
//              older of the two model snapshots of any segment needs. A segment with fewer than two
//              of either keeps all.
// Fetch        A member that has all rounds before r0 gets the cheaper of two ways: the merged
//              updates from r0 on (answer `accepted`: the member pulls them), or a model snapshot
//              with the updates after it. A member without state (r0 = kRoundNever) gets the
//              cheaper of start and model snapshot, each with the updates after it, and `busy`
//              while there is neither.
// Restore      See ReplicaRestores. Pushes get `busy` until the segment has its round. Frames from
//              before this process took part may have waited in queues: a shard's registration
//              begins an epoch, and only pulls of that epoch or a later one count.
//
// Without a folder the shard requests and keeps no snapshots. Pulls and pushes beyond the
// aggregator's rounds get `compacted`.
//
// Memory: the aggregator's, and for each segment at most one model snapshot that waits for its hash
// check or for Tend (without a folder: that was restored). Each is compressed: at most 4 bytes a
// parameter, 8 with two arrays. All segments' snapshots may be held at once, since a hash check may
// take kHashCheckPatience. Writing or reading a snapshot takes some further copies of one segment.
class DurableShard {
 public:
  static constexpr absl::Duration kReopenMin = absl::Seconds(2);
  static constexpr absl::Duration kReopenMax = absl::Seconds(30);
  // Patience for a requested snapshot beside its time on a slow link. A worker sends more urgent
  // frames first, for 30 s at most (WorkerLedger), and answers between inner steps only.
  static constexpr absl::Duration kRequestPatience = absl::Seconds(60);
  // A hash check takes until the slowest member has reported the round.
  static constexpr absl::Duration kHashCheckPatience = absl::Minutes(10);

  // open_store: null for a shard in memory. Errors: those of Aggregator::Create. A bad folder is no
  // error but trouble.
  static absl::StatusOr<std::unique_ptr<DurableShard>> Open(const DurableShardOptions& options,
                                                            Layout layout, OpenStore open_store);

  // Returns the event's number, counted from 1. The event's effects bear it.
  uint64_t Step(const ShardEvent& event, absl::Time now);
  // Makes the steps since the last Commit durable, does the work that is due by now, and returns
  // the effects that may leave, in order: SendFrame and ContributionClipped.
  std::vector<ShardEffect> Commit(absl::Time now);
  void Tend(absl::Time now);
  // A member has said hello to this process, so that requests reach it from now on. Snapshot
  // requests wait for that.
  void Greeted(uint32_t worker);

  // The time at which Commit has work without an event. InfiniteFuture: none. InfinitePast: at
  // once.
  absl::Time NextDue() const;

  // The figures of the heartbeat, without the socket's bytes. Counts continue through a failure of
  // the disk and begin at 0 with the process.
  ShardState state() const;
  std::vector<SegmentReport> OpenSegments() const;  // empty while there is trouble

  // The folder's log has an epoch that the coordinator has not told this shard: the coordinator's
  // folder is an older one. trouble() is set as well.
  bool knows_untold_epoch() const { return knows_untold_epoch_; }
  // The reason why the shard rejects pushes as busy; empty: there is none.
  const std::string& trouble() const { return trouble_.empty() ? held_back_ : trouble_; }
  // The coordinator's reason to merge nothing for now; empty: there is none any more.
  void HoldBack(std::string reason) { held_back_ = std::move(reason); }
  // For the coordinator's hash check, by segment.
  std::vector<SnapshotHash> UnconfirmedSnapshots() const;
  // The patience for a snapshot request of this segment.
  absl::Duration RequestPatience(uint32_t segment) const;
  // Sentences for the process's log since the last call: recovery, failed writes, restores.
  std::vector<std::string> TakeNotices() { return std::exchange(notices_, {}); }

  bool is_durable() const { return open_store_ != nullptr; }
  const Layout& layout() const { return layout_; }
  uint32_t first_segment() const { return first_segment_; }
  uint32_t segment_count() const { return segment_count_; }
  uint64_t open_bytes_max() const { return open_bytes_max_; }             // of the aggregator
  size_t restoring_count() const { return restores_.restoring_count(); }  // segments
  // Segments' snapshots that this process has written.
  struct SnapshotsWritten {
    uint64_t states = 0;
    uint64_t models = 0;
  };
  const SnapshotsWritten& snapshots_written() const { return snapshots_written_; }
  // (worker, segment) pairs whose update was dropped because the disk failed, since the last call.
  std::vector<std::pair<uint32_t, uint32_t>> TakeDropped() { return std::exchange(dropped_, {}); }
  // For audits and tests; null: there is trouble.
  const Aggregator* aggregator() const { return aggregator_.get(); }
  ShardStore* store() { return store_.get(); }

 private:
  DurableShard(const DurableShardOptions& options, Layout layout, OpenStore open_store);

  // Opening, failing and restoring (durable_shard_recovery.cc).
  absl::Status OpenAll();
  uint64_t SnapshotBytes() const;  // upper bound, of a model snapshot of every segment
  absl::StatusOr<bool> Recover();  // true: segments without a state are to be restored
  // FailedPrecondition, DataLoss: the folder is not this shard's newest.
  absl::Status CheckLog(const LogRecovery& found);
  void WantMissingModels();
  void WantMissingStarts();
  void NoteMissingStarts();  // logs once that no member has them
  // The last round up to open_round before which a model snapshot of the segment is due. 0: none
  // yet.
  uint32_t LastModelRound(uint32_t segment, uint32_t open_round) const;
  void WantModel(uint32_t segment);
  void Fail(const absl::Status& status, absl::Time now);
  void Reopen(absl::Time now);
  void ReopenLater(bool again, absl::Time now);
  // A member's frame for a segment that is being restored.
  bool IsForRestore(const FrameName& frame) const;
  // A frame whose sender has all rounds before the frame's. A later round than the log's begins a
  // restore, or makes the next commit fail.
  void NoteProgress(const FrameName& frame);
  // The frame is to wait: its segment is restored, or its members are heard first.
  bool IsHeldBack(const FrameName& frame, absl::Time now);
  void PursueRestores(absl::Time now);
  void NoteDurableRounds();
  void FinishRestore(uint32_t segment, uint32_t round, uint32_t worker,
                     std::optional<SnapshotRequests::Held> model);
  absl::Status KeepRestored(const RestoredRecord& record);

  // Events (durable_shard.cc).
  void On(const PushArrived& push, absl::Time now);
  void On(const PullArrived& pull, absl::Time now);
  void On(const MembershipChanged& change, absl::Time now);
  void On(const TimePassed&, absl::Time now) { PassTime(now); }
  void On(const FetchArrived& fetch, absl::Time now);
  void On(const SnapshotArrived& snapshot, absl::Time now);
  void On(const HashChecksArrived& hash_checks, absl::Time now);
  void PassTime(absl::Time now);
  void StepAggregator(const AggregatorEvent& event, absl::Time now);
  std::optional<uint64_t> Keep(const LogRecord& record);
  void KeepMembership();
  void NoteClosed(const MergedFrame& merged, std::optional<uint64_t> sequence);
  absl::Status CheckModelRound(const SnapshotFrame& header) const;
  void Emit(decltype(ShardEffect::what) what);
  // Round 0: a question where the worker stands.
  void EmitRequest(const SnapshotRequests::Request& request);
  void Answer(const FrameName& asked, Outcome outcome, std::string_view reason);
  AnswerFrame AnswerTo(const FrameName& asked, Outcome outcome) const;
  // A frame of this shard, with the segment's open round.
  template <typename Frame>
  Frame FrameTo(uint32_t worker, uint32_t segment, uint32_t round) const;

  // Effects of a commit (durable_shard_answers.cc).
  void NoteUnreadable(const absl::Status& status);
  void AnswerFromLog(const FrameName& asked);
  void AnswerFetch(const FrameName& fetch);
  void SendSnapshot(const FrameName& fetch, uint32_t round, Buffer payload);
  // Bytes of the merged updates from a round on; nullopt: some of them are missing.
  std::optional<uint64_t> MergedBytes(uint32_t segment, uint32_t from) const;
  // The snapshot of a round after `from` (kRoundNever: of any) that leads to the present with the
  // fewest bytes, the updates after it included; nullopt: none does with fewer than log_bytes.
  std::optional<SnapshotHeader> CheapestSnapshot(uint32_t segment, uint32_t from,
                                                 std::optional<uint64_t> log_bytes) const;
  absl::StatusOr<Buffer> SnapshotPayload(const SnapshotKey& key);
  void TurnBack();  // replaces effects that are not durable by `busy`

  // Snapshots and the removal of log (durable_shard_tend.cc).
  absl::Status WriteState(uint32_t segment);
  absl::Status WriteModel(const SnapshotRequests::Held& held);
  absl::Status DropLog();

  SegmentRange Segments() const { return {first_segment_, first_segment_ + segment_count_}; }
  bool IsMine(uint32_t segment) const { return segment - first_segment_ < segment_count_; }
  SegmentProgress& ProgressOf(uint32_t segment) { return progress_[segment - first_segment_]; }
  const SegmentProgress& ProgressOf(uint32_t segment) const {
    return progress_[segment - first_segment_];
  }
  uint32_t OpenRound(uint32_t segment) const;
  std::vector<uint32_t> MembersTakingPart() const;
  std::vector<uint32_t> MembersOfStart() const;  // with the run's first weights
  std::vector<uint32_t> Reachable(
      std::vector<uint32_t> members) const;  // with a hello to this process
  static void Add(const ShardState& counts, ShardState& to);

  const DurableShardOptions options_;
  const Layout layout_;
  const OpenStore open_store_;
  uint32_t first_segment_ = 0;
  uint32_t segment_count_ = 0;
  uint64_t open_bytes_max_ = 0;

  std::unique_ptr<ShardStore> store_;       // null: in memory, or trouble
  std::unique_ptr<Aggregator> aggregator_;  // null: trouble
  std::vector<SegmentProgress> progress_;
  Membership membership_;
  uint32_t first_epoch_ = 0;    // the first told to this process; 0: none yet
  uint32_t told_epoch_ = 0;     // the log may have no later one
  uint32_t rounds_wanted_ = 0;  // the folder may lack none of them
  bool knows_untold_epoch_ = false;
  // The oldest and the newest open round of all segments as of the last commit: a round that was
  // closed since may open again, if the commit fails. Reports have these.
  uint32_t durable_open_round_ = 0;
  uint32_t durable_newest_round_ = 0;
  bool rounds_have_moved_ = false;    // possibly, since then
  uint64_t membership_sequence_ = 0;  // of its record
  SnapshotRequests requests_;
  SnapshotRequests start_requests_;
  bool said_no_start_ = false;
  std::set<uint32_t> greeted_;  // members
  ReplicaRestores restores_;
  std::map<uint32_t, SnapshotRequests::Held> restored_models_;  // by segment; without a folder
  std::vector<SnapshotRequests::Held> confirmed_;               // Tend writes them
  bool drop_is_due_ = false;

  uint64_t events_ = 0;
  uint64_t current_event_ = 0;
  std::optional<FrameName> request_;  // of the current event: a push, a pull or a fetch
  std::vector<ShardEffect> effects_;  // since the last Commit; without KeepRecord
  std::vector<std::pair<uint32_t, uint32_t>> dropped_;
  uint64_t durable_before_ = 0;  // records below it were durable when the disk last failed
  absl::Status append_failure_;  // makes the next commit fail

  std::string trouble_;
  std::string held_back_;
  absl::Time reopen_at_ = absl::InfiniteFuture();
  absl::Duration reopen_after_;                    // the last wait
  absl::Time reopened_at_ = absl::InfinitePast();  // the last success
  ShardState counted_;                             // by earlier aggregators, and without one
  uint64_t snapshots_refused_ = 0;
  uint64_t unreadable_ = 0;  // requests for what the disk could not give
  uint64_t read_bytes_ = 0;  // by this commit, for answers
  SnapshotsWritten snapshots_written_;
  std::vector<std::string> notices_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_

#ifndef LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_
#define LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "server/shard/aggregator.h"
#include "server/shard_state/replica_restore.h"
#include "server/shard_state/snapshot_asks.h"
#include "server/store/shard_store.h"

namespace longwave {

// As a shard's known_epoch in its heartbeat: its folder has one that the coordinator has not told
// it, whatever the numbers say (DurableShard::knows_untold_epoch).
inline constexpr uint32_t kEpochUntold = ~uint32_t{0};

struct DurableShardOptions {
  AggregatorOptions aggregator;
  // Rounds between two state snapshots of a segment (E); at least 1.
  uint32_t state_rounds = 16;
  // Rounds between two model snapshots of a segment; at least 1. The run's segments take turns in
  // between.
  uint32_t snapshot_rounds = 500;
  // Whether members can catch up by merged updates and snapshots (CanCatchUp(config)). If not,
  // nobody is asked for snapshots, and log is kept for the shard's own recovery alone.
  bool can_catch_up = true;
  // run.start member, for which there must be a folder: a snapshot of what the run began with is
  // kept of each segment.
  bool keeps_start = false;
  // aggregator.open_bytes_max is nobody's wish: it is lowered to what aggregator.available_bytes
  // leaves for it.
  bool lowers_open_bytes = false;
  // Arrays of a model snapshot: θ, and with update nesterov the velocity: 1 or 2.
  uint32_t model_arrays = 1;
  // The run is beyond its first round and this shard's folder is empty or there is none: what it
  // should have is taken from the members' replicas. Nothing if the folder has a log after all.
  bool restore = false;
  // What is known of the run and of the folder (ShardRegistration). Rounds that are finished: what
  // is taken from a replica has them all, and a folder has them, too. Durable records of the
  // folder's log. The newest epoch that this shard was told.
  uint32_t rounds = 0;
  uint64_t log_records = 0;
  uint32_t told_epoch = kRoundNever;
  // While no member takes part, how long a restore waits for others than those that join. Not less
  // than the silence after which the coordinator counts a member as lost.
  absl::Duration join_patience;
};

// Opens the shard's folder; called again after a failure, when the one before has been destroyed.
using OpenStore = std::function<absl::StatusOr<std::unique_ptr<ShardStore>>()>;

// What happens to a shard, from outside: AggregatorEvent's, and
struct FetchArrived {  // a kFetch frame
  FrameHeader header;
};
struct SnapshotArrived {  // a kSnapshot frame, which answers AskSnapshot
  FrameHeader header;
  Buffer payload;
};
struct VerdictsArrived {  // the coordinator's, of what UnconfirmedSnapshots() told it
  std::vector<SnapshotVerdict> verdicts;
};
using ShardEvent = std::variant<PushArrived, PullArrived, MembershipChanged, TimePassed,
                                FetchArrived, SnapshotArrived, VerdictsArrived>;

// What the shard is to do: AggregatorEffect's that concern workers, and
struct SendSnapshot {  // a kSnapshot frame to `worker`, who has fetched
  uint32_t worker = 0;
  FrameHeader header;
  Buffer payload;
};
struct AskSnapshot {  // a kAsk frame to `worker`; of round 0 it asks where the worker stands
  uint32_t worker = 0;
  FrameHeader header;
};
struct ShardEffect {
  // The number that Step gave the event it follows from; 0: from none, as time passed.
  uint64_t event = 0;
  std::variant<AnswerPush, SendMerged, SendSnapshot, AskSnapshot, ContributionClipped> what;
};

// A shard that forgets nothing: the aggregator behind a delta log and snapshots (proto/LOG.md), or
// without a folder the aggregator alone. Pure: no socket, thread or clock inside; the disk is
// behind FileSystem. Who drives it does, again and again:
//
//   Step     for each event that is there
//   Commit   one write and one sync for all of them (group commit); what it returns may be told
//   Tend     after that was told: what may take long and what nobody waits for, snapshots and the
//            removal of old log
//
// and calls Commit and Tend also at NextDue().
//
// Write-ahead   no answer `accepted` and no merged update is among the effects before the push or
//               the update is durable. A merged update that was told is therefore the same after
//               any crash, bit for bit, and so is E.
// Recovery      Open: each segment's latest state snapshot, then the log's records after it. Pushes
//               of open rounds are merged again, closed rounds with the log's own factors for the
//               log's own contributors and held against the log.
// Failed disk   is treated as a crash: what was not durable is forgotten, with the effects that say
//               so; trouble() says why; pushes are answered `busy`, pulls and fetches with nothing,
//               which their senders repeat. The folder is opened again kReopenMin later, and where
//               it fails again before it was good for kReopenMax, after waits that double up to
//               that: each time all of its log is read.
// Bad folder    One that cannot be opened is trouble in the same way, from the start on: a disk
// that
//               is full, a process that has it, damage, a log that ends before its snapshots begin,
//               and a folder that lacks what was durable (log_records) or rounds that the run has
//               finished, which is another one or one from an older time. Whoever mends it (puts
//               the right one back) need not start the process again.
// Snapshots     A segment's own state is written when it closes a round r with (r + segment) a
//               multiple of state_rounds. Every snapshot_rounds rounds, segment i of the run's n at
//               i / n of them, a member is asked for the segment's parameters (SnapshotAsks: few at
//               a time, and another one after AskPatience, for those before the round that is open
//               by then); so it is after a start that does not find those that were due last.
//               Nothing needs snapshots of one round: who catches up, a replay, and the log, go by
//               segment. They are held in memory as unconfirmed until the coordinator says that
//               their hash is that of the majority, and then written. Each that comes is answered
//               at once, so that its sender knows that its link is free of it.
// Start         With keeps_start a member that began with the run's first weights (others than
//               Member::other_start) is asked for each segment as it was before round 0, in the
//               same way, and its snapshot, judged by the coordinator, is kept for good. Such a
//               member can tell at any time; while there is none, and the run has gone on, what is
//               missing is said once: a worker that joins begins with a model snapshot then, and
//               a replay does, too.
// Log           is removed up to what the older of the two state snapshots, and of the two model
//               snapshots, of every segment still needs. While one has less than two, all is kept.
// Fetch         A member that has all rounds before r0 gets the cheaper of the merged updates from
//               r0 on (answer `accepted`: it pulls them) and a model snapshot with those after it.
//               A member that has nothing (r0 = kRoundNever) gets the cheaper of the start and a
//               model snapshot, each with the updates after it; `busy` while there is neither.
// Restore       see ReplicaRestore: pushes are answered busy until the segment has its round. What
//               was sent before this process took part is not believed, since it may have waited in
//               queues: a shard's registration begins an epoch, and a question says where its
//               sender stands if it is of that or a later one, as answers to asks are. While
//               no member takes part nothing is chosen for join_patience: a coordinator that was
//               cut off has lost all those who trained, and may hear a new worker before them.
//
// Without a folder nothing is asked for or kept, a pull of what the aggregator does not have is
// answered `gone`, and so is such a push.
//
// Memory: the aggregator's, and beside it a model snapshot a segment that waits for its verdict or
// to be written (without a folder: that was restored), as it came: at most 4 bytes a parameter, 8
// with two arrays. They come one by one, but all of them may be held: what is due when a shard
// starts comes in a row, and a verdict may take kVerdictPatience. While a snapshot is written or
// read, some copies of one segment more.
class DurableShard {
 public:
  static constexpr absl::Duration kReopenMin = absl::Seconds(2);
  static constexpr absl::Duration kReopenMax = absl::Seconds(30);
  // Of who is asked for a snapshot, beside the time that it takes on a slow link: a worker sends
  // what is more urgent before, for 30 s at most (WorkerLedger), and looks up between inner steps.
  static constexpr absl::Duration kAskPatience = absl::Seconds(60);
  // A link that is given the time for a snapshot, of which pushes take half.
  static constexpr uint64_t kSlowLinkBytesPerSecond = 125'000;  // 1 Mbit/s
  // A verdict takes until the slowest member has reported the round.
  static constexpr absl::Duration kVerdictPatience = absl::Minutes(10);

  // open_store: null for a shard that keeps everything in memory. Errors: those of
  // Aggregator::Create. What is wrong with the folder is trouble.
  static absl::StatusOr<std::unique_ptr<DurableShard>> Open(const DurableShardOptions& options,
                                                            Layout layout, OpenStore open_store);

  // Returns the event's number, which its effects bear; counted from 1.
  uint64_t Step(const ShardEvent& event, absl::Time now);
  // Makes durable what the steps since the last Commit want to be, does what the time asks for, and
  // returns all that may now be told, in order.
  std::vector<ShardEffect> Commit(absl::Time now);
  void Tend(absl::Time now);
  // A member has said hello to this process: what it is asked from now on reaches it. (The start
  // alone is asked of a member that has sent nothing else yet.)
  void Greeted(uint32_t worker);

  // When Commit has something to do without an event; InfiniteFuture: nothing. InfinitePast: at
  // once.
  absl::Time NextDue() const;

  // The figures of the heartbeat (bytes are the socket's and stay 0 here). They count on through a
  // failure of the disk, and begin at 0 with the process.
  ShardState state() const;
  std::vector<SegmentReport> OpenSegments() const;  // empty while there is trouble

  // The folder's log has an epoch that the coordinator has not told this shard: it is the
  // coordinator whose folder is from an older time. There is trouble, too.
  bool knows_untold_epoch() const { return knows_untold_epoch_; }
  // Why pushes are not taken now; empty: they are.
  const std::string& trouble() const { return trouble_; }
  // For the coordinator's verdict, by segment.
  std::vector<SnapshotHash> UnconfirmedSnapshots() const;
  // How long a member that is asked for this segment's parameters may take to answer.
  absl::Duration AskPatience(uint32_t segment) const;
  // Sentences for the log of the process, since the last call: what recovery has found, what could
  // not be kept, what was restored.
  std::vector<std::string> TakeNotices() { return std::exchange(notices_, {}); }

  bool is_durable() const { return open_store_ != nullptr; }
  uint32_t first_segment() const { return first_segment_; }
  uint32_t segment_count() const { return segment_count_; }
  uint64_t open_bytes_max() const { return open_bytes_max_; }  // of the aggregator
  bool is_restoring() const { return !restores_.empty(); }
  size_t restoring_count() const { return restores_.size(); }  // segments
  // Snapshots of segments that this process has written.
  struct SnapshotsWritten {
    uint64_t states = 0;
    uint64_t models = 0;
  };
  const SnapshotsWritten& snapshots_written() const { return snapshots_written_; }
  // For audits and tests; null: there is trouble.
  const Aggregator* aggregator() const { return aggregator_.get(); }
  ShardStore* store() { return store_.get(); }

 private:
  struct Progress {            // of a segment
    uint32_t open_round = 0;   // as the log has it
    uint32_t first_round = 0;  // the first that this shard has closed, or will
    uint64_t replay_from = 1;  // the first record that may be of its open round
    bool has_state = false;    // there is a state snapshot
    bool state_is_due = false;
  };
  // What waits for the commit; what asks the disk is looked up after it.
  struct AnswerFromLog {
    FrameHeader header;
  };
  struct AnswerFetch {
    FrameHeader header;
  };
  struct Outgoing {
    uint64_t event = 0;
    bool answers_push = false;
    std::variant<AnswerPush, SendMerged, SendSnapshot, AskSnapshot, ContributionClipped,
                 AnswerFromLog, AnswerFetch>
        what;
  };

  DurableShard(const DurableShardOptions& options, Layout layout, OpenStore open_store);

  // Opening, failing, and what comes from replicas (durable_shard_recovery.cc).
  absl::Status OpenAll();
  uint64_t SnapshotBytes() const;  // of a model snapshot of every segment, at most
  absl::StatusOr<bool> Recover();  // whether segments without a state are to be restored
  // Whether the folder is the newest that this shard had. The second one after the replay.
  absl::Status CheckLog(const LogRecovery& found);
  absl::Status CheckRounds(bool restores) const;
  absl::Status RestoreSegment(uint32_t segment);
  void WantMissingModels();
  void WantMissingStarts();
  void NoteMissingStarts();  // that nobody has what is missing, once
  // The last round, not after open_round, before which a model snapshot of the segment is due; 0:
  // there was none yet.
  uint32_t LastModelRound(uint32_t segment, uint32_t open_round) const;
  void WantModel(uint32_t segment);
  absl::StatusOr<std::vector<SegmentSnapshot>> ReadState(const SnapshotHeader& header);
  absl::Status ReplayRecord(uint64_t sequence, const LogRecord& record);
  void Fail(const absl::Status& status, absl::Time now);
  void Reopen(absl::Time now);
  void ReopenLater(bool again, absl::Time now);
  // Of a member's frame for a segment that is restored; null: it is none.
  ReplicaRestore* RestoreOf(const FrameHeader& header);
  // A pull of this process's time says where its sender stands. True: it was for a restore.
  bool HearForRestore(const FrameHeader& pull);
  void PursueRestores(absl::Time now);
  uint64_t AwaitedBytes(uint32_t worker) const;  // of all snapshots that restores wait for from it
  // Of who was asked for this segment, of whom that many bytes are awaited.
  absl::Duration RestorePatience(uint32_t segment, uint64_t awaited_bytes) const;
  // It has sent one: what it has still to send takes less than when all was asked for.
  void HastenRestores(uint32_t worker, absl::Time now);
  void FinishRestore(uint32_t segment, uint32_t round, uint32_t worker,
                     std::optional<SnapshotAsks::Held> model);

  // Events (durable_shard.cc).
  void OnPush(const PushArrived& push, absl::Time now);
  void OnPull(const PullArrived& pull, absl::Time now);
  void OnMembership(const MembershipChanged& change, absl::Time now);
  void OnFetch(const FrameHeader& header, absl::Time now);
  void OnSnapshot(const SnapshotArrived& snapshot, absl::Time now);
  void OnVerdicts(const VerdictsArrived& verdicts);
  void PassTime(absl::Time now);
  void StepAggregator(const AggregatorEvent& event, bool is_push, absl::Time now);
  std::optional<uint64_t> Keep(const LogRecord& record);
  void KeepMembership();
  void NoteClosed(const FrameHeader& merged, std::optional<uint64_t> sequence);
  absl::Status CheckModelRound(const FrameHeader& header) const;
  void Emit(decltype(Outgoing::what) what, bool answers_push = false);
  void EmitAsk(uint32_t worker, uint32_t segment, uint32_t round);
  void Answer(const FrameHeader& header, Outcome outcome, std::string reason);
  AnswerPush AnswerTo(const FrameHeader& header, Outcome outcome, std::string reason) const;
  FrameHeader FrameTo(uint32_t worker, FrameKind kind, uint32_t segment, uint32_t round) const;

  // What leaves after a commit (durable_shard_answers.cc).
  void Tell(Outgoing outgoing, std::vector<ShardEffect>& effects);
  void TellFromLog(uint64_t event, const FrameHeader& header, std::vector<ShardEffect>& effects);
  void TellFetch(uint64_t event, const FrameHeader& header, std::vector<ShardEffect>& effects);
  // Bytes of the merged updates from a round on; nothing: not all of them are there.
  std::optional<uint64_t> MergedBytes(uint32_t segment, uint32_t from) const;
  // For a member that has nothing.
  void TellBeginning(uint64_t event, const FrameHeader& header, std::vector<ShardEffect>& effects);
  absl::StatusOr<Buffer> SnapshotPayload(const SnapshotKey& key);
  void TurnBack();  // what would be told, to what is true when nothing of it is durable

  // Snapshots and the removal of log (durable_shard_tend.cc).
  bool StateIsDueAfter(const FrameHeader& merged) const;
  uint64_t ModelBytes(uint32_t segment) const;  // of a model snapshot, at most
  static absl::Duration TimeOnSlowLink(uint64_t bytes);
  absl::Status WriteState(uint32_t segment);
  absl::Status WriteModel(const SnapshotAsks::Held& held);
  std::optional<uint64_t> LogNeededFrom() const;  // nothing: all of it
  absl::Status DropLog();

  bool IsMine(uint32_t segment) const { return segment - first_segment_ < segment_count_; }
  Progress& ProgressOf(uint32_t segment) { return progress_[segment - first_segment_]; }
  const Progress& ProgressOf(uint32_t segment) const { return progress_[segment - first_segment_]; }
  uint32_t OpenRound(uint32_t segment) const;
  std::vector<uint32_t> MembersTakingPart() const;
  std::vector<uint32_t> MembersOfStart() const;  // that began with the run's first weights
  static void Add(const ShardState& counts, ShardState& to);

  const DurableShardOptions options_;
  const Layout layout_;
  const OpenStore open_store_;
  uint32_t first_segment_ = 0;
  uint32_t segment_count_ = 0;
  uint64_t open_bytes_max_ = 0;

  std::unique_ptr<ShardStore> store_;       // null: in memory, or there is trouble
  std::unique_ptr<Aggregator> aggregator_;  // null: there is trouble
  std::vector<Progress> progress_;
  Membership membership_;
  uint32_t first_epoch_ = 0;  // the first that this process was told; 0: none yet
  uint32_t told_epoch_ = 0;   // none after it may be in the log
  bool knows_untold_epoch_ = false;
  uint64_t membership_sequence_ = 0;  // of its record
  SnapshotAsks asks_;
  SnapshotAsks start_asks_;
  bool said_no_start_ = false;
  std::set<uint32_t> greeted_;                   // members
  std::map<uint32_t, ReplicaRestore> restores_;  // by segment
  // Set where none takes part: that those decide who are members then. InfinitePast: joiners may.
  absl::Time joiners_decide_at_ = absl::InfiniteFuture();
  std::map<uint32_t, SnapshotAsks::Held> restored_models_;  // by segment; without a folder
  std::vector<SnapshotAsks::Held> confirmed_;               // to be written by Tend
  bool drop_is_due_ = false;

  uint64_t events_ = 0;
  uint64_t current_event_ = 0;
  std::vector<Outgoing> outgoing_;
  uint64_t durable_before_ = 0;  // records below were durable when the disk last failed
  absl::Status append_failure_;  // why the next commit fails, whatever the disk does

  std::string trouble_;
  absl::Time reopen_at_ = absl::InfiniteFuture();
  absl::Duration reopen_after_;                    // the last wait
  absl::Time reopened_at_ = absl::InfinitePast();  // that it last went
  ShardState counted_;                             // by aggregators that are no more, and by none
  uint64_t snapshots_refused_ = 0;
  SnapshotsWritten snapshots_written_;
  std::vector<std::string> notices_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_DURABLE_SHARD_H_

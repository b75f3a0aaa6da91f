#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "common/layout/manifest.h"
#include "common/wire/control.h"
#include "server/coordinator/coordinator_record.h"
#include "server/coordinator/round_ledger.h"

namespace longwave {

struct CoordinatorOptions {
  uint32_t workers_wanted = 1;
  uint32_t workers_max = 1 << 16;  // members at once
  uint32_t shards_wanted = 1;
  uint64_t rounds = 1;
  bool promises_equal_replicas = true;
  std::string settings;  // lines "key: value" that everybody who registers must have too
  std::vector<std::string> settings_at_most;  // keys of them of which a worker may have less
  bool takes_other_starts = false;  // run.start member: workers may bring other first weights
  // How many segments the run's layout has of the model that the first worker brings, which is a
  // valid one. InvalidArgument: the run is not to train that model, or not with that layout.
  std::function<absl::StatusOr<uint64_t>(const Manifest&, uint64_t layout_hash)> segment_count;
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration start_timeout = absl::Seconds(300);
  // A shard's new process takes the place of one that was silent for this long.
  absl::Duration replace_after = absl::Seconds(2);
  // Nobody waits for a member whose newest report is more rounds than this behind the run's.
  uint32_t rounds_behind_max = 16;
};

struct Tick {};  // time has passed
struct StopRequested {
  std::string reason;
};
// A worker's name is to take part no more. Whoever makes this event sees to it that its process is
// not heard again. No answer; nothing happens if there is none of that name, or the run is over.
struct WorkerExpelled {
  std::string name;
};

using CoordinatorEvent = std::variant<RegisterWorker, RegisterShard, WorkerHeartbeat,
                                      ShardHeartbeat, StopRequested, WorkerExpelled, Tick>;

// What the coordinator is to do, in order. Exactly one answer for each event that asks for one.
struct WorkerRegistered {
  uint32_t worker = 0;
};
// The answer of a call that failed.
struct Refused {
  absl::Status status;
};
// All members that were due have reported or skipped it.
struct RoundFinished {
  RoundRecord record;
};
struct PhaseChanged {
  RunPhase phase;
  std::string reason;
};
// A line for the log.
struct Notice {
  std::string text;
};

using CoordinatorEffect =
    std::variant<WorkerRegistered, ShardRegistration, WorkerHeartbeatReply, ShardHeartbeatReply,
                 Refused, RoundFinished, PhaseChanged, Notice>;

// Membership and schedule of one run, pure: no socket, thread or clock inside. Time only comes in
// by `now`; what is overdue is acted upon at a Tick.
//
// waiting: the first state. Legal are registrations of workers (whose manifest and layout hash must
// be the first one's) and shards, and heartbeats without rounds. A worker or shard that is silent
// for heartbeat_timeout gives its place up. Left for training once workers_wanted workers and
// shards_wanted shards are registered; for failed after start_timeout.
//
// training: entered with epoch 1, whose members are all workers, from round 0 on. A round is
// finished when the shards say that they have closed it and every member whose first round has come
// has reported it, or a later one (then it has skipped it); hashes are compared then. After the
// last round come sealing rounds, without training: every active member reports its replica with
// all rounds, one that joined too late to train too, and the hashes are compared and repaired as
// after any round. The run is sealed by one that all active members have reported, with equal
// replicas where those are promised; until then another one follows. In a sealed run nobody becomes
// active, and no report counts any more. Left for finished when the run is sealed and the final
// report of one whose duty it is or was names the weights that it wrote; for failed when
// the last worker that could go on reports a failure or a loss that is not finite (while there are
// others, it leaves the run, as if it had been killed), when replicas that were promised to be
// equal differ in a sealing round after the repair of an earlier one without a majority, or
// something below was waited for in vain. Every change of the members or of a shard's address
// begins an epoch.
//
// A member's word counts for its own part. What it reports of rounds that no shard has closed
// finishes nothing; hashes are as many as the layout has segments, and the majority's are right; a
// failure takes out the member that reports it. One that holds up the end is left out, as if it
// had failed, and the weights that it names are nobody's: one that a sealing round's majority
// contradicts although it was told to repair its replica after an earlier one; and one that has not
// reported a sealing round start_timeout (or a tenth of the training, if that is longer) after
// it was asked of somebody who has all rounds. The duty to write the weights passes on after as
// long. In an epoch a worker is one of
//
//   joining  a member without a first round (kRoundNever): it fetches and pulls, pushes nothing,
//            and nobody waits for it. So begins a new name, a name that comes back in another
//            process (same identity: at once, and the process before is refused with Aborted;
//            another identity: once the place is lost), and a lost member that is heard again.
//            When its heartbeats, knowing that epoch, say a ready_round, it becomes active. If it
//            fails, the run goes on without it.
//   active   it has a first round: the one after the newest open round of any shard, and no earlier
//            than its ready_round; if no active member has reported a round yet (nobody else
//            pushes), the ready_round itself. A first round becomes lower again, the ready_round,
//            when all active members that had begun are gone: nobody else would close the rounds
//            before. So whoever waits for its first round takes each new membership's, and goes on
//            from what it has if that is more. What it reports of rounds before changes nothing.
//            Shards see one that has reported a sealing round as a joining one, whom nobody waits
//            for. One whose process
//            lives but reports no rounds (it was heard without a report while its newest one was
//            more than rounds_behind_max behind the run's) is waited for by no round's record and
//            not by the end, and is shown as joining, until it reports a later one.
//            A founding worker that begins with other weights than the run (Member::other_start)
//            is joining at first, too.
//   lost     no member: silent for heartbeat_timeout (heard again it is joining, without a new
//            registration), or failed, or gone by its own word (WorkerHeartbeat's
//            leaving; these two may register again). Its name, index and sums stay.
//
// What the run waits for, beyond its rounds, stands in RunStatus::trouble, and ends the run only
// after start_timeout:
//   - a worker or a shard that it needs to begin;
//   - a shard that is silent for heartbeat_timeout. It may come back with other endpoints and
//     another incarnation: the new process takes the place once the one before is silent for
//     replace_after, and if it has lost its folder it is told to restore its range. From then on
//     the range's older folder is refused;
//   - a run without members;
//   - a run that is sealed, but whose weights a worker was to write that is lost: the duty passes
//     to the next member that is heard, whose final report comes once more.
// A shard that says itself that it takes no pushes for now (a full disk, a folder that is damaged
// or from an older time) is trouble too, and waited for without end; so is one that says that its
// process cannot go on and ends, which is silent from then on.
//
// Replicas that differ are repaired where they were promised to be equal: after a finished round
// every member that reported it with another hash than the majority's in a segment (or, in a
// segment without a majority, with any) gets a Repair of its segments in its answers, until a later
// round's hashes agree. Snapshots that shards keep are
// judged by the same majority: equal, or not (also if there was none, or the round is too old to be
// known); no verdict before it is finished. A member that reports a round alone, while others take
// part that have skipped it, is no majority: neither is a snapshot right by its word, nor its
// replica mended.
//
// finished, failed, stopped (by StopRequested, from waiting or training): the last states; nothing
// leads out of them. Every heartbeat is answered with kStop and the reason, every registration with
// FailedPrecondition.
//
// An epoch is shown to shards first: a worker's answers carry a membership only once every shard's
// heartbeat has named an epoch as known that has this worker as it is now (until then, before a
// worker has its first one, they say `waiting`). So no push reaches a shard that does not know its
// sender, however often others come and go. The run's manifest goes to a shard with the epoch.
//
// Every registration and heartbeat has exactly one answer among the effects: WorkerRegistered,
// ShardRegistration, a reply, or Refused with
//   InvalidArgument     a setting, name, manifest, layout hash, shard index or report that does not
//                       fit, or the data key of another worker, present or former
//   AlreadyExists       the name or index is taken by a live member
//   FailedPrecondition  the run is over, or the shard's folder is another run's, or not the one
//                       that has its range any more
//   Unavailable         not now, ask again: the places before the first round are taken, or the
//                       shard's place is, or a report is far ahead of what shards have said,
//                       or this record is from an older time
//   ResourceExhausted   more than workers_max members at once, or kWorkersMax names in all. A name
//                       that was a member keeps its place: it comes back beyond that number, too
//   NotFound            a heartbeat of somebody who is not registered
//   Aborted             a heartbeat or registration of an incarnation whose place was taken, or a
//                       registration of an earlier process than the folder's that has the place
// A refused event changes nothing.
//
// A shard's registration is answered with the rounds that are finished and with the length of its
// folder's log as it was heard last, so that a shard whose folder is from an older time notices it.
//
// Everything can be exported at any time, and a coordinator made of the record goes on: its answers
// are those that this one would have given, but that nobody counts as silent before it has been
// silent to the new one. Likewise a coordinator that was itself stopped for a while (a gap between
// two Ticks of more than half of heartbeat_timeout) does not take that for the others' silence.
//
// A record that is not the newest (a backup) would give epochs and indices of workers a second
// time. A coordinator that was made of one learns it from the shards: one knows an epoch that it
// was never told, or has a log of a run that has not begun. From then on every event that wants an
// answer is refused with Unavailable, as if nobody were there, and nothing changes any more, also
// for who goes on from this record: what it began may have the numbers of what was begun before. A
// worker that knows such an epoch is refused for itself. A record of the newest epoch is gone on
// with: rounds that it lacks were reported, and have no record.
//
// Memory: the members, the ledger's records (about 150 bytes a finished round), the hashes of the
// last kRoundsWithHashes rounds.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);
  // Goes on where another was when it exported the record. The options are the run's; CheckRecord.
  Coordinator(const CoordinatorOptions& options, CoordinatorRecord record);

  // Whether a coordinator can go on from the record: FailedPrecondition if it is of a run with
  // other settings, DataLoss if its parts contradict each other.
  static absl::Status CheckRecord(const CoordinatorOptions& options,
                                  const CoordinatorRecord& record);

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event, absl::Time now, Rng& rng);

  CoordinatorRecord Export(absl::Time now) const;
  // What must be durable before any answer of the steps since the last Saved leaves; nothing: no
  // change but of what is reported again with each heartbeat. Saved says that it is.
  std::optional<CoordinatorChanges> Unsaved(absl::Time now) const;
  void Saved();

  // Records from index round_records_from on, at most kStatusRecordsMax of them: ask again from
  // where they end, as record_count is of all.
  RunStatus Status(uint64_t round_records_from, absl::Time now) const;
  // Finished rounds from round `round` on.
  std::span<const FinishedRound> RoundsFrom(uint32_t round) const;
  RunPhase phase() const { return phase_; }
  // Of the worker with this index; empty: there is none.
  std::string NameOf(uint32_t worker) const;
  bool Knows(const std::string& name) const { return FindWorker(name) != nullptr; }
  const std::optional<Manifest>& manifest() const { return manifest_; }
  const std::string& reason() const { return reason_; }  // why the run is over
  bool is_over() const { return phase_ != RunPhase::kWaiting && phase_ != RunPhase::kTraining; }
  // The run is over, and every worker and shard that still takes part has had it as an answer.
  bool EveryoneToldOfTheEnd() const;

  static constexpr uint64_t kStatusRecordsMax = 8192;
  static constexpr size_t kNameBytesMax = 128;
  static constexpr size_t kWorkersMax = 1 << 16;

 private:
  struct Worker : WorkerRecord {
    absl::Time heard;
    bool told = false;    // that the run is over
    bool shirks = false;  // it had the duty to write the weights for long enough

    bool is_active() const { return !lost && member.first_round != kRoundNever; }
    bool is_joining() const { return !lost && member.first_round == kRoundNever; }
  };
  struct Shard : ShardRecord {
    absl::Time heard;
    bool silent = false;  // for longer than the timeout, and it was said
    bool told = false;    // that the run is over
    std::string complaint;
  };
  using Effects = std::vector<CoordinatorEffect>;

  // --- coordinator.cc: events
  void On(const RegisterWorker& request, absl::Time now, Effects& effects);
  void On(const RegisterShard& request, absl::Time now, Effects& effects);
  void On(const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const ShardHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const StopRequested& request, absl::Time now, Effects& effects);
  void On(const WorkerExpelled& expelled, absl::Time now, Effects& effects);
  void On(const Tick&, absl::Time now, Effects& effects);
  // From now on: the record that this was made from is not the run's newest.
  void RefuseAll(const std::string& why, Effects& effects);
  ShardRegistration AnswerTo(const Shard& shard) const;
  void TakeIn(Worker& worker, const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects);
  // Its counts never fall: what its processes have done is summed.
  void TakeState(Worker& worker, const WorkerHeartbeat& heartbeat);
  void TakeReports(Worker& worker, const WorkerHeartbeat& heartbeat, Effects& effects);

  // --- coordinator_checks.cc: what is refused and why; these change nothing
  // who: "worker w", for the sentence.
  // at_most: keys of which `who` may have less.
  absl::Status CheckSettings(const std::string& who, const std::string& settings,
                             std::span<const std::string> at_most) const;
  absl::Status CheckOrder(const RegisterWorker& request) const;
  absl::Status CheckPlace(const RegisterWorker& request, absl::Time now) const;
  absl::Status CheckDataKey(const RegisterWorker& request) const;
  absl::Status CheckStart(const RegisterWorker& request, uint64_t segments) const;
  absl::Status CheckRegistration(const RegisterWorker& request, absl::Time now) const;
  absl::Status CheckRegistration(const RegisterShard& request, absl::Time now) const;
  absl::Status CheckHeartbeat(const WorkerHeartbeat& heartbeat) const;
  absl::Status CheckHeartbeat(const ShardHeartbeat& heartbeat) const;
  // Why the run can't go on after this heartbeat; empty if it can.
  static std::string FailureIn(const WorkerHeartbeat& heartbeat);

  // --- coordinator_members.cc: who takes part
  void BeginTrainingIfComplete(absl::Time now, Effects& effects);
  // With the last one that brings the run's first weights go those that bring others.
  void DropBeforeStart(uint32_t worker, Effects& effects);
  void DropSilentBeforeStart(absl::Time now, Effects& effects);
  void TakePlace(Worker& worker, const RegisterWorker& request);
  // Before the first round the weights of the first worker that brings any become the run's.
  void SetStart(Worker& worker, const std::vector<uint64_t>& hashes);
  bool AnyoneBringsStart() const;
  // how: "joins", …, for the notice.
  void Join(Worker& worker, const std::string& how, Effects& effects);
  // A joining member that has caught up gets its first round.
  void Activate(Worker& worker, Effects& effects);
  // It is no member again by being heard. why: for the notice.
  void Leave(Worker& worker, const std::string& why, Effects& effects);
  // It reports that it can't go on: the others do, if there are any.
  void Fail(Worker& worker, const std::string& failure, absl::Time now, Effects& effects);
  // It holds the others up. why: for the notice.
  void LeaveOut(Worker& worker, const std::string& why, Effects& effects);
  void LoseSilentWorkers(absl::Time now, Effects& effects);
  // Where nobody else pushes any more, those who wait for their first round are not to wait.
  void LowerFirstRounds();
  bool AnyoneHasBegun() const;
  bool AnyoneHasRoundsLeft() const;  // an active one
  // Makes the next epoch's members what the worker says of itself.
  void SetMember(Worker& worker);
  void PutMember(const Worker& worker);
  // Whether nobody waits for it: see `active` above.
  void SetBehind(Worker& worker, bool behind, Effects& effects);
  std::vector<Member> MembersWaitedFor() const;
  void BeginEpoch();
  std::string Members() const;  // "epoch 4 goes on with 2 workers and 1 that joins"

  // --- coordinator_end.cc: rounds, what is waited for, the end
  void FinishRounds(absl::Time now, Effects& effects);
  void TakeRepairs(const RoundOutcome& outcome, Effects& effects);
  // Leaves members out whom a sealing round's majority contradicts although they were told to
  // repair their replica before. True: who differs was told before, and there is no majority.
  bool LeaveOutOutvoted(const RoundOutcome& outcome, Effects& effects);
  // Leaves members out that hold up a sealing round.
  void LeaveOutOverdue(absl::Time now, Effects& effects);
  void PassDutyOn(absl::Time now, Effects& effects);
  // How long one member may take for its part of the end: a repair, the last validation and the
  // weights take longer where models are large and rounds long.
  absl::Duration EndPatience(absl::Time now) const;
  void FinishRunIfDone(absl::Time now, Effects& effects);
  // Every active member that is waited for, and there is one, has all rounds.
  bool AllHaveEnded() const;
  // Every such member has reported its replica since, and all are equal where that is promised.
  bool IsSealed() const;
  // The shards have closed all rounds, as far as was heard.
  bool AllAreClosed() const { return ledger_.closed_rounds() >= options_.rounds; }
  // Once it was waited for that long.
  void SayWhatIsMissing(absl::Duration waited, Effects& effects);
  // Why the run, all of whose members have ended, is not finished.
  std::string WhatIsMissing() const;
  // The worker that has written the weights and was to do it; null if there is none.
  const Worker* Writer() const;
  void WatchShards(absl::Time now, Effects& effects);
  // Ends a run that waits in vain.
  void WatchPatience(absl::Time now, Effects& effects);
  void ForgiveOwnPause(absl::Time now);
  void End(RunPhase phase, std::string reason, absl::Time now, Effects& effects);
  uint32_t NewestRound() const;  // open at any shard
  // True: the shards have closed more rounds than was known.
  bool HearOfClosedRounds();

  // --- coordinator_status.cc: what is told
  WorkerHeartbeatReply ReplyTo(const WorkerHeartbeat& heartbeat) const;
  ShardHeartbeatReply ReplyTo(const ShardHeartbeat& heartbeat) const;
  std::string WhoIsRegistered() const;
  std::string Trouble() const;
  static std::string LastSaid(const Shard& shard);  // of its trouble, behind a sentence about it
  std::string OverSentence() const;                 // "the run is over (failed: …)"
  bool EveryShardKnows(uint32_t epoch) const;
  bool IsOfStart(const SnapshotHash& snapshot) const;  // of round 0
  // The active member of lowest index, of those that are waited for and do this duty if there are
  // any; null if there is none.
  const Worker* Validator() const;
  double SecondsOfTraining(absl::Time now) const;

  // --- coordinator_export.cc
  CoordinatorState ExportState(absl::Time now) const;

  // The one of that name; null if there is none.
  const Worker* FindWorker(const std::string& name) const;
  Worker* FindWorker(const std::string& name);

  const CoordinatorOptions options_;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;                // why the run is over
  const bool goes_on_ = false;        // it was made of a record
  std::string outdated_;              // how it is known that the record is not the newest
  uint64_t run_ = 0;                  // drawn at the first step; never 0
  std::optional<Manifest> manifest_;  // the first worker's, and everyone's
  uint64_t layout_hash_ = 0;
  std::vector<uint64_t> start_hashes_;  // of the run's first weights, by segment; empty: none yet
  std::map<uint32_t, Worker> workers_;  // by index; lost ones stay, to be shown and to come back
  std::map<uint32_t, Shard> shards_;
  Membership membership_;
  RoundLedger ledger_;
  uint64_t repairs_ = 0;

  // Clocks.
  std::optional<absl::Time> first_step_;
  std::optional<absl::Time> last_tick_;
  std::optional<absl::Time> training_began_;
  std::optional<absl::Time> ended_;
  double seconds_before_ = 0;                // of training, of the record that this was made from
  std::optional<absl::Time> alone_since_;    // there are no members
  std::optional<absl::Time> lacking_since_;  // all have ended, and closing or weights are missing
  std::string lacking_;                      // what, as it was said
  std::optional<absl::Time> sealing_since_;  // some have reported the sealing round held_up_
  uint32_t held_up_ = 0;
  std::optional<absl::Time> duty_since_;  // nothing but the weights is missing, of duty_of_
  uint32_t duty_of_ = 0;
  std::string last_loss_;  // who was lost last, and why

  bool unsaved_ = false;
  bool manifest_unsaved_ = false;  // likewise start_hashes_
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

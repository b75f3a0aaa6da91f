#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "common/control/control.h"
#include "common/layout/manifest.h"
#include "server/coordinator/coordinator_interface.h"
#include "server/coordinator/coordinator_record.h"
#include "server/coordinator/round_ledger.h"
#include "server/coordinator/round_schedule.h"

namespace longwave {

// The membership and the schedule of one run. The class is pure: no socket, thread or clock is
// inside. Time comes in by `now`, and timeouts take effect at a Tick.
//
// Phases:
//   waiting   The first phase. Workers and shards register, and heartbeats carry no rounds. The
//             manifest and the layout hash of every worker must be the first worker's. A worker or
//             shard without a heartbeat for heartbeat_timeout loses its place. The run starts
//             training once workers_wanted workers and shards_wanted shards are registered, and
//             fails after start_timeout.
//   training  Begins with epoch 1, whose members are all workers, at round 0. Every change of the
//             members or of a shard's address begins an epoch. A round is finished once the shards
//             have closed it and every member whose first round has come has reported it or a later
//             round. A member that reports a later round has skipped the ones before. The
//             coordinator then compares the hashes.
//             Sealing rounds, without training, follow the last round. Every active member reports
//             its replica with all rounds, even a member that joined too late to train. The
//             coordinator compares and repairs replicas as after any round. A sealing round seals
//             the run if all active members have reported it and, where equal replicas are
//             promised, the replicas are equal. Otherwise another one follows. In a sealed run no
//             worker becomes active and no report counts.
//             The run is finished when it is sealed and a member that has or had the duty to write
//             the weights names them in its final report. The run fails when the last worker that
//             could go on reports a failure or a loss that is not finite. With other workers left,
//             only the member that failed leaves. The run fails when replicas that were promised to
//             be equal differ in a sealing round without a majority after the repair of an earlier
//             one. The run fails when one of the waits below exceeds its limit.
//   finished, failed, stopped
//             The last phases. StopRequested stops a run that waits or trains. The answer to a
//             heartbeat is kStop and the reason, to a registration FailedPrecondition.
//
// A member's reports decide about that member alone:
//   - Reports of rounds that no shard has closed finish no round.
//   - A report has one hash for each segment of the layout. The majority's hashes are right.
//   - A failure removes the member that reports it.
//   - The coordinator leaves out a member that holds up the end, as if the member had failed, and
//     ignores the weights that it names. Such a member was told to repair its replica and still
//     differs from the majority in a later sealing round. Or it has not reported a sealing round
//     for start_timeout (or a tenth of the training, if longer) while a member with all rounds was
//     there.
//   - The duty to write the weights passes to another member after the same time.
//
// States of a worker in an epoch:
//   joining   A member without a first round (kRoundNever). It fetches and pulls, pushes nothing,
//             and the run does not wait for it. A new name begins so, and a name that comes back in
//             another process, and a lost member whose heartbeats resume. So does a founding worker
//             with other weights than the run's (Member::other_start). A process with the same
//             identity gets the name at once, and the process before is refused with Aborted. A
//             process with another identity gets the name once the place is lost. The member
//             becomes active when a heartbeat that knows the epoch states a ready_round. The run
//             goes on if a joining member fails.
//   active    A member with a first round: the round after the newest open round of any shard, and
//             no earlier than its ready_round. While no active member has reported a round, the
//             first round is the ready_round, since no other member pushes. When all active members
//             that had begun have left, a first round falls to the ready_round again, since no
//             other member would close the rounds before. So a worker that waits for its first
//             round takes it from each new membership, and goes on from its own round if that is
//             later. Reports of earlier rounds change nothing. Shards see a member that has
//             reported a sealing round as joining, and do not wait for it.
//             A member is behind when a heartbeat without a report arrives while its newest report
//             is more than rounds_behind_max rounds behind the run's. Neither a round nor the end
//             waits for it, and status shows it as joining, until it reports a later round.
//   lost      No member: the worker has exceeded heartbeat_timeout, has failed, or has left
//             (WorkerHeartbeat::leaving). After a heartbeat timeout the next heartbeat makes it
//             joining again. After a failure, or after leaving, it may register again. Its name,
//             index and sums stay.
//
// RunStatus::trouble states what the run waits for, beyond its rounds. These waits end the run,
// each after start_timeout, or away_timeout once a round is finished:
//   - A worker or shard is missing to begin with.
//   - A shard has exceeded heartbeat_timeout. It may come back with other endpoints and another
//     incarnation. The new process gets the place once the one before has sent no heartbeat for
//     replace_after. A process without the folder is told to restore its range, and from then on
//     the coordinator refuses the range's older folder.
//   - The run has no members.
//   - A sealed run has lost the worker that was to write the weights. The duty passes to the next
//     member that sends a heartbeat, and that member sends its final report again.
// The run waits without limit for a shard that reports trouble of its own: a full disk, a folder
// that is damaged or from an older time. A shard whose process reports a failure and ends is
// trouble until heartbeat_timeout makes it missing.
//
// Replicas that differ are repaired where equal ones are promised. A member whose report of a
// finished round has another hash than the majority's, or any hash of a segment without a majority,
// gets a Repair of those segments with its answers until the hashes of a later round agree. The
// same majority decides the hash checks of shards' snapshots: equal or not, and not equal without a
// majority or for a round too old to be known. A round that is not finished has no hash check yet.
// A member that reports a round alone, while members that skipped it take part, is no majority:
// neither does it prove a snapshot, nor is its replica repaired.
//
// Shards hear of an epoch first. A worker's answers carry a membership only once the heartbeats of
// every shard know an epoch that has this worker as it is now. Before a worker's first membership
// the answers say `waiting`. So no push reaches a shard that does not know its sender, however
// often the members change. A shard gets the run's manifest with the epoch.
//
// With `interval` the coordinator decides the inner steps of rounds (RoundSchedule). A decision is
// durable before it is told, and stands. A member begins no round before it knows its steps.
//
// Every registration and heartbeat has exactly one answer among the effects: WorkerRegistered,
// ShardRegistration, a reply, or Refused with
//   InvalidArgument     a setting, name, manifest, layout hash, shard index or report that does not
//                       fit, or the data key of another worker, present or former
//   AlreadyExists       a live member has the name or index
//   FailedPrecondition  the run is over, or the shard's folder is another run's or no longer its
//                       range's
//   Unavailable         retry later: the places before the first round or the shard's place are
//                       taken, a report is far ahead of the shards, or this record is from an older
//                       time
//   ResourceExhausted   more than workers_max members at once, or kWorkersMax names in all. A
//                       former member keeps its place and may exceed that number
//   NotFound            a heartbeat of an unregistered worker or shard
//   Aborted             another incarnation has the place, or an earlier process of the folder
//                       registers
// A refused event changes nothing.
//
// The answer to a shard's registration has the number of finished rounds and the length of its
// folder's log as last reported, by which a shard notices that its folder is from an older time. A
// coordinator made of an exported record gives the answers that the exporter would have given, but
// heartbeat timeouts start anew. A coordinator that was itself paused (a gap between two Ticks of
// more than half of heartbeat_timeout) does not count the pause against the others.
//
// A record that is not the newest (a backup) would give epochs and worker indices a second time. A
// coordinator made of one learns so from a shard that knows an epoch that it was never told or has
// a log of a run that has not begun, and from a worker that knows a later epoch or has a residual
// of later rounds than any shard. From then on shards are told to merge nothing, other events are
// refused with Unavailable, and nothing changes, not even for a coordinator made of this record,
// until an operator decides (takes_as_newest): what began since may have taken the same numbers.
// After this coordinator has finished a round, a worker's word counts for that worker alone. A
// record of the newest epoch is good: rounds that it lacks stay without a record.
// Memory: the members, about 150 bytes a finished round, the hashes of kRoundsWithHashes rounds.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);
  // Continues from an exported record, which CheckRecord has passed with the same options.
  Coordinator(const CoordinatorOptions& options, CoordinatorRecord record);

  // FailedPrecondition: the record is of a run with other settings. DataLoss: parts of the record
  // contradict each other.
  static absl::Status CheckRecord(const CoordinatorOptions& options,
                                  const CoordinatorRecord& record);

  std::vector<CoordinatorEffect> Step(const CoordinatorEvent& event, absl::Time now, Rng& rng);

  CoordinatorRecord Export(absl::Time now) const;
  // The changes that must be durable before any answer of the steps since the last Saved leaves.
  // Empty if only values changed that each heartbeat reports again. Saved acknowledges them.
  std::optional<CoordinatorChanges> Unsaved(absl::Time now) const;
  void Saved();

  // Records from index round_records_from on, at most kStatusRecordsMax of them. record_count is
  // the number of all, by which the caller asks for the next ones.
  RunStatus Status(uint64_t round_records_from, absl::Time now) const;
  // Finished rounds from round `round` on.
  std::span<const FinishedRound> RoundsFrom(uint32_t round) const;
  RunPhase phase() const { return phase_; }
  // The name of the worker with this index; empty if there is none.
  std::string NameOf(uint32_t worker) const;
  std::optional<uint32_t> IndexOf(const std::string& name) const;
  const std::optional<Manifest>& manifest() const { return manifest_; }
  const std::string& reason() const { return reason_; }  // why the run is over
  bool is_over() const { return IsOver(phase_); }
  // The run is over, and the answers have said so to every worker and shard that still takes part.
  bool EveryoneToldOfTheEnd() const;
  // The latest answers were not sent: their decisions could not be made durable.
  void NoteUnsent();

  static constexpr uint64_t kStatusRecordsMax = 8192;
  static constexpr size_t kNameBytesMax = 128;
  static constexpr size_t kWorkersMax = 1 << 16;

 private:
  struct Worker : WorkerRecord {
    absl::Time heard;
    bool told = false;  // the worker has had the run's end as an answer
    // The worker held the duty to write the weights for longer than EndPatience
    bool shirks = false;

    bool is_active() const { return !lost && member.first_round != kRoundNever; }
    bool is_joining() const { return !lost && member.first_round == kRoundNever; }
  };
  struct Shard : ShardRecord {
    absl::Time heard;
    bool silent = false;  // past the heartbeat timeout, and a notice said so
    bool told = false;    // as of a worker
    std::string complaint;
  };
  using Effects = std::vector<CoordinatorEffect>;

  template <typename... Parts>
  static void Note(Effects& effects, const Parts&... parts) {
    effects.push_back(Notice{absl::StrCat(parts...)});
  }

  // --- coordinator.cc: events
  void On(const RegisterWorker& request, absl::Time now, Effects& effects);
  void On(const RegisterShard& request, absl::Time now, Effects& effects);
  void On(const WorkerHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const ShardHeartbeat& heartbeat, absl::Time now, Effects& effects);
  void On(const StopRequested& request, absl::Time now, Effects& effects);
  void On(const WorkerExpelled& expelled, absl::Time now, Effects& effects);
  void On(const Tick&, absl::Time now, Effects& effects);
  ShardRegistration AnswerTo(const Shard& shard) const;
  void OnMemberHeartbeat(Worker& worker, const WorkerHeartbeat& heartbeat, absl::Time now,
                         Effects& effects);
  // The worker's counts never fall: they are sums over its processes.
  void OnWorkerState(Worker& worker, const WorkerHeartbeat& heartbeat);
  void OnReports(Worker& worker, const WorkerHeartbeat& heartbeat, Effects& effects);

  // --- coordinator_checks.cc: what is refused and why; the checks change nothing
  // who: "worker w", for the sentence. at_most: keys of which `who` may have less.
  absl::Status CheckSettings(const std::string& who, const std::string& settings,
                             std::span<const std::string> at_most) const;
  absl::Status CheckOrder(const RegisterWorker& request) const;
  absl::Status CheckPlace(const RegisterWorker& request, absl::Time now) const;
  absl::Status CheckDataKey(const RegisterWorker& request) const;
  absl::Status CheckAlike(const RegisterWorker& request) const;
  absl::Status CheckStart(const RegisterWorker& request, uint64_t segments) const;
  absl::Status CheckRegistration(const RegisterWorker& request, absl::Time now) const;
  absl::Status CheckRegistration(const RegisterShard& request, absl::Time now) const;
  absl::Status CheckHeartbeat(const WorkerHeartbeat& heartbeat) const;
  absl::Status CheckHeartbeat(const ShardHeartbeat& heartbeat) const;
  // The reason why the run cannot go on after this heartbeat; empty if it can.
  static std::string FailureIn(const WorkerHeartbeat& heartbeat);

  // --- coordinator_older.cc: a record from an older time
  // The event's trace of a newer record, as a sentence; empty: there is none.
  std::string TraceIn(const ShardHeartbeat& heartbeat) const;
  std::string TraceIn(const WorkerHeartbeat& heartbeat) const;
  std::string TraceIn(const RegisterWorker& request) const;
  void OnTrace(const std::string& trace, absl::Time now, Effects& effects);  // of a registration
  void RefuseAll(const std::string& why, Effects& effects);
  void TakeAsNewest();
  bool IsBeforeTaken(uint32_t epoch) const;  // what a process knows since then proves nothing

  // --- coordinator_members.cc: the members
  void BeginTrainingIfComplete(absl::Time now, Effects& effects);
  // The last worker with the run's first weights takes the workers with other weights along.
  void DropBeforeStart(uint32_t worker, Effects& effects);
  void DropSilentBeforeStart(absl::Time now, Effects& effects);
  void ReplaceProcess(Worker& worker, const RegisterWorker& request);
  // Before the first round the first weights that a worker brings become the run's.
  void SetStart(Worker& worker, const std::vector<uint64_t>& hashes);
  bool AnyoneBringsStart() const;
  // how: "joins", …, for the notice.
  void Join(Worker& worker, const std::string& how, Effects& effects);
  // Gives a joining member that has caught up its first round.
  void Activate(Worker& worker, Effects& effects);
  // A worker that has left does not rejoin by a heartbeat. why: for the notice.
  void Leave(Worker& worker, const std::string& why, Effects& effects);
  // Leaves the worker out, or ends the run if no other worker can go on.
  void Fail(Worker& worker, const std::string& failure, absl::Time now, Effects& effects);
  // Leaves a worker out that holds the others up. why: for the notice.
  void LeaveOut(Worker& worker, const std::string& why, Effects& effects);
  void LoseSilentWorkers(absl::Time now, Effects& effects);
  // Spares workers the wait for a first round if no other member pushes any more.
  void LowerFirstRounds();
  bool AnyoneHasBegun() const;
  bool AnyoneHasRoundsLeft() const;  // of the active ones
  // Puts the worker into the next epoch's members.
  void SetMember(Worker& worker);
  void PutMember(const Worker& worker);
  // `behind` as defined for active members above.
  void SetBehind(Worker& worker, bool behind, Effects& effects);
  std::vector<Member> MembersWaitedFor() const;
  void BeginEpoch();
  std::string Members() const;  // "epoch 4 goes on with 2 workers and 1 that joins"

  // --- coordinator_end.cc: rounds, waits, the end
  void FinishRounds(absl::Time now, Effects& effects);
  void OrderRepairs(const RoundOutcome& outcome, Effects& effects);
  // Leaves members out that a sealing round's majority contradicts after an earlier repair. True:
  // such a member differs, and there is no majority.
  bool LeaveOutOutvoted(const RoundOutcome& outcome, Effects& effects);
  // Leaves members out that hold up a sealing round.
  void LeaveOutOverdue(absl::Time now, Effects& effects);
  void PassDutyOn(absl::Time now, Effects& effects);
  // How long the run waits for a shard, a member or the weights.
  absl::Duration Patience() const {
    return ledger_.next_round() > 0 ? options_.away_timeout : options_.start_timeout;
  }
  // How long one member may take for its part of the end. A repair, the last validation and the
  // weights take longer where models are large and rounds long.
  absl::Duration EndPatience(absl::Time now) const;
  void FinishRunIfDone(absl::Time now, Effects& effects);
  // There are active members that are not behind, and all of them have all rounds.
  bool AllHaveEnded() const;
  // All active members that are not behind have reported their replicas since, equal ones where
  // that is promised.
  bool IsSealed() const;
  // As far as the shards' heartbeats have reported.
  bool AllAreClosed() const { return KnowsRounds() && ledger_.closed_rounds() >= rounds(); }
  // Gives notice once the wait exceeds heartbeat_timeout.
  void SayWhatIsMissing(absl::Duration waited, Effects& effects);
  // Why the run is not finished although all members have ended.
  std::string WhatIsMissing() const;
  // The worker that has the duty and has written the weights; null if there is none.
  const Worker* Writer() const;
  void WatchShards(absl::Time now, Effects& effects);
  // Ends a run whose wait has exceeded its limit.
  void WatchPatience(absl::Time now, Effects& effects);
  void ForgiveOwnPause(absl::Time now);
  void End(RunPhase phase, std::string reason, absl::Time now, Effects& effects);
  uint32_t NewestRound() const;  // open at any shard
  bool HearOfClosedRounds();     // true: the shards have closed more rounds than was known

  // --- coordinator_intervals.cc
  uint64_t rounds() const;  // of the run; while it is not known the most that there can be
  bool KnowsRounds() const { return !schedule_ || schedule_->plan().round_count() != kRoundNever; }
  uint32_t NewestBegun() const;  // by members, as far as is known
  void DecideIntervals(Effects& effects);

  // --- coordinator_warnings.cc: each warning once, in the log and in the status
  void Warn(std::string worker, const std::string& text, Effects& effects);
  void WarnOfEqualLosses(const RoundOutcome& outcome, Effects& effects);

  // --- coordinator_status.cc: answers and status
  WorkerHeartbeatReply ReplyTo(const WorkerHeartbeat& heartbeat) const;
  ShardHeartbeatReply ReplyTo(const ShardHeartbeat& heartbeat) const;
  std::string WhoIsRegistered() const;
  std::string Trouble() const;
  static std::string LastSaid(const Shard& shard);  // the shard's trouble, appended to a sentence
  std::string OverSentence() const;                 // "the run is over (failed: …)"
  bool EveryShardKnows(uint32_t epoch) const;
  bool IsOfStart(const SnapshotHash& snapshot) const;  // of round 0
  // The active member of lowest index. Members that are behind come after all others, and then
  // those that have neglected the duty. Null if there is none.
  const Worker* Validator() const;
  double SecondsOfTraining(absl::Time now) const;

  // --- coordinator_export.cc
  CoordinatorState ExportState(absl::Time now) const;

  // Null if the name is unknown.
  const Worker* FindWorker(const std::string& name) const;
  Worker* FindWorker(const std::string& name);

  const CoordinatorOptions options_;
  RunPhase phase_ = RunPhase::kWaiting;
  std::string reason_;                // why the run is over
  const bool goes_on_ = false;        // made of a record that may be from an older time
  std::string outdated_;              // why the record is not the newest one, else empty
  uint64_t run_ = 0;                  // drawn at the first step; never 0
  std::optional<Manifest> manifest_;  // the first worker's, and every worker's
  uint64_t layout_hash_ = 0;
  std::vector<uint64_t> start_hashes_;  // of the run's first weights, by segment; empty: none yet
  std::map<uint32_t, Worker> workers_;  // by index; lost ones stay for status and may come back
  std::map<uint32_t, Shard> shards_;
  Membership membership_;
  std::optional<RoundSchedule> schedule_;  // null: the interval is fixed
  RoundLedger ledger_;
  uint64_t repairs_ = 0;
  std::vector<Warning> warnings_;

  // Clocks.
  std::optional<absl::Time> first_step_;  // later by this coordinator's own pauses
  std::optional<absl::Time> last_tick_;
  std::optional<absl::Time> training_began_;
  std::optional<absl::Time> ended_;
  std::optional<absl::Time> traced_at_;    // the first OnTrace
  bool has_finished_any_ = false;          // a round, in this process
  double seconds_before_ = 0;              // seconds of training in the record
  std::optional<absl::Time> alone_since_;  // the run has no members
  // All members have ended, and closed rounds or the weights are missing.
  std::optional<absl::Time> lacking_since_;
  std::string lacking_;                      // the missing part, as last notified
  std::optional<absl::Time> sealing_since_;  // sealing round held_up_ has its first report
  uint32_t held_up_ = 0;
  std::optional<absl::Time> duty_since_;  // only the weights of duty_of_ are missing
  uint32_t duty_of_ = 0;
  std::string last_loss_;  // the last lost worker and why

  bool unsaved_ = false;
  bool manifest_unsaved_ = false;  // likewise start_hashes_
  bool intervals_unsaved_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_H_

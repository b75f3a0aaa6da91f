#ifndef LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_
#define LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/wire/control.h"
#include "server/coordinator/coordinator_record.h"
#include "server/coordinator/replica_vote.h"

namespace longwave {

// A round that was finished just now.
struct RoundOutcome {
  uint32_t round = 0;  // that was compared: from the run's number of rounds on a sealing round
  RoundRecord record;
  // Of each worker that reported it, with hashes: the segments to fetch anew, none if it is equal.
  // Nothing of one that was alone with its report while others take part.
  std::map<uint32_t, std::vector<uint32_t>> suspects;
  size_t undecided = 0;  // segments without a majority, each of them every suspect's
};

// The rounds of a run: takes each worker's reports in, and once nobody who is due can report a
// round any more makes one record of it, comparing the replicas' hashes. Rounds finish in order. A
// worker that reports a round has skipped those before that it did not report; of a round that all
// have skipped there is no record. A worker may report a round before the shards have said that it
// is closed (their heartbeats come apart): its report is kept, and the round is not finished before
// they have.
//
// After the run's last round sealing rounds follow, one after the other for as long as they are
// wanted (see IsSealed): each is the comparison of the replicas with all rounds, finished like a
// round once every member that is due has reported it.
//
// Memory: a record of about 150 bytes for each finished round, the hashes of the last
// kRoundsWithHashes, and the reports (8 bytes a segment and worker) of those that are not finished:
// at most kRoundsAheadMax rounds of each worker.
class RoundLedger {
 public:
  explicit RoundLedger(uint64_t round_count) : round_count_(round_count) {}
  // Goes on from a record that was checked (Coordinator::CheckRecord).
  RoundLedger(uint64_t round_count, const CoordinatorRecord& record);

  // Of the model's layout: how many hashes a report has.
  void SetSegmentCount(uint64_t count) { segment_count_ = count; }
  uint64_t segment_count() const { return segment_count_; }
  // The shards have closed the rounds before this one, all segments of them. True: more than
  // before.
  bool SetClosedRounds(uint32_t rounds);
  uint32_t closed_rounds() const { return closed_rounds_; }

  // Whether `reports` can be taken in; changes nothing. A report that is already here, or of a
  // round before the worker's first, is fine: it says nothing new. InvalidArgument: rounds that do
  // not ascend, a number of hashes that is not that of the segments.
  // Unavailable: a round kRoundsAheadMax or more beyond those that the shards have closed, as far
  // as was heard.
  absl::Status Check(const Member& member, std::span<const RoundReport> reports) const;

  // Takes checked reports in; true if any of them was new. A sealing round after the one that is
  // open is taken for that: a record from an older time lacks those before.
  bool Add(const Member& member, std::span<const RoundReport> reports);
  // Another process goes on as this worker: what it counts goes on top of what was, and it is to
  // report the sealing round itself.
  void Restart(uint32_t worker);
  // The first that this process says of its work, where `done` was known to be done before: it
  // counts on from there. True: that changes what is kept.
  bool BeginCount(uint32_t worker, const WorkTotals& said, const WorkTotals& done);
  // All that the worker has done, of which this process says so much.
  WorkTotals WholeWork(uint32_t worker, const WorkTotals& said) const;

  // Finishes every closed round that all of `members` who are due (whose first_round has come) have
  // reported or skipped, as long as there are reports of it or a later one; reports of workers that
  // have left since still count. validator: the worker whose validation loss is the record's.
  // seconds: since training began. Rounds that finish in one call share one rate of tokens, over
  // the time since the call before that finished any.
  std::vector<RoundOutcome> Finish(std::span<const Member> members,
                                   std::optional<uint32_t> validator, double seconds);

  // The round after the last one that the worker has reported to have had a part in.
  uint32_t TakenPart(uint32_t worker) const;
  // Whether the worker has reported the round, or a later one.
  bool HasReported(uint32_t worker, uint32_t round) const;
  // Whether the worker has all rounds.
  bool HasReportedEnd(uint32_t worker) const { return HasReported(worker, round_count()); }
  // The sealing round that is open, or will be first.
  uint32_t sealing_round() const { return std::max(round_count(), next_round_); }
  // Whether a sealing round is finished that all of `members` who are due have reported, and that
  // is somebody. are_equal: and found their replicas equal.
  bool IsSealed(std::span<const Member> members, bool are_equal) const;

  // Whether the newest report of a member that is due is more than `rounds` behind the newest one
  // of a closed round.
  bool IsBehind(const Member& member, uint32_t rounds) const;

  // Finished rounds, each with what is known of its hashes; without sealing rounds.
  std::span<const FinishedRound> rounds() const;
  // Of all segments, after the newest finished round, sealing rounds too; 0: none is.
  uint64_t state_hash() const { return rounds_.empty() ? 0 : rounds_.back().record.state_hash; }
  // The oldest round that is not finished.
  uint32_t next_round() const { return next_round_; }
  // Whether the replicas were equal after the last finished round.
  bool replicas_equal() const { return inequality_.empty(); }
  // Otherwise the first difference since they were: round, worker, segment, in a sentence.
  const std::string& inequality() const { return inequality_; }

  // Whether a snapshot is what the majority had after the round before; nothing: that is not
  // finished. False also if nobody reported it, or one alone while others took part (who may well
  // be the one that gave the snapshot away), or it was too long ago.
  std::optional<bool> Judge(const SnapshotHash& snapshot) const;

  // Fills the ledger's parts.
  void Export(CoordinatorRecord* record) const;
  void ExportState(CoordinatorState* state) const;
  // Rounds and reports since the last Saved.
  void ExportUnsaved(CoordinatorChanges* changes) const;
  void Saved();

  static constexpr uint32_t kRoundsAheadMax = 1024;

 private:
  using Reports = std::map<uint32_t, OpenReport>;  // of a round, by worker

  uint32_t round_count() const { return static_cast<uint32_t>(round_count_); }
  bool IsClosed(uint32_t round) const {
    return std::min(round + 1, round_count()) <= closed_rounds_;
  }
  bool IsOver(uint32_t round, std::span<const Member> members);
  // Of a sealing round: what those reported who are gone, or no active members yet. They were not
  // compared.
  void DropUndue(Reports& reports, std::span<const Member> members);
  // All have skipped the last round: the sealing round's record takes its place.
  bool IsLastLacking() const;
  // The worker's next round to report, were it a member with that first round.
  uint32_t NextOf(const Member& member) const;
  FinishedRound MakeRecord(uint32_t round, const Reports& reports,
                           std::optional<uint32_t> validator);

  uint64_t round_count_;
  uint32_t next_round_ = 0;
  uint32_t closed_rounds_ = 0;
  std::map<uint32_t, LedgerWorker> workers_;
  std::map<uint32_t, Reports> open_;  // by round
  uint64_t segment_count_ = 0;
  std::vector<FinishedRound> rounds_;
  std::string inequality_;
  double rate_seconds_ = 0;  // where the last rate of tokens ended
  uint64_t rate_tokens_ = 0;

  size_t waits_for_ = 0;  // among the members, at the last call of Finish

  size_t saved_rounds_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> unsaved_reports_;  // round, worker; of open rounds
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

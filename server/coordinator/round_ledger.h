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
#include "common/control/control.h"
#include "server/coordinator/coordinator_record.h"
#include "server/coordinator/equal_losses.h"
#include "server/coordinator/interval_control.h"
#include "server/coordinator/replica_vote.h"

namespace longwave {

// A round that has just finished.
struct RoundOutcome {
  uint32_t round = 0;  // the compared round; a sealing round has the run's number of rounds or more
  RoundRecord record;
  // For each worker that reported hashes, the segments to fetch anew; empty if its replica is
  // equal. A worker that reported alone while others take part has no entry.
  std::map<uint32_t, std::vector<uint32_t>> suspects;
  size_t undecided = 0;  // segments without a majority, contained in every suspect's list
  std::vector<std::vector<uint32_t>> equal_losses;  // groups of workers, see EqualLosses
  std::vector<RoundWork> work;                      // of each worker that reported
};

// The rounds of a run. The ledger takes in the workers' reports. Once every member due has reported
// or skipped a round, the ledger compares the replicas' hashes and makes the round's record. Rounds
// finish in order. A worker that reports a round has skipped the earlier rounds that it did not
// report. A round that all members have skipped has no record. Heartbeats of workers and shards are
// not ordered, so a report may arrive before the shards' word that its round is closed. The ledger
// then keeps the report and finishes the round later.
//
// Sealing rounds follow the run's last round until the run is sealed (see IsSealed). A sealing
// round compares the replicas with all rounds. It finishes like a round, once every member due has
// reported it.
//
// Memory: about 150 bytes for the record of each finished round, the hashes of the last
// kRoundsWithHashes rounds, and the reports of unfinished rounds (8 bytes a segment and worker; at
// most kRoundsAheadMax rounds of each worker).
class RoundLedger {
 public:
  explicit RoundLedger(uint64_t round_count) : round_count_(round_count) {}
  // Continues from a record that Coordinator::CheckRecord has passed.
  RoundLedger(uint64_t round_count, const CoordinatorRecord& record);

  // The number of the run's rounds has become known, and is smaller. No member has reported it.
  void SetRoundCount(uint64_t count) { round_count_ = count; }
  // The number of segments of the model's layout, thus of hashes in a report.
  void SetSegmentCount(uint64_t count) { segment_count_ = count; }
  uint64_t segment_count() const { return segment_count_; }
  // The shards have closed all segments of the rounds before `rounds`. True: more than before.
  bool SetClosedRounds(uint32_t rounds);
  uint32_t closed_rounds() const { return closed_rounds_; }

  // Whether Add can take `reports`; changes nothing. Known reports, and reports of rounds before
  // the worker's first, pass and add nothing. InvalidArgument: the rounds do not ascend, or the
  // number of hashes is not that of the segments. Unavailable: the round is kRoundsAheadMax or more
  // beyond the rounds that the shards are known to have closed.
  absl::Status Check(const Member& member, std::span<const RoundReport> reports) const;

  // Takes in reports that Check has passed. True if any of them was new. A sealing round after the
  // open one counts as the open one, since a record from an older time lacks those before.
  bool Add(const Member& member, std::span<const RoundReport> reports);
  // Another process continues as this worker. Its counts add to the earlier ones, and it has to
  // report the sealing round itself.
  void Restart(uint32_t worker);
  // The first work figures `said` of this process, while `done` was the worker's known total: the
  // process counts on from `said`. True: the kept state has changed.
  bool BeginCount(uint32_t worker, const WorkTotals& said, const WorkTotals& done);
  // The worker's total, given that the present process states `said`.
  WorkTotals WholeWork(uint32_t worker, const WorkTotals& said) const;

  // Finishes every closed round that all of `members` due (with a first_round that has come) have
  // reported or skipped, as long as there are reports of this or a later round. Reports of workers
  // that have left since still count. validator: the worker whose validation loss enters the
  // record. seconds: since training began. Rounds that finish in one call share one rate of tokens,
  // measured since the last call that finished a round.
  std::vector<RoundOutcome> Finish(std::span<const Member> members,
                                   std::optional<uint32_t> validator, double seconds);

  // The round after the last one that the worker reported and took part in.
  uint32_t TakenPart(uint32_t worker) const;
  // Whether the worker has reported this or a later round.
  bool HasReported(uint32_t worker, uint32_t round) const;
  // The round after the last one that the worker has reported.
  uint32_t NextOf(uint32_t worker) const {
    const auto found = workers_.find(worker);
    return found == workers_.end() ? 0 : found->second.next_round;
  }
  // Whether the worker has reported all rounds.
  bool HasReportedEnd(uint32_t worker) const { return HasReported(worker, round_count()); }
  // The open or the first sealing round.
  uint32_t sealing_round() const { return std::max(round_count(), next_round_); }
  // Whether a sealing round is finished, at least one of `members` is due, and all that are due
  // have reported that round. are_equal: the replicas must have been equal, too.
  bool IsSealed(std::span<const Member> members, bool are_equal) const;

  // Whether the newest report of a member due is more than `rounds` behind the newest report of a
  // closed round.
  bool IsBehind(const Member& member, uint32_t rounds) const;

  // Finished rounds without sealing rounds, each with the hashes that are still kept.
  std::span<const FinishedRound> rounds() const;
  // Of all segments after the newest finished round, sealing rounds included; 0: none is finished.
  uint64_t state_hash() const { return rounds_.empty() ? 0 : rounds_.back().record.state_hash; }
  // The oldest unfinished round.
  uint32_t next_round() const { return next_round_; }
  // Whether the replicas were equal after the last finished round.
  bool replicas_equal() const { return inequality_.empty(); }
  // The first difference since the replicas were last equal: a sentence with round, worker and
  // segment.
  const std::string& inequality() const { return inequality_; }

  // Whether a snapshot equals what the majority had after the round before. Nothing: that round is
  // not finished. False if no member or only one of several reported that round (the snapshot may
  // come from that very member), or if its hashes are no longer kept.
  std::optional<bool> Judge(const SnapshotHash& snapshot) const;

  // Fills in the ledger's parts.
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
  // Drops reports of a sealing round by workers that are no active members (any more). They do not
  // enter the comparison.
  void DropUndue(Reports& reports, std::span<const Member> members);
  std::vector<std::vector<uint32_t>> EqualLossesOf(const Reports& reports);
  // All members skipped the last round, so the sealing round's record takes its place.
  bool IsLastLacking() const;
  // The next round that the worker reports, given its first round.
  uint32_t NextOf(const Member& member) const;
  FinishedRound MakeRecord(uint32_t round, const Reports& reports,
                           std::optional<uint32_t> validator, std::vector<RoundWork>* work);

  uint64_t round_count_;
  uint32_t next_round_ = 0;
  uint32_t closed_rounds_ = 0;
  std::map<uint32_t, LedgerWorker> workers_;
  std::map<uint32_t, Reports> open_;  // by round
  uint64_t segment_count_ = 0;
  std::vector<FinishedRound> rounds_;
  std::string inequality_;
  EqualLosses equal_losses_;
  double rate_seconds_ = 0;  // end of the interval of the last rate of tokens
  uint64_t rate_tokens_ = 0;

  size_t waits_for_ = 0;  // index of the member that the last call of Finish waited for

  size_t saved_rounds_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> unsaved_reports_;  // round, worker; of open rounds
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

#ifndef LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_
#define LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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
  RoundRecord record;
  // The round is the last one, replicas differ after it, and it is not finished: of the record the
  // round's index alone is there.
  bool is_open = false;
  // Of each worker that reported it, with hashes: the segments to fetch anew, none if it is equal.
  // Nothing of one that was alone with its report while others take part.
  std::map<uint32_t, std::vector<uint32_t>> suspects;
};

// The rounds of a run: takes each worker's reports in, and once nobody who is due can report a
// round any more makes one record of it, comparing the replicas' hashes. Rounds finish in order. A
// worker that reports a round has skipped those before that it did not report; of a round that all
// have skipped there is no record. A worker may report a round before the shards have said that it
// is closed (their heartbeats come apart): its report is kept, and the round is not finished before
// they have.
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
  // not ascend or are out of the run, a number of hashes that is not that of the segments.
  // Unavailable: a round kRoundsAheadMax or more beyond those that the shards have closed, as far
  // as was heard.
  absl::Status Check(const Member& member, std::span<const RoundReport> reports) const;

  // Takes checked reports in; true if any of them was new. Who joined too late for the last round
  // reports it, too: what it has caught up with is compared.
  bool Add(const Member& member, std::span<const RoundReport> reports);
  // Another process goes on as this worker: its counts begin at zero and go on top of what was, and
  // it is to report the last round itself.
  void Restart(uint32_t worker);
  // The worker will report no more.
  void SkipRest(uint32_t worker);

  // Finishes every closed round that all of `members` who are due (whose first_round has come) have
  // reported or skipped, as long as there are reports of it or a later one; reports of workers that
  // have left since still count. validator: the worker whose validation loss is the record's.
  // seconds: since training began. Rounds that finish in one call share one rate of tokens, over
  // the time since the call before that finished any.
  // keeps_last: a last round after which replicas differ is told and not finished, so that its
  // hashes can be reported again (RoundReport::again).
  // is_gone: a worker whose report does not count in the round that is finished next if it differs
  // from the others', unless no report would be left; none: every report counts.
  using IsGone = std::function<bool(uint32_t worker)>;
  std::vector<RoundOutcome> Finish(std::span<const Member> members,
                                   std::optional<uint32_t> validator, double seconds,
                                   bool keeps_last = false, const IsGone& is_gone = nullptr);
  // Of the round that is to be finished next: the workers that are there and that a majority of the
  // reports that would be left contradicts in a segment.
  std::vector<uint32_t> Outvoted(const IsGone& is_gone) const;

  // The round after the last one that the worker has reported to have had a part in.
  uint32_t TakenPart(uint32_t worker) const;
  // Whether the worker has reported the last round.
  bool HasReportedEnd(uint32_t worker) const;
  // Whether the report is of the last round, came after that was finished, and has other hashes.
  bool ContradictsEnd(const RoundReport& report) const;

  // Whether the newest report of a member that is due is more than `rounds` behind the newest one
  // of a closed round.
  bool IsBehind(const Member& member, uint32_t rounds) const;

  // Finished rounds, each with what is known of its hashes.
  const std::vector<FinishedRound>& rounds() const { return rounds_; }
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

  uint32_t last_round() const { return static_cast<uint32_t>(round_count_ - 1); }
  Reports WithoutSuspects(const IsGone& is_gone) const;  // empty: there are no reports
  bool IsOver(uint32_t round, std::span<const Member> members);
  bool TakeAgain(const Member& member, const RoundReport& report);
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

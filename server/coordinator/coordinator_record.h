#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fields.h"
#include "common/control/control.h"
#include "common/layout/manifest.h"

namespace longwave {

// A coordinator's whole state as plain values, from which another coordinator continues. Points in
// time are absent: the new coordinator starts its timeouts anew.

struct WorkerRecord {
  Member member;
  uint64_t identity = 0;
  uint64_t process = 0;  // as it registered
  uint64_t incarnation = 0;
  std::vector<uint64_t> former;  // incarnations that lost the place, the latest last
  uint32_t joined_epoch = 0;     // the epoch with which it became a member
  uint32_t member_epoch = 0;     // the first epoch with `member` as it is now
  uint32_t ready_round = kRoundNever;
  bool begun = false;   // has reported a round as a member, or founded the run
  bool lost = false;    // no member: heartbeat timeout, left or failed
  bool left = false;    // lost, and a heartbeat does not make it a member again
  bool behind = false;  // alive without reporting rounds: the run does not wait for it
  std::optional<FinalReport> final;
  std::optional<Repair> repair;
  std::vector<Alike> alike;  // as it registered
  // As last reported. Counts and seconds are sums over the worker's processes.
  WorkerState state;
  LONGWAVE_FIELDS(member, identity, process, incarnation, former, joined_epoch, member_epoch,
                  ready_round, begun, lost, left, behind, final, repair, alike, state)
  bool operator==(const WorkerRecord&) const = default;
};

struct ShardRecord {
  ShardAddress address;
  uint64_t incarnation = 0;
  std::vector<uint64_t> former;
  uint64_t folder = 0;   // the folder that has the range; see RegisterShard
  bool restore = false;  // as its registration was answered
  // The newest epoch that any process of the coordinator has sent it.
  uint32_t told_epoch = 0;
  // As last reported. state.log_records is the maximum that was reported of its folder.
  uint32_t known_epoch = 0;
  ShardState state;
  std::string trouble;
  LONGWAVE_FIELDS(address, incarnation, former, folder, restore, told_epoch, known_epoch, state,
                  trouble)
  bool operator==(const ShardRecord&) const = default;
};

// Sums over a worker's work.
struct WorkTotals {
  uint64_t tokens = 0;
  ByteCounts bytes;
  double seconds_computing = 0;
  double seconds_syncing = 0;
  LONGWAVE_FIELDS(tokens, bytes, seconds_computing, seconds_syncing)
  bool operator==(const WorkTotals&) const = default;
};
// The work in a WorkerState or a RoundReport.
template <typename Said>
WorkTotals WorkOf(const Said& said) {
  return {said.tokens, said.bytes, said.seconds_computing, said.seconds_syncing};
}
template <typename Said>
void SetWork(const WorkTotals& work, Said* said) {
  said->tokens = work.tokens;
  said->bytes = work.bytes;
  said->seconds_computing = work.seconds_computing;
  said->seconds_syncing = work.seconds_syncing;
}
// The functions treat each figure separately and saturate at its bounds.
WorkTotals Sum(const WorkTotals& a, const WorkTotals& b);
WorkTotals Rest(const WorkTotals& of, const WorkTotals& without);
WorkTotals Most(const WorkTotals& a, const WorkTotals& b);

// The ledger's state of a worker, without the reports.
struct LedgerWorker {
  uint32_t next_round = 0;  // all rounds before were reported or skipped
  uint32_t taken_part = 0;  // the round after the last one that it reported and took part in
  // The work of earlier incarnations, less what this incarnation started from: a process continues
  // the count of its folder. The sum of `former` and this incarnation's own count is the worker's
  // total.
  WorkTotals former;
  WorkTotals newest;   // total at its last report
  WorkTotals counted;  // total at its last report of a finished round
  LONGWAVE_FIELDS(next_round, taken_part, former, newest, counted)
  bool operator==(const LedgerWorker&) const = default;
};

// A round that every member due has reported or skipped, and at least one has reported.
struct FinishedRound {
  RoundRecord record;
  // The majority's hashes by segment. Kept for the latest rounds only, and not for a round that a
  // single member has reported while others took part.
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> undecided;  // segments without a majority, ascending
  LONGWAVE_FIELDS(record, hashes, undecided)
  bool operator==(const FinishedRound&) const = default;
};

// A report of an unfinished round. Counts are sums over the worker's incarnations.
struct OpenReport {
  Member member;
  RoundReport report;
  LONGWAVE_FIELDS(member, report)
  bool operator==(const OpenReport&) const = default;
};

// The small part, rewritten with each change.
struct CoordinatorState {
  std::string settings;  // equal to CoordinatorOptions' settings
  RunPhase phase = RunPhase::kWaiting;
  std::string reason;    // why the run is over
  std::string outdated;  // why the record is known not to be the newest; else empty
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint64_t layout_hash = 0;
  uint64_t repairs = 0;
  std::vector<Warning> warnings;      // those of the status
  double seconds = 0;                 // seconds of training up to now
  std::vector<WorkerRecord> workers;  // by index, ascending
  std::vector<ShardRecord> shards;    // likewise
  // The ledger's.
  uint32_t next_round = 0;                                        // the oldest that is not finished
  std::vector<std::pair<uint32_t, LedgerWorker>> ledger_workers;  // by index
  uint64_t segment_count = 0;                                     // 0: no model is known yet
  std::string inequality;
  double rate_seconds = 0;
  uint64_t rate_tokens = 0;
  LONGWAVE_FIELDS(settings, phase, reason, outdated, run, epoch, layout_hash, repairs, warnings,
                  seconds, workers, shards, next_round, ledger_workers, segment_count, inequality,
                  rate_seconds, rate_tokens)
  bool operator==(const CoordinatorState&) const = default;
};

struct CoordinatorRecord {
  CoordinatorState state;
  std::optional<Manifest> manifest;
  std::vector<uint64_t> start_hashes;  // of the run's first weights, by segment
  std::vector<FinishedRound> rounds;   // all, in order; sealing rounds last
  std::vector<OpenReport> reports;     // by round, then worker
  Intervals intervals;                 // the decided rounds, if the coordinator decides them

  bool operator==(const CoordinatorRecord&) const = default;
};

// The changes since a record was up to date.
struct CoordinatorChanges {
  CoordinatorState state;
  bool manifest_changed = false;
  std::optional<Manifest> manifest;    // if manifest_changed
  std::vector<uint64_t> start_hashes;  // if manifest_changed
  std::vector<FinishedRound> rounds;   // appended to the record's
  // New reports; reports of rounds before state.next_round are obsolete.
  std::vector<OpenReport> reports;
  std::optional<Intervals> intervals;  // all decided rounds, if there are more
  LONGWAVE_FIELDS(state, manifest_changed, manifest, start_hashes, rounds, reports, intervals)
  bool operator==(const CoordinatorChanges&) const = default;
};

// A whole record as changes of an empty one.
CoordinatorChanges ChangesFromNothing(CoordinatorRecord record);

// So many of the latest finished rounds keep their hashes, for the hash checks of snapshots.
inline constexpr uint32_t kRoundsWithHashes = 64;

// Drops the hashes of all but the latest rounds. The rounds from index `from` on are new.
void ForgetOldHashes(std::vector<FinishedRound>* rounds, size_t from);

// Brings the record up to date. CoordinatorStore reads back the sum of its writes.
void Apply(const CoordinatorChanges& changes, CoordinatorRecord* record);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_

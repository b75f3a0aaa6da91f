#ifndef LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_
#define LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/layout/manifest.h"
#include "common/wire/control.h"

namespace longwave {

// All that a coordinator knows, as plain values: what another one, made from it, goes on with. No
// points in time: clocks of silence and patience start anew with the new one.

struct WorkerRecord {
  Member member;
  uint64_t identity = 0;
  uint64_t process = 0;  // as it registered
  uint64_t incarnation = 0;
  std::vector<uint64_t> former;  // incarnations whose place was taken, the latest last
  uint32_t joined_epoch = 0;     // that it became a member with
  uint32_t member_epoch = 0;     // the first that has `member` as it is
  uint32_t ready_round = kRoundNever;
  bool begun = false;   // it has reported a round since it became a member, or founded the run
  bool lost = false;    // silent for too long, left or failed: no member
  bool left = false;    // and will not be one by being heard again
  bool behind = false;  // a live process that reports no rounds any more: nobody waits for it
  std::optional<FinalReport> final;
  std::optional<Repair> repair;
  // As it reported it, a moment old; its counts and seconds are of all its processes.
  WorkerState state;

  bool operator==(const WorkerRecord&) const = default;
};

struct ShardRecord {
  ShardAddress address;
  uint64_t incarnation = 0;
  std::vector<uint64_t> former;
  uint64_t folder = 0;   // the one that has its range; see RegisterShard
  bool restore = false;  // what its registration was answered
  // The newest that it was told, by any process of the coordinator.
  uint32_t told_epoch = 0;
  // As it reported them; a moment old. state.log_records is the most that was heard of its folder.
  uint32_t known_epoch = 0;
  ShardState state;
  std::string trouble;

  bool operator==(const ShardRecord&) const = default;
};

// A worker's work.
struct WorkTotals {
  uint64_t tokens = 0;
  ByteCounts bytes;
  double seconds_computing = 0;
  double seconds_syncing = 0;

  bool operator==(const WorkTotals&) const = default;
};
// Of a WorkerState or a RoundReport.
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
// Each figure by itself. A sum or difference beyond a figure's range ends at its bound.
WorkTotals Sum(const WorkTotals& a, const WorkTotals& b);
WorkTotals Rest(const WorkTotals& of, const WorkTotals& without);
WorkTotals Most(const WorkTotals& a, const WorkTotals& b);

// What the ledger keeps of a worker, apart from reports.
struct LedgerWorker {
  uint32_t next_round = 0;  // the rounds before were reported or skipped
  uint32_t taken_part = 0;  // the round after the last one that it reported to have had a part in
  // Of the incarnations before this one, less what this one began with: it counts on from its
  // folder. With what this one says it is all that the worker has done.
  WorkTotals former;
  WorkTotals newest;   // all, up to its last report
  WorkTotals counted;  // all, up to its last report in a finished round

  bool operator==(const LedgerWorker&) const = default;
};

// A round that all who were due have reported or skipped, and at least one has reported.
struct FinishedRound {
  RoundRecord record;
  // The majority's, by segment; only of the latest rounds, and not of one that one member alone
  // has reported while others took part.
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> undecided;  // segments without a majority, ascending

  bool operator==(const FinishedRound&) const = default;
};

// A report to a round that is not finished; its counts are summed over the worker's incarnations.
struct OpenReport {
  Member member;
  RoundReport report;

  bool operator==(const OpenReport&) const = default;
};

// Small, and rewritten with each change.
struct CoordinatorState {
  std::string settings;  // the run's; CoordinatorOptions has the same
  RunPhase phase = RunPhase::kWaiting;
  std::string reason;    // why the run is over
  std::string outdated;  // how it is known that this is not the run's newest record
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint64_t layout_hash = 0;
  uint64_t repairs = 0;
  double seconds = 0;                 // of training, up to now
  std::vector<WorkerRecord> workers;  // by index, ascending
  std::vector<ShardRecord> shards;    // likewise
  // The ledger's.
  uint32_t next_round = 0;                                        // the oldest that is not finished
  std::vector<std::pair<uint32_t, LedgerWorker>> ledger_workers;  // by index
  uint64_t segment_count = 0;                                     // 0: no model is known yet
  std::string inequality;
  double rate_seconds = 0;
  uint64_t rate_tokens = 0;

  bool operator==(const CoordinatorState&) const = default;
};

struct CoordinatorRecord {
  CoordinatorState state;
  std::optional<Manifest> manifest;
  std::vector<uint64_t> start_hashes;  // of the weights that the run begins with, by segment
  std::vector<FinishedRound> rounds;   // all, in order; sealing rounds last
  std::vector<OpenReport> reports;     // by round, then worker

  bool operator==(const CoordinatorRecord&) const = default;
};

// What has changed since a record was up to date.
struct CoordinatorChanges {
  CoordinatorState state;
  bool manifest_changed = false;
  std::optional<Manifest> manifest;    // with it
  std::vector<uint64_t> start_hashes;  // with it
  std::vector<FinishedRound> rounds;   // that follow those of the record
  std::vector<OpenReport> reports;     // new ones; those of rounds before state.next_round are over

  bool operator==(const CoordinatorChanges&) const = default;
};

// All of a record, as changes of an empty one.
CoordinatorChanges ChangesFromNothing(CoordinatorRecord record);

// Of the latest so many finished rounds the hashes are kept, to judge snapshots by.
inline constexpr uint32_t kRoundsWithHashes = 64;

// Forgets the hashes of all but the latest, after rounds from index `from` on were added.
void ForgetOldHashes(std::vector<FinishedRound>* rounds, size_t from);

// Makes the record up to date. What CoordinatorStore reads is what its writes amount to.
void Apply(const CoordinatorChanges& changes, CoordinatorRecord* record);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_COORDINATOR_RECORD_H_

#ifndef LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_
#define LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/wire/control.h"

namespace longwave {

// "worker 2 (worker-2)": how sentences name a worker.
std::string Describe(const Member& member);

// The rounds of a run: takes each worker's reports in, and once every member has reported a round
// makes one record of it, comparing the replicas' hashes. Rounds finish in order.
//
// Memory: a record of about 150 bytes for each finished round, and the reports (8 bytes a segment
// and worker) of those that are not; the members of a run are at most a few rounds apart.
class RoundLedger {
 public:
  explicit RoundLedger(uint64_t round_count) : round_count_(round_count) {}

  // Whether `reports` can be taken in; changes nothing. A report that is already here is fine (a
  // heartbeat whose answer was lost comes again). InvalidArgument: a round out of turn or out of
  // the run, a number of segments that is not that of the reports before.
  absl::Status Check(const Member& member, std::span<const RoundReport> reports) const;

  // Takes checked reports in; those already here change nothing.
  void Add(const Member& member, std::span<const RoundReport> reports);

  // Finishes every round that all of `members` (those whose first_round has come) have reported;
  // reports of workers that have left since still count. validator: the worker whose validation
  // loss is the record's. seconds: since training began. Rounds that finish in one call share one
  // rate of tokens, over the time since the call before that finished any.
  std::vector<RoundRecord> Finish(std::span<const Member> members, uint32_t validator,
                                  double seconds);

  const std::vector<RoundRecord>& records() const { return records_; }
  // True until a finished round's hashes differ.
  bool replicas_equal() const { return inequality_.empty(); }
  // The first difference: round, worker, segment, in a sentence.
  const std::string& inequality() const { return inequality_; }

 private:
  struct Entry {
    Member member;
    RoundReport report;
  };
  // What a worker has done up to its last report in a finished round; kept when it leaves.
  struct Totals {
    uint64_t tokens = 0;
    ByteCounts bytes;
    double seconds_computing = 0;
    double seconds_syncing = 0;
  };

  bool IsComplete(uint32_t round, std::span<const Member> members) const;
  RoundRecord MakeRecord(uint32_t round, const std::map<uint32_t, Entry>& entries,
                         uint32_t validator);
  // Sets replicas_equal and state_hash; names the first inequality of the run.
  void CompareHashes(const std::map<uint32_t, Entry>& entries, RoundRecord& record);

  uint64_t round_count_;
  std::map<uint32_t, uint32_t> next_round_;             // by worker
  std::map<uint32_t, std::map<uint32_t, Entry>> open_;  // by round, then worker
  std::map<uint32_t, Totals> totals_;                   // by worker
  std::optional<size_t> segment_count_;                 // of the first report that had hashes
  std::vector<RoundRecord> records_;
  std::string inequality_;
  double rate_seconds_ = 0;  // where the last rate of tokens ended
  uint64_t rate_tokens_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_ROUND_LEDGER_H_

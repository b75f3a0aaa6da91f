#ifndef LONGWAVE_TESTS_SIM_CHECKER_H_
#define LONGWAVE_TESTS_SIM_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/control/round_plan.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "server/store/log_record.h"
#include "tests/sim/merge_oracle.h"
#include "tests/sim/settings.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/journal.h"
#include "worker/sync/fragments.h"
#include "worker/sync/segment_ledger.h"

namespace longwave::sim {

// The sum of a worker's signals less the accepted contributions, which its residual must hold. With
// β = 0 the next signal replaces the unchosen part of an accepted contribution, but not a late one.
// Kept beside the worker, and with its checkpoint. A worker that returns without a checkpoint
// begins another line of contributions, with nothing.
struct Account {
  uint64_t line = 0;
  std::vector<double> owed;  // by coefficient, over all segments
  std::vector<bool> late;    // by segment: the last contribution was late
  // By segment, the rounds whose merge has a contribution of this worker that `owed` includes.
  std::vector<std::set<uint32_t>> counted;
};

// Observes all events of a world, and checks the rules at each step:
//
//   once         An accepted push is in exactly one merge, that of its round, whole and unchanged.
//                A push that its worker took back is in no merge. No merged push repeats the
//                content of an earlier one. A push that no worker encoded (Poisoned) is left out of
//                the merge even if it was accepted.
//   conserved    For each worker, signals = accepted contributions + residual. For each segment,
//                merges = updates sent + the shard's residual (MergeOracle).
//   told once    A merged update has the same bytes whenever and by whichever process it is sent.
//   equal        Every replica, at each round that it reaches, follows from the start and those
//                updates.
//   one interval All workers take the same inner steps in a round, those that the coordinator has
//                decided, and a decision stands. The run ends with its last inner step.
//   monotonic    Merges come in the order of their rounds, and a segment's open round never
//                decreases.
//
// Only a lost folder excuses violations, and only of its content: E of its segments, pushes of
// their open rounds, and merges that no living member has seen.
class Checker {
 public:
  Checker(const WorldSettings& world, const Layout* layout, float start);

  // Called when the run begins, with its first weights.
  void BeginWith(float start) { oracle_.BeginWith(start); }

  // The first violation; empty: none.
  const std::string& violation() const { return violation_; }
  void Violate(std::string what);

  // Workers.
  Account NewAccount();
  void Encoded(uint32_t worker, Account* account, uint32_t round, uint32_t segment,
               std::span<const float> signal, const Buffer& payload);
  void Settled(uint32_t worker, Account* account, uint32_t round, uint32_t segment, Fate fate);
  // A process goes on from the checkpoint that the account is of, with these pushes in flight, and
  // the journal since: the signals since are lost, as far as they were not sent.
  void Recovered(Account* account, uint32_t round, std::span<const UnsettledPush> in_flight,
                 std::span<const JournalRecord> records) const;
  // Called with no push in flight.
  void HoldsResidual(uint32_t worker, const Account& account, std::span<const float> residual);
  // elements: the segment's parameters with exactly the rounds before `round`.
  void HoldsReplica(uint32_t worker, uint32_t segment, uint32_t round,
                    std::span<const float> elements);

  // A worker has taken its last inner step before the signal.
  void Trained(uint32_t worker, const SyncPoint& point);

  // The coordinator has told of decided rounds. is_excused: it has had a record from an older time,
  // and these are all of its present one.
  void Decided(const Intervals& part, bool is_excused);
  // Rounds of the run; kRoundNever: not decided yet.
  uint64_t rounds() const { return plan_.round_count(); }

  // Shards.
  // An answer is sent. crc: of the push's payload, if it answers a push.
  void Answered(const AnswerFrame& header, uint32_t crc);
  // CRC of the worker's accepted payload; nothing: unknown.
  using AcceptedCrc = std::function<std::optional<uint32_t>(uint32_t worker)>;
  // A merged update is sent. contributors: from the log; null: there is no log.
  void Merged(const MergedFrame& header, const Buffer& payload,
              const std::vector<Contributor>* contributors, const AcceptedCrc& accepted_crc);
  void LostFolder(uint32_t first_segment, uint32_t segment_count);
  // The log of the segment has lost its end, and has this round open.
  void LostTail(uint32_t segment, uint32_t open_round);
  // The shard has restored the segment from a replica before the round.
  void Restored(uint32_t segment, uint32_t round);
  // A push that no worker encoded was sent in a worker's name. The shard may accept it in place of
  // the worker's own, but no merge may include it.
  void Poisoned(const PushFrame& header, const Buffer& payload);
  bool IsPoisoner(uint32_t worker) const { return poisoners_.contains(worker); }
  // All answers of a commit were sent. They were made one after the other, with the log read
  // afterwards, so an open round may decrease within a commit but not between commits.
  void Committed();

  const std::vector<float>& Theta(uint32_t segment, uint32_t round) const {
    return oracle_.Theta(segment, round);
  }
  uint32_t rounds_merged(uint32_t segment) const { return oracle_.rounds(segment); }

  uint64_t pushes_merged() const { return pushes_merged_; }
  uint64_t unknown_fates() const { return unknown_fates_; }
  // Pushes that were accepted, lost with a folder, and not pushed again before the round closed.
  uint64_t pushes_lost() const { return pushes_lost_; }

 private:
  struct Push {  // made by a line of a worker
    uint64_t line = 0;
    uint32_t crc = 0;
    Buffer payload;
    std::optional<Fate> fate;  // as the worker learned it
  };
  struct Round {                                   // of a segment
    std::map<uint32_t, std::vector<Push>> pushes;  // by worker
    std::map<uint32_t, uint32_t> accepted;         // CRC of the accepted payload by worker
    std::map<uint32_t, uint32_t> lost;  // as `accepted`, for pushes in a folder lost since
    std::map<uint32_t, std::vector<Push>> poisons;  // by worker
    bool merged = false;
    uint32_t merged_crc = 0;
    struct Counted {
      uint64_t line = 0;
      uint32_t crc = 0;
    };
    std::map<uint32_t, Counted> contributors;  // by worker; set by the merge
  };
  struct Segment {
    std::map<uint32_t, Round> rounds;
    uint32_t open_round = 0;         // the newest sent
    uint32_t open_round_before = 0;  // as of the last commit
    bool lost_folder = false;        // and no push or update since
    // The first round that was lost with the log's end, until it is merged again or restored.
    std::optional<uint32_t> lost_from;
    bool HasLost(uint32_t round) const { return lost_from.has_value() && round >= *lost_from; }
  };

  static std::vector<Contributor> Contributors(const Round& round,
                                               const std::vector<Contributor>* logged);
  const Push* PushOf(const Round& round, uint32_t worker, const AcceptedCrc& accepted_crc) const;
  void CheckFates(const Round& round, uint32_t number, uint32_t segment);
  void CheckFate(const Round& round, uint32_t worker, const Push& push, const std::string& which);
  void CountIfNothingIsOwed(Account* account, uint32_t segment) const;
  void CheckCountedOnce(Account* account, uint32_t round, uint32_t segment, uint32_t worker);
  static bool WasLost(const Round& round, uint32_t worker, const Push& push);
  void SettleLoss(uint32_t segment, uint32_t round);
  void ForgetAccepted(uint32_t segment, uint32_t first_round);
  void Rewind(uint32_t segment, uint32_t round, bool keeps_residual = false);
  static std::string Which(uint32_t worker, uint32_t round, uint32_t segment);

  const WorldSettings& world_;
  MergeOracle oracle_;
  RoundPlan plan_;
  bool plan_is_excused_ = false;
  std::map<std::pair<uint32_t, uint32_t>, SyncPoint> trained_;  // by round and fragment
  std::vector<Segment> segments_;
  std::set<uint32_t> poisoners_;
  uint64_t lines_ = 0;
  // By line and segment, Account::counted over all processes of the line.
  std::map<std::pair<uint64_t, uint32_t>, std::set<uint32_t>> counted_;
  uint64_t pushes_merged_ = 0;
  uint64_t unknown_fates_ = 0;
  uint64_t pushes_lost_ = 0;
  std::string violation_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_CHECKER_H_

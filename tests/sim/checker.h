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

#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "server/store/log_record.h"
#include "tests/sim/merge_oracle.h"
#include "tests/sim/settings.h"
#include "worker/sync/push_ledger.h"

namespace longwave::sim {

// What a worker owes the others: all that its signals were, less what was accepted of them. It must
// be what its residual holds. With β = 0 what was not chosen of an accepted contribution is
// forgiven with the next signal; what was late never is. Kept beside the worker, and with its
// checkpoint; who comes back without one begins another line of contributions, with nothing.
struct Account {
  uint64_t line = 0;
  std::vector<double> owed;  // by coefficient, over all segments
  std::vector<bool> late;    // by segment: its last contribution was
  // By segment, the rounds whose merge has a contribution of it that `owed` knows of.
  std::vector<std::set<uint32_t>> counted;
};

// Knows everything that happens in a world, and says at each step whether it may:
//
//   once         an accepted push is in exactly one merge, that of its round, whole and unchanged;
//                one that its worker took back is in none; and none is made of what an earlier one
//                has sent; what nobody encoded (Poisoned) is left out
//                of the merge for which it was accepted
//   conserved    signals = accepted contributions + residuals, worker by worker; and merges = what
//                was told + the shard's residual, segment by segment (MergeOracle)
//   told once    a merged update is the same bytes whenever and by whichever process it is told
//   equal        every replica is, at each round that it reaches, what those updates make of the
//                start
//   monotonic    merges come in the order of their rounds, and a segment's open round never goes
//                back
//
// Only a lost folder is excused, and only what was in it: E of its segments, pushes of their open
// rounds, and merges that no living member has seen.
class Checker {
 public:
  Checker(const WorldSettings& world, const Layout* layout, float start);

  // The run begins, with these weights.
  void BeginWith(float start) { oracle_.BeginWith(start); }

  // The first thing that is wrong; empty: nothing is.
  const std::string& violation() const { return violation_; }
  void Violate(std::string what);

  // Workers.
  Account NewAccount();
  void Encoded(uint32_t worker, Account* account, uint32_t round, uint32_t segment,
               std::span<const float> signal, const Buffer& payload);
  void Settled(uint32_t worker, Account* account, uint32_t round, uint32_t segment, Fate fate);
  // With nothing under way.
  void HoldsResidual(uint32_t worker, const Account& account, std::span<const float> residual);
  // The segment's parameters with all rounds before `round` and no more.
  void HoldsReplica(uint32_t worker, uint32_t segment, uint32_t round,
                    std::span<const float> elements);

  // Shards.
  // An answer that leaves; crc: of the push's payload, if it is to a push.
  void Answered(const FrameHeader& header, uint32_t crc);
  // CRC of the payload that was accepted of the worker; nothing: unknown.
  using AcceptedCrc = std::function<std::optional<uint32_t>(uint32_t worker)>;
  // A merged update that leaves. contributors: as the log has them; null: there is no log.
  void Merged(const FrameHeader& header, const Buffer& payload,
              const std::vector<Contributor>* contributors, const AcceptedCrc& accepted_crc);
  void LostFolder(uint32_t first_segment, uint32_t segment_count);
  // A push that nobody encoded came in the name of its worker, and may be accepted in the place of
  // the worker's own; no merge may have anything of it.
  void Poisoned(const FrameHeader& header, const Buffer& payload);
  bool IsPoisoner(uint32_t worker) const { return poisoners_.contains(worker); }
  // All answers of a commit have left. They were made one after the other, and looked up in the log
  // afterwards: only from commit to commit an open round must not go back.
  void Committed();

  const std::vector<float>& Theta(uint32_t segment, uint32_t round) const {
    return oracle_.Theta(segment, round);
  }
  uint32_t rounds_merged(uint32_t segment) const { return oracle_.rounds(segment); }

  uint64_t pushes_merged() const { return pushes_merged_; }
  uint64_t unknown_fates() const { return unknown_fates_; }
  // Accepted, held by a folder that was lost, and not pushed again before the round closed.
  uint64_t pushes_lost() const { return pushes_lost_; }

 private:
  struct Push {  // as a line of a worker's made it
    uint64_t line = 0;
    uint32_t crc = 0;
    Buffer payload;
    std::optional<Fate> fate;  // that the worker was told
  };
  struct Round {                                    // of a segment
    std::map<uint32_t, std::vector<Push>> pushes;   // by worker
    std::map<uint32_t, uint32_t> accepted;          // CRC of what was answered so, by worker
    std::map<uint32_t, uint32_t> lost;              // likewise, by a folder that was lost since
    std::map<uint32_t, std::vector<Push>> poisons;  // by worker
    bool merged = false;
    uint32_t merged_crc = 0;
    struct Counted {
      uint64_t line = 0;
      uint32_t crc = 0;
    };
    std::map<uint32_t, Counted> contributors;  // by worker; once merged
  };
  struct Segment {
    std::map<uint32_t, Round> rounds;
    uint32_t open_round = 0;         // the newest that was told
    uint32_t open_round_before = 0;  // before this commit
    bool lost_folder = false;        // and nothing was taken or told since
  };

  static std::vector<Contributor> Contributors(const Round& round,
                                               const std::vector<Contributor>* logged);
  const Push* PushOf(const Round& round, uint32_t worker, const AcceptedCrc& accepted_crc) const;
  void CheckFates(const Round& round, uint32_t number, uint32_t segment);
  void CheckFate(const Round& round, uint32_t worker, const Push& push, const std::string& which);
  void CheckCountedOnce(Account* account, uint32_t round, uint32_t segment, uint32_t worker);
  static bool WasLost(const Round& round, uint32_t worker, const Push& push);
  void SettleLoss(uint32_t segment, uint32_t round);
  void Rewind(uint32_t segment, uint32_t round);
  static std::string Which(uint32_t worker, uint32_t round, uint32_t segment);

  const WorldSettings& world_;
  MergeOracle oracle_;
  std::vector<Segment> segments_;
  std::set<uint32_t> poisoners_;
  uint64_t lines_ = 0;
  // By line and segment, what Account::counted has of whichever process goes on from it.
  std::map<std::pair<uint64_t, uint32_t>, std::set<uint32_t>> counted_;
  uint64_t pushes_merged_ = 0;
  uint64_t unknown_fates_ = 0;
  uint64_t pushes_lost_ = 0;
  std::string violation_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_CHECKER_H_

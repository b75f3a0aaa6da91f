#ifndef LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_
#define LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// Finds out from the members where a segment of a shard that has lost its folder stands. A pull
// names the round that its sender waits for: the sender has all rounds before it. A shard asks
// members that send no pull where they stand, since a member may be waiting for another segment.
// Once all members that take part have answered, the shard opens the largest round named, and
// requests the state before it from a member that named it. A round before at_least is never
// chosen: the run has finished later rounds, and the member that has them may be cut off for now.
// The shard waits without limit: a member ahead of the chosen round could neither push nor catch
// up. A dead member counts until the coordinator reports it lost. Pure.
class ReplicaRestore {
 public:
  // Patience for a requested member before the shard requests another, beside the time of sending.
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  // Time before the shard asks a member without a pull where it stands, and between repetitions.
  static constexpr absl::Duration kHearEvery = absl::Seconds(2);

  // turn: picks the first member to request from, so that segments spread over the members.
  // at_least: rounds that the run has finished.
  explicit ReplicaRestore(uint32_t turn = 0, uint32_t at_least = 0)
      : turn_(turn), at_least_(at_least) {}

  // A member has sent a pull of `round`.
  void Heard(uint32_t worker, uint32_t round);
  // The largest round that a member has named; 0: none yet.
  uint32_t newest_round() const;
  bool HasHeardAll(const std::vector<uint32_t>& workers) const;
  // Forgets the rounds of all other workers: they are unreachable, or must name their rounds again.
  void KeepOnly(const std::vector<uint32_t>& workers);

  struct Choice {
    uint32_t round = 0;   // to open
    uint32_t worker = 0;  // a member that has the state before it
  };
  // The members of `awaited` to ask now where they stand. Each call returns a question once.
  std::vector<uint32_t> Silent(const std::vector<uint32_t>& awaited, absl::Time now);
  // The member to request its state from now. Each call returns a request once. Another member of
  // the round follows after kPatience (or GiveUntil), or at once after Refuse. `awaited`: the
  // members that take part; while there are none (all were lost and are joining again), all
  // members.
  std::optional<Choice> TakeDue(const std::vector<uint32_t>& awaited, absl::Time now);
  // The last request; nullopt: none yet.
  const std::optional<Choice>& choice() const { return choice_; }
  // The worker has or had the request for this round: the earlier one may answer after the later.
  // Nothing confirms a restored snapshot, so no other member's counts.
  bool Expects(uint32_t worker, uint32_t round) const {
    return choice_.has_value() && choice_->round == round && requested_.contains({worker, round});
  }
  // GiveUntil replaces kPatience for the last request. GiveAtMostUntil only shortens the wait.
  void GiveUntil(absl::Time until) { due_ = until; }
  void GiveAtMostUntil(absl::Time until) { due_ = std::min(due_, until); }
  // The member's snapshot was useless.
  void Refuse() { due_ = absl::InfinitePast(); }

  absl::Time NextDue() const { return std::min(due_, hear_at_); }

 private:
  std::map<uint32_t, uint32_t> rounds_;  // by worker: the newest
  // The time of the next request.
  absl::Time due_ = absl::InfiniteFuture();
  absl::Time hear_at_ = absl::InfiniteFuture();  // the time of the next questions
  std::optional<Choice> choice_;
  std::set<std::pair<uint32_t, uint32_t>> requested_;  // all choices: worker, round
  uint32_t turn_;
  uint32_t at_least_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

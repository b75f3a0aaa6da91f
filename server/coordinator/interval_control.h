#ifndef LONGWAVE_SERVER_COORDINATOR_INTERVAL_CONTROL_H_
#define LONGWAVE_SERVER_COORDINATOR_INTERVAL_CONTROL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace longwave {

struct IntervalOptions {
  uint64_t steps = 1;  // inner steps of the run
  uint32_t least = 1;  // bounds of H, 1 ≤ least ≤ most
  uint32_t most = 1;
  double target_share = 0.03;  // of their time that syncs may keep members from computing
  double quorum = 0.5;         // share of the members that a round needs
};

// The seconds of one member between its last two reports.
struct RoundWork {
  uint32_t worker = 0;
  double seconds_computing = 0;
  double seconds_syncing = 0;  // in which a sync kept it from computing
};

// Chooses the interval H of the next rounds from the members' reports: the smallest H with which
// the members that make a quorum lose at most target_share of their time by syncs. Pure: equal
// reports give equal choices.
//
// The cost of a sync. With H steps of c seconds each, a round of duration T costs a member s = T −
// H·c seconds in which it does not compute. A part of it is the wait for a member that computes
// more slowly, which grows with H and that no H avoids. So a sync costs s − H·(c' − c), where c' is
// the slowest step of the members that were in time: whose steps alone took no longer than the
// quorum's rounds. The share that is lost with H steps is cost / (cost + H·c'). A member that is
// far slower than the others, in its steps or on its link, sets no pace: of the H that the members
// need, the smallest counts that satisfies a quorum of them.
//
// Steadiness. The choice is that of the median round of the last kWindow, needs kRoundsMin rounds,
// changes H at most twofold at a time and not in kRoundsBetween rounds after a change, and stays
// while the needed H is within a band around it. A smaller H needs a whole window of rounds.
//
// Members report their own seconds. One that reports wrong ones can move H within its bounds.
class IntervalControl {
 public:
  static constexpr size_t kWindow = 5;
  static constexpr size_t kRoundsMin = 3;
  static constexpr uint32_t kRoundsBetween = 2;

  explicit IntervalControl(const IntervalOptions& options) : options_(options) {}

  // H of the first rounds: the geometric mean of the bounds.
  uint32_t First() const;

  // A finished round of `inner_steps`. Rounds come in order. A member that has not reported the
  // round before does not count, since its seconds are those of several rounds.
  void Add(uint32_t round, uint32_t inner_steps, std::span<const RoundWork> work);

  // H of the next rounds, after `rounds` rounds of `present`.
  struct Choice {
    uint32_t inner_steps = 0;
    std::string reason;  // a sentence about a change; empty: H stays
  };
  Choice Next(uint32_t present, uint32_t rounds) const;

  // H is to change as soon as it may.
  bool Moves(uint32_t present) const {
    return Next(present, kRoundsBetween).inner_steps != present;
  }
  bool has_measured() const { return samples_.size() >= kRoundsMin; }

  // By the last rounds; nothing: no round has been added since the coordinator began.
  std::optional<double> SecondsOfRound(uint32_t inner_steps) const;
  std::optional<double> LostShare(uint32_t inner_steps) const;

 private:
  struct Sample {
    double needed = 0;        // inner steps
    double cost_seconds = 0;  // of a sync
    double step_seconds = 0;
  };
  // The median of the last rounds by `needed`; null: there are none.
  const Sample* Median() const;
  size_t QuorumIndex(size_t count) const;

  const IntervalOptions options_;
  std::deque<Sample> samples_;
  std::map<uint32_t, uint32_t> reported_;  // by worker: the last round
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_INTERVAL_CONTROL_H_

#ifndef LONGWAVE_SERVER_COORDINATOR_ROUND_SCHEDULE_H_
#define LONGWAVE_SERVER_COORDINATOR_ROUND_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/control/round_plan.h"
#include "server/coordinator/interval_control.h"

namespace longwave {

// The inner steps of rounds that the coordinator decides while the run trains (sync.inner_steps
// auto): the decided rounds, and the control that chooses the next. Rounds are decided a few ahead
// of the newest that members have begun: as many as take kLeadShare of the heartbeat timeout, at
// most kLeadRoundsMax, and kLeadRoundsMin while the interval is not right. A change takes effect
// that much later, by the clock of links that may have become slow, and members that no answer
// reaches wait after that time. Each member asks after each round, so that a few rounds suffice.
// Pure.
class RoundSchedule {
 public:
  static constexpr double kLeadShare = 1.0 / 3;
  static constexpr uint32_t kLeadRoundsMin = 2;
  static constexpr uint32_t kLeadRoundsMax = 16;
  // All changes are written with each decision, and told to a worker that joins.
  static constexpr uint64_t kChangesMax = 4096;

  RoundSchedule(const IntervalOptions& options, absl::Duration heartbeat_timeout)
      : control_(options), plan_(options.steps), heartbeat_timeout_(heartbeat_timeout) {}

  const RoundPlan& plan() const { return plan_; }
  // The decided rounds of a record; see RoundPlan::Extend.
  absl::Status Continue(const Intervals& decided) { return plan_.Extend(decided); }

  // A finished round; see IntervalControl::Add.
  void Add(uint32_t round, std::span<const RoundWork> work);
  // Decides more rounds if there are to be more. newest: the newest round that a member may have
  // begun. notice: a sentence about a change of the interval; else empty. True: there are more.
  bool Decide(uint32_t newest, std::string* notice);

  // Unavailable: the worker knows more rounds than are decided. Aborted: it knows other ones, which
  // more rounds are if they are obsolete. InvalidArgument: it reports a round that is not decided.
  absl::Status CheckKnown(const WorkerHeartbeat& heartbeat, bool is_obsolete) const;
  // A sentence if the shard has a round open that is not decided; else empty.
  std::string UndecidedOf(const ShardHeartbeat& heartbeat) const;
  // nullopt: no round is decided.
  std::optional<IntervalStatus> Status() const;

 private:
  uint32_t LeadRounds(uint32_t inner_steps) const;

  IntervalControl control_;
  RoundPlan plan_;
  absl::Duration heartbeat_timeout_;
  std::string reason_;  // of the last change
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_COORDINATOR_ROUND_SCHEDULE_H_

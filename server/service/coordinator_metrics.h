#ifndef LONGWAVE_SERVER_SERVICE_COORDINATOR_METRICS_H_
#define LONGWAVE_SERVER_SERVICE_COORDINATOR_METRICS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/log/refusals.h"
#include "common/metrics/metrics.h"

namespace longwave {

// A worker's speed, from the steps and times in its heartbeats, over windows of kWindow (the first
// of kFirstWindow) or more with at least one step.
class WorkerPace {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(5);
  static constexpr absl::Duration kFirstWindow = absl::Seconds(1);

  struct Figures {
    double step_seconds = 0;  // computing
    double tokens_per_second = 0;
    double compute_ratio = 0;
  };

  // Counts that fall belong to another process and begin a new window. A process that is starting
  // has not yet read its folder's counts.
  void Observe(const WorkerState& state, absl::Time now);
  // Of the last full window; nothing before the first one ends.
  const std::optional<Figures>& figures() const { return figures_; }

 private:
  absl::Time since_ = absl::InfinitePast();
  WorkerState at_since_;
  std::optional<Figures> figures_;
};

// The coordinator's metrics, from its core's status and its traffic. The caller holds the core's
// lock, or is the only thread.
class CoordinatorMetrics {
 public:
  // rounds: of the run; promises_equal_replicas: as PromisesEqualReplicas. `metrics` outlives this
  // object.
  CoordinatorMetrics(Metrics* metrics, uint64_t rounds, bool promises_equal_replicas);

  void SetRun(uint64_t run);  // for the label, if the run has no name

  // Takes in the state of a coordinator that continues, with all records or the next ones: to be
  // called until next_record() is record_count.
  void Know(const RunStatus& status);

  // Answered calls.
  void Registered(const RegisterWorker& request, uint32_t worker);
  void Registered(const RegisterShard& request);
  void Heard(const WorkerHeartbeat& heartbeat, absl::Time now);
  void Heard(const ShardHeartbeat& heartbeat);
  void Refused(const absl::Status& status);
  void Expelled(uint32_t worker);
  void Issued() { metrics_->counter("longwave_coordinator_certificates_issued_total").Add(); }

  void Saved(absl::Duration took, bool ok);
  void MetricsNotWritten() { metrics_->counter("longwave_coordinator_save_failures_total").Add(); }

  // Index of the first record that Observe has not seen.
  uint64_t next_record() const { return next_record_; }
  // Takes in the run's status: records from next_record() on, all members and shards. Called every
  // kInterval, so that departures are noticed.
  void Observe(const RunStatus& status);
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Observe, and all values of the page.
  void Refresh(const RunStatus& status, const Refusals& refusals);
  Metrics* page() { return metrics_; }

 private:
  void ObserveRecords(const RunStatus& status);
  void ObserveMembers(const RunStatus& status);
  void ShowRun(const RunStatus& status);
  void ShowMembers(const RunStatus& status);
  void ShowShards(const RunStatus& status);
  struct Known {
    bool is_member = false;  // false: departed
    // Incarnation of the worker's process. Nothing: the worker was known before this process, and
    // its next registration counts as another process.
    std::optional<uint64_t> incarnation;
    WorkerPace pace;
    // The process has had a loss that is not finite.
    bool training_diverged = false;
    bool validation_diverged = false;
  };
  // A worker ends at its first loss that is not finite, which therefore counts once.
  void CountLosses(const WorkerHeartbeat& heartbeat, Known& known);
  // The worker was a member until now. reason: the label.
  void Depart(uint32_t worker, std::string_view reason);

  Metrics* const metrics_;
  const bool promises_equal_replicas_;
  SpreadGauges heartbeat_ages_;
  SpreadGauges shard_heartbeat_ages_;
  SpreadGauges rounds_behind_;
  SpreadGauges step_seconds_;
  SpreadGauges tokens_per_second_;
  SpreadGauges compute_ratios_;
  SpreadGauges train_losses_;

  uint64_t next_record_ = 0;
  uint64_t known_records_ = 0;  // from before this process
  RoundRecord last_record_;     // the last one seen by Take
  uint64_t steps_done_ = 0;
  // Sums over the records of steps · members and members.
  uint64_t member_steps_ = 0;
  uint64_t member_rounds_ = 0;
  absl::flat_hash_map<uint32_t, Known> workers_;  // all ever
  // Shards' incarnations; none: the process registered with a coordinator before.
  std::map<uint32_t, std::optional<uint64_t>> shards_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_COORDINATOR_METRICS_H_

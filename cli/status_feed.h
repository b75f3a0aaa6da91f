#ifndef LONGWAVE_CLI_STATUS_FEED_H_
#define LONGWAVE_CLI_STATUS_FEED_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {

// The coordinator's status of the run, updated by polling; fetches each round's record once.
class StatusFeed {
 public:
  // The longest call to a coordinator on this machine, which also delays the reaction to Ctrl-C.
  static constexpr absl::Duration kCallTimeout = absl::Milliseconds(500);
  // The interval of a view's updates.
  static constexpr absl::Duration kInterval = absl::Milliseconds(250);
  // The time without an answer after which the coordinator counts as lost.
  static constexpr absl::Duration kSilenceMax = absl::Seconds(60);

  // credentials: an operator's folder; empty: the run is not secured.
  void Connect(const std::string& coordinator_address, const std::string& credentials = "",
               absl::Duration call_timeout = kCallTimeout);

  bool is_connected() const { return client_ != nullptr; }
  // Polls the coordinator. Without an answer the status stays, and false is returned.
  bool Refresh();
  // Requests the end of the run. False without an answer.
  bool StopRun(const std::string& reason);

  const RunStatus& status() const { return status_; }
  bool over() const { return IsOver(status_.phase); }
  // Whether the run is over and all its records are here.
  bool has_all() const { return over() && status_.records.size() >= status_.record_count; }
  // The time since the last answer.
  absl::Duration silence() const;

 private:
  std::unique_ptr<CoordinatorClient> client_;
  RunStatus status_;
  absl::Time last_answer_ = absl::InfiniteFuture();
};

// The run's configuration, from its coordinator.
absl::StatusOr<RunConfig> GetConfig(CoordinatorClient& coordinator);

// Updates `older` by `newer`, which has the records from older.records.size() on.
void MergeStatus(RunStatus newer, RunStatus* older);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_FEED_H_

#ifndef LONGWAVE_CLI_STATUS_FEED_H_
#define LONGWAVE_CLI_STATUS_FEED_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/rpc/coordinator_client.h"
#include "common/wire/control.h"

namespace longwave {

// What the coordinator knows of the run, kept up to date by asking; every round's record once.
class StatusFeed {
 public:
  // A call may take this long, and Ctrl-C waits for it.
  static constexpr absl::Duration kCallTimeout = absl::Milliseconds(500);

  // credentials: the folder of an operator's; empty: the run is not secured.
  void Connect(const std::string& coordinator_address, const std::string& credentials = "");

  // Asks. Without an answer the status stays as it is.
  void Refresh();
  // Asks the coordinator to end the run. False: nobody answered.
  bool StopRun(const std::string& reason);

  const RunStatus& status() const { return status_; }
  bool over() const;  // finished, failed or stopped
  // Since the last answer.
  absl::Duration silence() const;

 private:
  std::unique_ptr<CoordinatorClient> client_;
  RunStatus status_;
  absl::Time last_answer_ = absl::InfiniteFuture();
};

// `older` brought up to date by `newer`, which has the records from older.records.size() on.
void MergeStatus(RunStatus newer, RunStatus* older);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STATUS_FEED_H_

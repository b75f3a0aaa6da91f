#include "cli/status_feed.h"

#include <iterator>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {

void MergeStatus(RunStatus newer, RunStatus* older) {
  std::vector<RoundRecord> records = std::move(older->records);
  records.insert(records.end(), std::make_move_iterator(newer.records.begin()),
                 std::make_move_iterator(newer.records.end()));
  *older = std::move(newer);
  older->records = std::move(records);
}

void StatusFeed::Connect(const std::string& coordinator_address, const std::string& credentials,
                         absl::Duration call_timeout) {
  client_ = CoordinatorClient::Connect(coordinator_address, call_timeout, credentials);
  last_answer_ = MonotonicNow();
}

absl::StatusOr<RunConfig> GetConfig(CoordinatorClient& coordinator) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunDescription run, coordinator.GetRun());
  return ParseConfig(run.configuration, "the coordinator's configuration");
}

bool StatusFeed::Refresh() {
  if (client_ == nullptr) return false;
  absl::StatusOr<RunStatus> answer = client_->GetStatus(status_.records.size());
  if (!answer.ok()) return false;
  last_answer_ = MonotonicNow();
  MergeStatus(*std::move(answer), &status_);
  return true;
}

bool StatusFeed::StopRun(const std::string& reason) {
  return client_ != nullptr && client_->StopRun(reason).ok();
}

absl::Duration StatusFeed::silence() const { return MonotonicNow() - last_answer_; }

}  // namespace longwave

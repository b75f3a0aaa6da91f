#include "cli/status_feed.h"

#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace longwave {

void MergeStatus(RunStatus newer, RunStatus* older) {
  std::vector<RoundRecord> records = std::move(older->records);
  records.insert(records.end(), std::make_move_iterator(newer.records.begin()),
                 std::make_move_iterator(newer.records.end()));
  *older = std::move(newer);
  older->records = std::move(records);
}

void StatusFeed::Connect(const std::string& coordinator_address) {
  client_ = CoordinatorClient::Connect(coordinator_address, kCallTimeout);
  last_answer_ = absl::Now();
}

void StatusFeed::Refresh() {
  if (client_ == nullptr) return;
  absl::StatusOr<RunStatus> answer = client_->GetStatus(status_.records.size());
  if (!answer.ok()) return;
  last_answer_ = absl::Now();
  MergeStatus(*std::move(answer), &status_);
}

void StatusFeed::StopRun(const std::string& reason) {
  if (client_ == nullptr) return;
  const absl::Status stopped = client_->StopRun(reason);
  // The processes are told by signals in any case.
  (void)stopped;
}

bool StatusFeed::over() const {
  return status_.phase != RunPhase::kWaiting && status_.phase != RunPhase::kTraining;
}

absl::Duration StatusFeed::silence() const { return absl::Now() - last_answer_; }

}  // namespace longwave

#ifndef LONGWAVE_CLI_RESTART_BUDGET_H_
#define LONGWAVE_CLI_RESTART_BUDGET_H_

#include <cstddef>
#include <deque>

#include "absl/time/time.h"

namespace longwave {

// The limit of a process's restarts, kMax within kWindow, so that a process that cannot run ends
// the run.
class RestartBudget {
 public:
  static constexpr size_t kMax = 5;
  static constexpr absl::Duration kWindow = absl::Seconds(60);

  // Counts a restart; false if the limit is reached.
  bool Spend(absl::Time now) {
    while (!spent_.empty() && spent_.front() + kWindow <= now) spent_.pop_front();
    if (spent_.size() >= kMax) return false;
    spent_.push_back(now);
    return true;
  }

 private:
  std::deque<absl::Time> spent_;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_RESTART_BUDGET_H_

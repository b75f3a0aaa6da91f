#ifndef LONGWAVE_TESTS_SIM_SCHEDULER_H_
#define LONGWAVE_TESTS_SIM_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace longwave::sim {

// Simulated time and scheduled actions. Equal times run in the order of scheduling, so a run
// depends only on its seed.
class Scheduler {
 public:
  using Action = std::function<void()>;

  absl::Time now() const { return now_; }
  bool empty() const { return events_.empty(); }
  uint64_t executed() const { return executed_; }
  size_t waiting() const { return events_.size(); }
  absl::Time next() const { return events_.empty() ? absl::InfiniteFuture() : events_.front().at; }

  void At(absl::Time at, Action action) {
    events_.push_back({std::max(at, now_), order_++, std::move(action)});
    std::push_heap(events_.begin(), events_.end(), IsLater);
  }
  void After(absl::Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next event, which must exist.
  void Step() {
    std::pop_heap(events_.begin(), events_.end(), IsLater);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.at;
    ++executed_;
    event.action();
  }

 private:
  struct Event {
    absl::Time at;
    uint64_t order = 0;
    Action action;
  };
  static bool IsLater(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  // Not the epoch, so that an unset time of zero shows.
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  uint64_t order_ = 0;
  uint64_t executed_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_SCHEDULER_H_

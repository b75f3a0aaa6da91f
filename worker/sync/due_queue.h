#ifndef LONGWAVE_WORKER_SYNC_DUE_QUEUE_H_
#define LONGWAVE_WORKER_SYNC_DUE_QUEUE_H_

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// Due times of `count` things, one each. Equal times go in the order of the calls of Set.
class DueQueue {
 public:
  explicit DueQueue(size_t count) : tasks_(count) {
    for (uint32_t i = 0; i < count; ++i) tasks_[i].index = i;
  }

  // InfiniteFuture: never.
  void Set(uint32_t index, absl::Time at) {
    Task& task = tasks_[index];
    due_.erase(task);
    task.at = at;
    task.order = ++order_;
    if (at != absl::InfiniteFuture()) due_.insert(task);
  }

  absl::Time at(uint32_t index) const { return tasks_[index].at; }
  bool empty() const { return due_.empty(); }
  // The first entry. front() requires a queue that is not empty.
  uint32_t front() const { return due_.begin()->index; }
  absl::Time front_at() const { return due_.empty() ? absl::InfiniteFuture() : due_.begin()->at; }

 private:
  struct Task {
    absl::Time at = absl::InfiniteFuture();
    uint64_t order = 0;
    uint32_t index = 0;
    bool operator==(const Task&) const = default;
    std::weak_ordering operator<=>(const Task&) const = default;
  };

  std::vector<Task> tasks_;  // by index; those with a time are in due_ too
  std::set<Task> due_;
  uint64_t order_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_DUE_QUEUE_H_

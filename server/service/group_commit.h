#ifndef LONGWAVE_SERVER_SERVICE_GROUP_COMMIT_H_
#define LONGWAVE_SERVER_SERVICE_GROUP_COMMIT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/coordinator.h"
#include "server/store/coordinator_store.h"

namespace longwave {

// Makes a coordinator's decisions durable before they are sent. A write costs a sync of the disk,
// and thousands of workers report at once, so one write takes all decisions made during the write
// before it. A caller that finds no write in progress writes for all that wait. The core's lock is
// free meanwhile, for the next decisions.
class GroupCommit {
 public:
  // Called after each write, with the lock held: its duration and success.
  using OnWrite = std::function<void(absl::Duration took, bool ok)>;

  // `core` outlives this object; its present state is durable. store: null keeps nothing.
  GroupCommit(Coordinator* core, std::unique_ptr<CoordinatorStore> store, OnWrite on_write = {});

  // Called after a step of the core, with the core's lock held; releases the lock while it waits.
  // OK: the step's decisions, and all decisions before, are durable. Otherwise they may not be, and
  // the next commit writes them again.
  absl::Status Commit(std::unique_lock<std::mutex>& lock);

  // The caller of the following holds the lock.
  // Status of the last write.
  const absl::Status& status() const { return status_; }
  bool keeps() const { return store_ != nullptr; }
  // Finished rounds before this one are durable.
  uint32_t durable_rounds() const { return durable_rounds_; }

 private:
  void WriteWhatIsThere(std::unique_lock<std::mutex>& lock);

  Coordinator* const core_;
  const std::unique_ptr<CoordinatorStore> store_;
  const OnWrite on_write_;
  std::condition_variable written_;
  bool writing_ = false;
  uint64_t asked_ = 0;    // calls of Commit
  uint64_t covered_ = 0;  // calls of Commit that a later write has covered
  absl::Status status_;
  uint32_t durable_rounds_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_GROUP_COMMIT_H_

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

// Makes what a coordinator has decided durable before anybody hears of it, with one write for all
// that was decided while the one before was written: a write costs the sync of a disk, and
// thousands of workers report at once. Whoever comes while nothing is being written writes for all
// who have come; the lock of the core is free meanwhile, so that the next ones can be decided.
class GroupCommit {
 public:
  // Sees each write, with the lock held: how long it took, and whether it went well.
  using OnWrite = std::function<void(absl::Duration took, bool ok)>;

  // `core` outlives this; what it holds now is durable. store: null keeps nothing.
  GroupCommit(Coordinator* core, std::unique_ptr<CoordinatorStore> store, OnWrite on_write = {});

  // After a step of the core, with the lock that guards it held; lets it go while it waits. OK:
  // what the step has decided is durable, and all that it was decided upon. Otherwise it may not
  // be, and is written with the next commit.
  absl::Status Commit(std::unique_lock<std::mutex>& lock);

  // The following with the lock held.
  // The last write's, and whether it could be told.
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
  uint64_t covered_ = 0;  // those of them that a write has come after
  absl::Status status_;
  uint32_t durable_rounds_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_GROUP_COMMIT_H_

#include "server/service/group_commit.h"

#include <optional>
#include <utility>

#include "common/base/clock.h"

namespace longwave {
GroupCommit::GroupCommit(Coordinator* core, std::unique_ptr<CoordinatorStore> store,
                         OnWrite on_write)
    : core_(core),
      store_(std::move(store)),
      on_write_(std::move(on_write)),
      durable_rounds_(core->Export(MonotonicNow()).state.next_round) {}

absl::Status GroupCommit::Commit(std::unique_lock<std::mutex>& lock) {
  const uint64_t mine = ++asked_;
  while (covered_ < mine) {
    if (writing_) {
      written_.wait(lock);
    } else {
      WriteWhatIsThere(lock);
    }
  }
  return status_;
}

void GroupCommit::WriteWhatIsThere(std::unique_lock<std::mutex>& lock) {
  const uint64_t through = asked_;
  std::optional<CoordinatorWrite> write;
  if (store_ != nullptr) {
    write = store_->Take(*core_, MonotonicNow());
  } else if (std::optional<CoordinatorChanges> changes = core_->Unsaved(MonotonicNow())) {
    core_->Saved();
    write = {.is_whole = false, .changes = *std::move(changes)};
  }
  if (write) {  // decisions during this write belong to the next one
    writing_ = true;
    lock.unlock();
    const absl::Time began = MonotonicNow();
    absl::Status status = store_ == nullptr ? absl::OkStatus() : store_->Write(*write);
    const absl::Duration took = MonotonicNow() - began;
    lock.lock();
    writing_ = false;
    if (store_ != nullptr && on_write_) on_write_(took, status.ok());
    status_ = std::move(status);
    if (status_.ok()) durable_rounds_ = write->changes.state.next_round;
  }
  covered_ = through;
  written_.notify_all();
}

}  // namespace longwave

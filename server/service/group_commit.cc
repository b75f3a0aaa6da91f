#include "server/service/group_commit.h"

#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace longwave {
namespace {

// As if what `changes` has and what came later had been written in one.
void Append(CoordinatorChanges later, CoordinatorChanges* changes) {
  changes->state = std::move(later.state);
  if (later.manifest_changed) {
    changes->manifest_changed = true;
    changes->manifest = std::move(later.manifest);
  }
  for (FinishedRound& round : later.rounds) changes->rounds.push_back(std::move(round));
  for (OpenReport& report : later.reports) changes->reports.push_back(std::move(report));
  std::erase_if(changes->reports, [&](const OpenReport& open) {
    return open.report.round < changes->state.next_round;
  });
}

}  // namespace

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
  std::optional<CoordinatorChanges> changes = std::exchange(failed_, std::nullopt);
  if (std::optional<CoordinatorChanges> latest = core_->Unsaved(MonotonicNow())) {
    core_->Saved();  // these are in hand: what comes while they are written is for the next write
    if (changes) {
      Append(*std::move(latest), &*changes);
    } else {
      changes = std::move(latest);
    }
  }
  if (changes) {
    writing_ = true;
    lock.unlock();
    const absl::Time began = MonotonicNow();
    absl::Status status = store_ == nullptr ? absl::OkStatus() : store_->Write(*changes);
    const absl::Duration took = MonotonicNow() - began;
    lock.lock();
    writing_ = false;
    if (store_ != nullptr && on_write_) on_write_(took, status.ok());
    status_ = std::move(status);
    if (status_.ok()) {
      durable_rounds_ = changes->state.next_round;
    } else {
      failed_ = std::move(changes);
    }
  }
  covered_ = through;
  written_.notify_all();
}

}  // namespace longwave

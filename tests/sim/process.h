#ifndef LONGWAVE_TESTS_SIM_PROCESS_H_
#define LONGWAVE_TESTS_SIM_PROCESS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "tests/sim/scheduler.h"

namespace longwave::sim {

// A place where a process of the cluster runs, crashes and restarts. All of its events go through
// After or Deliver. A process that is down therefore does nothing, a frozen one (SIGSTOP) acts when
// it thaws, and timers of a dead process never fire.
class Process {
 public:
  Process(Scheduler* scheduler, uint32_t node) : scheduler_(scheduler), node_(node) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  uint32_t node() const { return node_; }
  bool up() const { return up_; }
  bool frozen() const { return scheduler_->now() < thaws_at_; }
  // Number of processes that have run here.
  uint64_t generation() const { return generation_; }

  // The process's clock. JumpClock moves it ahead, as may happen to the steady clock of a stopped
  // virtual machine (not of a merely suspended one, on Linux). Deadlines by the clock are then due
  // at the next check, but timers run for their full time.
  absl::Time now() const { return scheduler_->now() + clock_offset_; }

  void Start() {
    if (up_) return;
    up_ = true;
    ++generation_;
    OnStart();
  }
  // kill -9: memory is lost.
  void Crash() {
    if (!up_) return;
    up_ = false;
    ++generation_;
    thaws_at_ = absl::InfinitePast();
    wakes_at_ = absl::InfiniteFuture();
    OnCrash();
  }
  void Freeze(absl::Duration duration) {
    thaws_at_ = std::max(thaws_at_, scheduler_->now() + duration);
  }
  void JumpClock(absl::Duration ahead) { clock_offset_ += ahead; }

  // An event from outside, for the process that runs here at that time. A frozen process takes it
  // when it thaws. The event ends with that process, as its sockets' buffers do.
  void Deliver(const Scheduler::Action& action) {
    if (up_) Fire(generation_, action);
  }

 protected:
  // A timer of this process.
  void After(absl::Duration delay, Scheduler::Action action) {
    scheduler_->After(
        std::max(delay, absl::ZeroDuration()),
        [this, generation = generation_, action = std::move(action)] { Fire(generation, action); });
  }

  // Calls `action` at that time, unless a call that comes earlier is scheduled already.
  void WakeAt(absl::Time due, Scheduler::Action action) {
    if (due == absl::InfiniteFuture()) return;
    const absl::Time at = std::max(due, now());
    if (at >= wakes_at_ && wakes_at_ > now()) return;
    wakes_at_ = at;
    After(at - now(), [this, at, action = std::move(action)] {
      if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
      action();
    });
  }

  virtual void OnStart() = 0;
  virtual void OnCrash() = 0;

  Scheduler* const scheduler_;

 private:
  void Fire(uint64_t generation, const Scheduler::Action& action) {
    if (generation != generation_) return;
    if (frozen()) {
      scheduler_->At(thaws_at_, [this, generation, action] { Fire(generation, action); });
      return;
    }
    action();
  }

  const uint32_t node_;
  bool up_ = false;
  uint64_t generation_ = 0;
  absl::Time thaws_at_ = absl::InfinitePast();
  absl::Time wakes_at_ = absl::InfiniteFuture();  // the next call of WakeAt's action
  absl::Duration clock_offset_ = absl::ZeroDuration();
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_PROCESS_H_

#ifndef LONGWAVE_TESTS_SIM_PROCESS_H_
#define LONGWAVE_TESTS_SIM_PROCESS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "tests/sim/scheduler.h"

namespace longwave::sim {

// A place where a process of the cluster runs, crashes and comes back. Everything that happens in
// it goes through After or Deliver, so that a process that is down does nothing, one that is frozen
// (SIGSTOP) does it when it thaws, and timers of a process that has died never fire.
class Process {
 public:
  Process(Scheduler* scheduler, uint32_t node) : scheduler_(scheduler), node_(node) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  uint32_t node() const { return node_; }
  bool up() const { return up_; }
  bool frozen() const { return scheduler_->now() < thaws_at_; }
  // Counts the processes that have run here.
  uint64_t generation() const { return generation_; }

  // The clock that the process goes by. JumpClock moves it ahead, as a virtual machine that was
  // stopped may find its steady clock moved (one that is merely suspended does not, on Linux):
  // what is due by it is due at once when the process next looks, but timers that it has set run
  // for as long as they were to.
  absl::Time now() const { return scheduler_->now() + clock_offset_; }

  void Start() {
    if (up_) return;
    up_ = true;
    ++generation_;
    OnStart();
  }
  // kill -9: what was in memory is gone.
  void Crash() {
    if (!up_) return;
    up_ = false;
    ++generation_;
    thaws_at_ = absl::InfinitePast();
    OnCrash();
  }
  void Freeze(absl::Duration duration) {
    thaws_at_ = std::max(thaws_at_, scheduler_->now() + duration);
  }
  void JumpClock(absl::Duration ahead) { clock_offset_ += ahead; }

  // Something that comes from outside: to whoever runs here then.
  void Deliver(Scheduler::Action action) {
    if (!up_) return;
    if (frozen()) {
      scheduler_->At(thaws_at_, [this, action = std::move(action)] { Deliver(action); });
      return;
    }
    action();
  }

 protected:
  // A timer of this process.
  void After(absl::Duration delay, Scheduler::Action action) {
    scheduler_->After(
        std::max(delay, absl::ZeroDuration()),
        [this, generation = generation_, action = std::move(action)] { Fire(generation, action); });
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
  absl::Duration clock_offset_ = absl::ZeroDuration();
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_PROCESS_H_

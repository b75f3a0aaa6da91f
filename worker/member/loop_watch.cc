#include "worker/member/loop_watch.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/termination.h"

namespace longwave {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
// Without a look for so long the process was stopped, and the step with it.
constexpr absl::Duration kStopped = absl::Seconds(1);

}  // namespace

LoopWatch::LoopWatch(absl::Duration least, std::function<void(absl::Duration)> on_hang)
    : least_(least),
      on_hang_(std::move(on_hang)),
      looked_(MonotonicNow()),
      thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

void LoopWatch::Look() {
  const absl::Time now = MonotonicNow();
  if (now - looked_ > kStopped) began_ += now - looked_;
  looked_ = now;
}

void LoopWatch::StepBegins() {
  const std::lock_guard lock(mutex_);
  Look();
  began_ = looked_;
}

void LoopWatch::StepEnds() {
  const std::lock_guard lock(mutex_);
  Look();
  if (began_ == absl::InfiniteFuture()) return;
  longest_ = std::max(longest_.value_or(absl::ZeroDuration()), looked_ - began_);
  began_ = absl::InfiniteFuture();
}

void LoopWatch::Pause() {
  const std::lock_guard lock(mutex_);
  began_ = absl::InfiniteFuture();
}

void LoopWatch::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const absl::Duration limit =
        longest_.has_value() ? std::max(least_, kLongestSteps * *longest_) : kFirstStepMax;
    const absl::Duration left = began_ + limit - looked_;
    if (left <= absl::ZeroDuration()) {
      const absl::Duration took = looked_ - began_;
      lock.unlock();
      return on_hang_(took);
    }
    // A step that ends and another that begins in the meantime are noticed at the next look.
    lock.unlock();
    WaitFor(std::clamp(left, absl::Milliseconds(10), kLookEvery), stop);
    lock.lock();
    Look();
  }
}

}  // namespace longwave

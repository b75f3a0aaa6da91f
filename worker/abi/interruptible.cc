#include "worker/abi/interruptible.h"

#include <chrono>
#include <future>

#include "common/base/clock.h"

namespace longwave {
namespace {

constexpr std::chrono::milliseconds kPause(50);

}  // namespace

void Interruptible::Ask(bool at_once) {
  if (callbacks_.interrupted == nullptr || stop_->requested()) return;
  const absl::Time now = MonotonicNow();
  if (!at_once && now - asked_ < absl::FromChrono(kPause)) return;
  asked_ = now;
  if (callbacks_.interrupted(callbacks_.context) != 0) stop_->Request();
}

absl::Status Interruptible::Run(absl::FunctionRef<absl::Status()> work) {
  auto done = std::async(std::launch::async, [&] { return work(); });
  while (done.wait_for(kPause) != std::future_status::ready) Ask();
  return done.get();
}

}  // namespace longwave

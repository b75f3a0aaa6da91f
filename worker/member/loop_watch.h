#ifndef LONGWAVE_WORKER_MEMBER_LOOP_WATCH_H_
#define LONGWAVE_WORKER_MEMBER_LOOP_WATCH_H_

#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"

namespace longwave {

// Notices a training loop that does not come back from an inner step. In a node the loop of rank 0
// may wait for a rank that hangs, while the session's heartbeats go on. Thread-safe.
class LoopWatch {
 public:
  // Until the first step is done nothing is known of a step's length, which may include a
  // compilation.
  static constexpr absl::Duration kFirstStepMax = absl::Minutes(30);
  static constexpr int kLongestSteps = 10;

  // on_hang: called once, on a thread of the watch, when a step has taken longer than `least` and
  // kLongestSteps times the longest step before it, without the time for which this process was
  // stopped. The watch outlives its call.
  LoopWatch(absl::Duration least, std::function<void(absl::Duration)> on_hang);

  void StepBegins();
  void StepEnds();
  // The rest of the step under way has no limit, and says nothing of a step's length.
  void Pause();

 private:
  void Watch(const std::stop_token& stop);
  // Takes the time; with the lock held.
  void Look();

  const absl::Duration least_;
  const std::function<void(absl::Duration)> on_hang_;
  std::mutex mutex_;
  absl::Time began_ = absl::InfiniteFuture();  // of the step under way
  std::optional<absl::Duration> longest_;
  absl::Time looked_;
  std::jthread thread_;  // last, since it uses all members above
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MEMBER_LOOP_WATCH_H_

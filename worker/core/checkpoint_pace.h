#ifndef LONGWAVE_WORKER_CORE_CHECKPOINT_PACE_H_
#define LONGWAVE_WORKER_CORE_CHECKPOINT_PACE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace longwave {

// Decides when a worker copies its state for a checkpoint that is written in the background: not
// while one is being written, not sooner than a number of rounds after the copy before, and so
// rarely that copies take at most kCopyShare of the time. Pure: times are arguments.
class CheckpointPace {
 public:
  static constexpr double kCopyShare = 0.01;
  // After a failed write, whose cause may last.
  static constexpr absl::Duration kAfterFailure = absl::Seconds(10);

  // every: rounds between two copies; 0: none are due.
  explicit CheckpointPace(uint32_t every) : every_(every) {}

  // round: the worker's, under way or next; there is nothing to keep before its first sync.
  bool IsDue(uint32_t round, absl::Time now) const {
    if (every_ == 0 || is_written_ || now < not_before_) return false;
    return round >= (last_.has_value() ? *last_ + every_ : 1);
  }
  // A copy was asked for.
  void Begin(uint32_t round) {
    before_ = last_;
    last_ = round;
    is_written_ = true;
  }
  // The copy was not taken, and is due again.
  void Again() {
    last_ = before_;
    is_written_ = false;
  }
  // The copy was taken, and has held the loop for `took`.
  void Copied(absl::Duration took, absl::Time now) { not_before_ = now + took / kCopyShare; }
  // The copy's write has ended.
  void Ended(bool ok, absl::Time now) {
    is_written_ = false;
    if (!ok && not_before_ < now + kAfterFailure) not_before_ = now + kAfterFailure;
  }
  bool is_written() const { return is_written_; }

 private:
  const uint32_t every_;
  std::optional<uint32_t> before_, last_;  // rounds of copies
  bool is_written_ = false;
  absl::Time not_before_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CORE_CHECKPOINT_PACE_H_

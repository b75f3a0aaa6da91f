#ifndef LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_
#define LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longwave {

// Limits a sender's rate, frame by frame. Times are arguments, of any clock.
//
// The bucket holds at most burst_bytes and fills at the rate. A frame takes its bytes whole; the
// part beyond the bucket's content is a debt, and the next frame waits until the debt is paid. So
// in any span of time T at most rate·T + burst bytes and one last frame start. A sender with a full
// queue starts exactly its rate, since fractions of a nanosecond are carried over. A clock that
// jumps back only shifts the times; a clock that jumps ahead permits one burst at most.
class TokenBucket {
 public:
  // rate 0: no limit. The bucket is full at first.
  TokenBucket() = default;
  TokenBucket(uint64_t rate_bytes_per_s, uint64_t burst_bytes);

  uint64_t rate() const { return rate_; }

  // Charges `bytes` and returns their wait: zero, or the time until earlier bytes are paid for.
  // Consecutive calls give consecutive waits, as a queue.
  absl::Duration Charge(uint64_t bytes, absl::Time now);

  // The wait that Charge would return, with nothing charged.
  absl::Duration WaitAt(absl::Time now) const;

 private:
  uint64_t rate_ = 0;
  absl::Duration burst_;  // the time that it takes to fill
  // The time at which the bucket is full if nothing more is taken, plus fraction_ / rate_
  // nanoseconds.
  absl::Time full_at_ = absl::InfinitePast();
  uint64_t fraction_ = 0;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_

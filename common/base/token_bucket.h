#ifndef LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_
#define LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longwave {

// Holds a sender to a rate, frame by frame. No clock inside: times are arguments, of any clock.
//
// The bucket holds at most burst_bytes and fills at the rate. Bytes are taken whole: what is taken
// beyond the content is owed, and nothing may start before the debt is paid. So in any span of time
// T at most rate·T + burst bytes and one last frame start; and a sender that always has something
// to send starts exactly its rate, since time is kept to a fraction of a nanosecond that never gets
// lost. A clock that jumps back changes nothing but the times, one that jumps ahead brings a burst
// at most.
class TokenBucket {
 public:
  // rate 0: no limit. The bucket is full at first.
  TokenBucket() = default;
  TokenBucket(uint64_t rate_bytes_per_s, uint64_t burst_bytes);

  uint64_t rate() const { return rate_; }

  // Takes `bytes`, and returns for how long they must wait: zero, or until what was taken before is
  // paid for. Calls one after the other give waits one after the other: a queue.
  absl::Duration Take(uint64_t bytes, absl::Time now);

  // The wait that Take would return, with nothing taken.
  absl::Duration WaitAt(absl::Time now) const;

 private:
  uint64_t rate_ = 0;
  absl::Duration burst_;  // the time that it takes to fill
  // When it will be full if nothing more is taken, plus fraction_ / rate_ nanoseconds.
  absl::Time full_at_ = absl::InfinitePast();
  uint64_t fraction_ = 0;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_TOKEN_BUCKET_H_

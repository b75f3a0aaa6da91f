#ifndef LONGWAVE_SERVER_SHARD_GRACE_H_
#define LONGWAVE_SERVER_SHARD_GRACE_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// How long the rest of the members have, once a quorum has pushed: from what the last closes of the
// segment needed. With x the times from the quorum's push to the last one, of the last kHistory
// closes,
//
//   grace = median(x) + 4 · median(|x − median(x)|), between min and max; min while fewer than
//   kKnownMin closes are known.
//
// Both medians are the lower one of an even number. A single straggler moves neither. One that is
// always a little late moves both, since a push that comes after its round's close still tells what
// would have been needed (Extend): the grace grows until it is in time, or max.
class Grace {
 public:
  static constexpr size_t kHistory = 32;
  static constexpr size_t kKnownMin = 3;

  // 0 ≤ min ≤ max.
  Grace(absl::Duration min, absl::Duration max) : min_(min), max_(max), current_(min) {}

  // A close: from the quorum's push to its last one. Negative ones (a clock) count as zero.
  void Add(absl::Duration needed);
  // The newest close's, from a push that came after it. Never shortens it.
  void Extend(absl::Duration needed);

  absl::Duration current() const { return current_; }

 private:
  void Recompute();

  absl::Duration min_;
  absl::Duration max_;
  absl::Duration current_;
  std::vector<absl::Duration> needed_;  // at most kHistory, as a ring
  size_t newest_ = 0;                   // place in it
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_GRACE_H_

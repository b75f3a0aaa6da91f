#ifndef LONGWAVE_SERVER_SHARD_GRACE_H_
#define LONGWAVE_SERVER_SHARD_GRACE_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// The time that the remaining members have after the quorum's push, computed from the segment's
// last closes. With x the times from the quorum's push to the last push, over the last kHistory
// closes,
//
//   grace = median(x) + 4 · median(|x − median(x)|), between min and max; min while fewer than
//   kKnownMin closes are known.
//
// Both medians are the lower one of an even number. A single straggler moves neither. A member that
// is always a little late moves both, since a push after its round's close still shows the time
// that was needed (Extend). So the grace grows until the member is in time, or to max.
class Grace {
 public:
  static constexpr size_t kHistory = 32;
  static constexpr size_t kKnownMin = 3;

  // 0 ≤ min ≤ max.
  Grace(absl::Duration min, absl::Duration max) : min_(min), max_(max), current_(min) {}

  // A close's time from the quorum's push to its last push. A negative time (clock) counts as zero.
  void Add(absl::Duration needed);
  // Corrects the newest close's time by a push that came after it; never downwards.
  void Extend(absl::Duration needed);

  absl::Duration current() const { return current_; }

 private:
  void Recompute();

  absl::Duration min_;
  absl::Duration max_;
  absl::Duration current_;
  std::vector<absl::Duration> needed_;  // a ring of at most kHistory
  size_t newest_ = 0;                   // index of the newest in the ring
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_GRACE_H_

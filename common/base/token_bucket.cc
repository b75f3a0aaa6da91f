#include "common/base/token_bucket.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"

namespace longwave {
namespace {

constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;

absl::Duration NanosecondsAtMost(absl::uint128 count) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return absl::Nanoseconds(static_cast<int64_t>(std::min(count, absl::uint128(kMax))));
}

}  // namespace

TokenBucket::TokenBucket(uint64_t rate_bytes_per_s, uint64_t burst_bytes)
    : rate_(rate_bytes_per_s) {
  if (rate_ == 0) return;
  burst_ = NanosecondsAtMost(absl::uint128(burst_bytes) * kNanosecondsPerSecond / rate_);
}

absl::Duration TokenBucket::WaitAt(absl::Time now) const {
  if (rate_ == 0) return absl::ZeroDuration();
  // A clock that jumped back does not change the debt.
  const absl::Time full_at = full_at_ - std::max(last_ - now, absl::ZeroDuration());
  return std::max(full_at - burst_ - now, absl::ZeroDuration());
}

absl::Duration TokenBucket::Charge(uint64_t bytes, absl::Time now) {
  if (rate_ == 0) return absl::ZeroDuration();
  const absl::Duration wait = WaitAt(now);
  if (now < last_) full_at_ -= last_ - now;
  last_ = now;
  if (full_at_ < now) {
    full_at_ = now;
    fraction_ = 0;
  }
  const absl::uint128 cost = absl::uint128(bytes) * kNanosecondsPerSecond + fraction_;
  full_at_ += NanosecondsAtMost(cost / rate_);
  fraction_ = absl::Uint128Low64(cost % rate_);
  return wait;
}

}  // namespace longwave

#include "server/shard/grace.h"

#include <algorithm>

namespace longwave {
namespace {

constexpr int kDeviations = 4;

// The lower one of an even number of values; reorders `values`.
absl::Duration Median(std::vector<absl::Duration>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Grace::Add(absl::Duration needed) {
  needed = std::max(needed, absl::ZeroDuration());
  if (needed_.size() < kHistory) {
    newest_ = needed_.size();
    needed_.push_back(needed);
  } else {
    newest_ = (newest_ + 1) % kHistory;
    needed_[newest_] = needed;
  }
  Recompute();
}

void Grace::Extend(absl::Duration needed) {
  if (needed_.empty() || needed <= needed_[newest_]) return;
  needed_[newest_] = needed;
  Recompute();
}

void Grace::Recompute() {
  if (needed_.size() < kKnownMin) return;
  std::vector<absl::Duration> values = needed_;
  const absl::Duration median = Median(values);
  for (absl::Duration& value : values) value = absl::AbsDuration(value - median);
  current_ = std::clamp(median + kDeviations * Median(values), min_, max_);
}

}  // namespace longwave

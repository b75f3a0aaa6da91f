#include "tests/bench/shard/board.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace longwave {

LoadBoard::LoadBoard(uint32_t segments, uint32_t kept_rounds)
    : segments_(segments),
      kept_rounds_(kept_rounds),
      seen_(size_t{kRoundsAtOnce} * segments),
      kept_(size_t{kept_rounds} * segments) {}

void LoadBoard::Open(uint64_t rounds, absl::Time end) {
  const std::lock_guard lock(mutex_);
  first_round_ = begun_;
  end_ = rounds > 0 ? begun_ + rounds : kNoEnd;
  deadline_ = rounds > 0 ? absl::InfiniteFuture() : end;
}

bool LoadBoard::MayBegin(uint64_t round) {
  const std::lock_guard lock(mutex_);
  if (round < begun_) return true;
  // A stretch has a round at least.
  if (end_ == kNoEnd && round > first_round_ && MonotonicNow() >= deadline_) end_ = round;
  if (round >= end_) return false;
  begun_ = round + 1;
  return true;
}

bool LoadBoard::Agrees(uint32_t round, uint32_t segment, uint32_t crc,
                       std::span<const std::byte> payload) {
  std::atomic<uint64_t>& seen = seen_[size_t{round % kRoundsAtOnce} * segments_ + segment];
  const uint64_t got = ((uint64_t{round} + 1) << 32) | crc;
  uint64_t before = seen.load();
  while (before >> 32 < got >> 32) {
    if (!seen.compare_exchange_weak(before, got)) continue;
    if (round < kept_rounds_) {
      kept_[size_t{round} * segments_ + segment].assign(payload.begin(), payload.end());
    }
    return true;
  }
  return before == got;
}

const std::vector<std::byte>& LoadBoard::Kept(uint32_t round, uint32_t segment) const {
  return kept_[size_t{round} * segments_ + segment];
}

void LoadBoard::Fail(absl::Status status) {
  const std::lock_guard lock(mutex_);
  status_.Update(std::move(status));
  failed_ = true;
}

absl::Status LoadBoard::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace longwave

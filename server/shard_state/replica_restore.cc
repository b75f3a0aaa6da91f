#include "server/shard_state/replica_restore.h"

#include <algorithm>
#include <iterator>

namespace longwave {

void ReplicaRestore::Heard(uint32_t worker, uint32_t round) {
  const auto [known, is_new] = rounds_.emplace(worker, round);
  known->second = std::max(known->second, round);
}

uint32_t ReplicaRestore::newest_round() const {
  uint32_t newest = 0;
  for (const auto& [worker, named] : rounds_) newest = std::max(newest, named);
  return newest;
}

bool ReplicaRestore::HasHeardAll(const std::vector<uint32_t>& workers) const {
  return std::ranges::all_of(workers, [&](uint32_t worker) { return rounds_.contains(worker); });
}

void ReplicaRestore::KeepOnly(const std::vector<uint32_t>& workers) {
  std::erase_if(rounds_, [&](const auto& heard) {
    return std::ranges::find(workers, heard.first) == workers.end();
  });
  if (!choice_.has_value() || rounds_.contains(choice_->worker)) return;
  choice_.reset();
  due_ = absl::InfiniteFuture();
}

std::vector<uint32_t> ReplicaRestore::Silent(const std::vector<uint32_t>& awaited, absl::Time now) {
  std::vector<uint32_t> silent;
  std::ranges::copy_if(awaited, std::back_inserter(silent),
                       [&](uint32_t worker) { return !rounds_.contains(worker); });
  if (silent.empty()) {
    hear_at_ = absl::InfiniteFuture();
  } else if (hear_at_ == absl::InfiniteFuture()) {
    hear_at_ = now + kHearEvery;  // most members pull without a question
    silent.clear();
  } else if (now < hear_at_) {
    silent.clear();
  } else {
    hear_at_ = now + kHearEvery;
  }
  return silent;
}

std::optional<ReplicaRestore::Choice> ReplicaRestore::TakeDue(const std::vector<uint32_t>& awaited,
                                                              absl::Time now) {
  const bool all_heard = !rounds_.empty() && !awaited.empty() && HasHeardAll(awaited);
  const uint32_t round = newest_round();
  if (!all_heard || round < at_least_) {
    due_ = absl::InfiniteFuture();  // the next pull or membership continues
    choice_.reset();
    return std::nullopt;
  }
  // A larger round that was heard after the choice replaces it.
  const bool is_first = !choice_.has_value() || choice_->round < round;
  if (now < due_ && !is_first) return std::nullopt;

  std::vector<uint32_t> there;
  for (const auto& [worker, named] : rounds_) {
    if (named == round) there.push_back(worker);
  }
  choice_ = {round, there[turn_++ % there.size()]};
  requested_.emplace(choice_->worker, round);
  due_ = now + kPatience;
  return choice_;
}

}  // namespace longwave

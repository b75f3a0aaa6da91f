#include "server/shard_state/replica_restore.h"

#include <algorithm>

namespace longwave {

void ReplicaRestore::Heard(uint32_t worker, uint32_t round, absl::Time now) {
  if (rounds_.empty()) due_ = now + kPatience;
  const auto [known, is_new] = rounds_.emplace(worker, round);
  known->second = std::max(known->second, round);
}

std::optional<ReplicaRestore::Choice> ReplicaRestore::Due(const std::vector<uint32_t>& awaited,
                                                          absl::Time now) {
  if (rounds_.empty()) return std::nullopt;
  const auto heard =
      std::ranges::count_if(awaited, [&](uint32_t worker) { return rounds_.contains(worker); });
  if (heard == 0) {
    // Who has begun only now may know nothing of the rounds that the others are in.
    if (now >= due_) due_ = now + kPatience;
    return std::nullopt;
  }
  const bool all_heard = static_cast<size_t>(heard) == awaited.size();
  uint32_t round = 0;
  for (const auto& [worker, named] : rounds_) round = std::max(round, named);
  // A larger round that became known after the choice puts it aside.
  const bool is_first = !choice_.has_value() || choice_->round < round;
  if (now < due_ && !(is_first && all_heard)) return std::nullopt;

  std::vector<uint32_t> there;
  for (const auto& [worker, named] : rounds_) {
    if (named == round) there.push_back(worker);
  }
  choice_ = {round, there[turn_++ % there.size()]};
  due_ = now + kPatience;
  return choice_;
}

}  // namespace longwave

#include "server/shard_state/snapshot_asks.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longwave {

void SnapshotAsks::Want(uint32_t segment, uint64_t turn, absl::Time now) {
  Wanted& wanted = wanted_[segment];
  if (wanted.held.has_value()) return;
  wanted = {.turn = turn, .due = now, .held = std::nullopt};
}

std::vector<SnapshotAsks::Ask> SnapshotAsks::Due(
    const std::vector<uint32_t>& members, absl::FunctionRef<uint32_t(uint32_t segment)> open_round,
    absl::Time now) {
  std::vector<Ask> asks;
  for (auto& [segment, wanted] : wanted_) {
    if (wanted.due > now) continue;
    wanted.held.reset();
    wanted.due = now + answer_patience_;
    if (members.empty()) continue;
    asks.push_back({segment, open_round(segment), members[wanted.turn++ % members.size()]});
  }
  return asks;
}

absl::Time SnapshotAsks::NextDue() const {
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [segment, wanted] : wanted_) due = std::min(due, wanted.due);
  return due;
}

bool SnapshotAsks::IsOpen(uint32_t segment) const {
  const auto found = wanted_.find(segment);
  return found != wanted_.end() && !found->second.held.has_value();
}

void SnapshotAsks::Hold(Held held, absl::Time now) {
  LONGWAVE_CHECK(IsOpen(held.segment));
  Wanted& wanted = wanted_[held.segment];
  wanted.due = now + verdict_patience_;
  wanted.held = std::move(held);
}

void SnapshotAsks::Refuse(uint32_t segment, absl::Time now) {
  const auto found = wanted_.find(segment);
  if (found == wanted_.end()) return;
  found->second.held.reset();
  found->second.due = now;
}

std::optional<SnapshotAsks::Held> SnapshotAsks::Judge(const SnapshotVerdict& verdict,
                                                      absl::Time now) {
  const auto found = wanted_.find(verdict.segment);
  if (found == wanted_.end() || !found->second.held.has_value() ||
      found->second.held->round != verdict.round) {
    return std::nullopt;  // of one that is no longer held
  }
  if (!verdict.equal) {
    Refuse(verdict.segment, now);
    return std::nullopt;
  }
  std::optional<Held> confirmed = std::move(found->second.held);
  wanted_.erase(found);
  return confirmed;
}

std::vector<SnapshotHash> SnapshotAsks::Unconfirmed() const {
  std::vector<SnapshotHash> hashes;
  for (const auto& [segment, wanted] : wanted_) {
    if (wanted.held.has_value()) hashes.push_back({segment, wanted.held->round, wanted.held->hash});
  }
  return hashes;
}

}  // namespace longwave

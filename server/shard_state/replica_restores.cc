#include "server/shard_state/replica_restores.h"

#include <algorithm>

namespace longwave {

void ReplicaRestores::Begin(uint32_t segment) {
  restores_.emplace(segment, ReplicaRestore(segment, options_.rounds));
}

void ReplicaRestores::Clear() {
  restores_.clear();
  decides_at_ = absl::InfinitePast();
}

void ReplicaRestores::Heard(uint32_t segment, uint32_t worker, uint32_t round) {
  restores_.at(segment).Heard(worker, round);
}

void ReplicaRestores::MembersChanged(const std::vector<uint32_t>& before,
                                     const std::vector<uint32_t>& after, absl::Time now) {
  if (restores_.empty()) return;
  // A member that joins may be another process than before, so its round counts no longer.
  for (auto& [segment, restore] : restores_) restore.KeepOnly(after);
  const auto is_there = [&](uint32_t each) { return std::ranges::count(after, each) > 0; };
  if (!std::ranges::all_of(before, is_there)) decides_at_ = now + options_.join_patience;
}

ReplicaRestores::Steps ReplicaRestores::TakeDue(const Membership& members,
                                                const std::vector<uint32_t>& take_part,
                                                absl::Time now) {
  std::vector<uint32_t> awaited = take_part;
  if (awaited.empty()) {
    for (const Member& member : members.members) awaited.push_back(member.worker);
    // Members that join first may be far behind those still to join.
    if (decides_at_ == absl::InfinitePast() && !awaited.empty())
      decides_at_ = now + options_.join_patience;
  }
  const bool decides = decides_at_ <= now;
  Steps steps;
  for (auto& [segment, restore] : restores_) {
    for (const uint32_t worker : restore.Silent(awaited, now))
      steps.requests.push_back({segment, 0, worker});
    if (!decides) {
      restore.GiveUntil(decides_at_);
      continue;
    }
    const auto choice = restore.TakeDue(awaited, now);
    if (!choice.has_value()) continue;
    if (choice->round == 0 || !options_.needs_states) {
      steps.known.push_back({segment, choice->round, choice->worker});
    } else {
      steps.requests.push_back({segment, choice->round, choice->worker});
      restore.GiveUntil(now + Patience(segment, AwaitedBytes(choice->worker)));
    }
  }
  return steps;
}

uint64_t ReplicaRestores::AwaitedBytes(uint32_t worker) const {
  uint64_t bytes = 0;
  for (const auto& [segment, restore] : restores_) {
    if (restore.choice().has_value() && restore.choice()->worker == worker)
      bytes += BytesOf(segment);
  }
  return bytes;
}

// A member sends snapshots one by one, and a second member sends the same ones meanwhile.
absl::Duration ReplicaRestores::Patience(uint32_t segment, uint64_t awaited_bytes) const {
  // Each of the other shards may have requested a snapshot from it.
  const uint64_t others = layout_.options().shard_count - 1;
  return ReplicaRestore::kPatience + TimeOnSlowLink(others * BytesOf(segment) + awaited_bytes);
}

void ReplicaRestores::Hasten(uint32_t worker, absl::Time now) {
  const uint64_t awaited_bytes = AwaitedBytes(worker);
  for (auto& [segment, restore] : restores_) {
    if (restore.choice().has_value() && restore.choice()->worker == worker)
      restore.GiveAtMostUntil(now + Patience(segment, awaited_bytes));
  }
}

absl::Time ReplicaRestores::NextDue() const {
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [segment, restore] : restores_) due = std::min(due, restore.NextDue());
  return due;
}

}  // namespace longwave

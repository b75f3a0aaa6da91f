#include "server/shard_state/replica_restores.h"

#include <algorithm>

namespace longwave {

void ReplicaRestores::Begin(uint32_t segment) {
  restores_.emplace(segment, ReplicaRestore(segment, options_.rounds));
}

void ReplicaRestores::Check(uint32_t segment, uint32_t open_round) {
  restores_.emplace(segment, ReplicaRestore(segment));
  checks_.emplace(segment, open_round);
}

void ReplicaRestores::End(uint32_t segment) {
  restores_.erase(segment);
  checks_.erase(segment);
  if (checks_.empty()) checked_at_ = absl::InfinitePast();
}

void ReplicaRestores::Clear() {
  restores_.clear();
  checks_.clear();
  checked_at_ = absl::InfinitePast();
  decides_at_ = absl::InfinitePast();
}

bool ReplicaRestores::IsCheck(uint32_t segment, const ReplicaRestore& restore) const {
  const auto check = checks_.find(segment);
  return check != checks_.end() && restore.newest_round() <= check->second;
}

size_t ReplicaRestores::restoring_count() const {
  return static_cast<size_t>(std::ranges::count_if(
      restores_, [this](const auto& entry) { return !IsCheck(entry.first, entry.second); }));
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
  if (!checks_.empty() && checked_at_ == absl::InfinitePast())
    checked_at_ = now + 2 * options_.join_patience;
  // Also members of the log that join again.
  std::vector<uint32_t> checked = awaited;
  for (const Member& member : members.members) {
    if (std::ranges::count(logged_, member.worker) > 0 &&
        std::ranges::count(awaited, member.worker) == 0)
      checked.push_back(member.worker);
  }
  Steps steps;
  for (auto& [segment, restore] : restores_) {
    const bool is_check = IsCheck(segment, restore);
    if (is_check &&
        (checked_at_ <= now || (restore.HasHeardAll(logged_) && restore.HasHeardAll(checked)))) {
      steps.intact.push_back(segment);
      continue;
    }
    for (const uint32_t worker : restore.Silent(is_check ? checked : awaited, now))
      steps.requests.push_back({segment, 0, worker});
    if (is_check) {
      restore.GiveUntil(checked_at_);
      continue;
    }
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

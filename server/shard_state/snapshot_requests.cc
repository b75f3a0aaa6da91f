#include "server/shard_state/snapshot_requests.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longwave {
namespace {

// Waits of 1, 2, 4, … rounds.
uint32_t RoundsPutOff(uint32_t failures, uint32_t max) {
  return failures > 31 ? max : std::min(uint32_t{1} << (failures - 1), max);
}

}  // namespace

void SnapshotRequests::Want(uint32_t segment, uint32_t open_round, uint64_t turn,
                            absl::Duration patience) {
  look_again_ = true;
  const auto [found, is_new] = wanted_.try_emplace(segment);
  Wanted& wanted = found->second;
  wanted.from_round = is_new ? open_round : std::min(wanted.from_round, open_round);
  if (is_new) wanted.turn = turn;
  wanted.patience = patience;
  if (is_new) wanted.place = ++places_;
}

void SnapshotRequests::WaitAgain(Wanted& wanted) {
  wanted.asked.reset();
  wanted.held.reset();
  wanted.until = absl::InfiniteFuture();
  wanted.place = ++places_;
  look_again_ = true;
}

void SnapshotRequests::PutOff(Wanted& wanted, uint32_t open_round) {
  WaitAgain(wanted);
  wanted.expected_of.clear();
  ++wanted.failures;
  const uint64_t from = uint64_t{open_round} + RoundsPutOff(wanted.failures, put_off_max_);
  wanted.from_round = static_cast<uint32_t>(std::min<uint64_t>(from, kRoundNever));
}

void SnapshotRequests::RoundOpened(uint32_t segment, uint32_t round) {
  const auto found = wanted_.find(segment);
  if (found == wanted_.end() || !Waits(found->second)) return;
  look_again_ |= found->second.from_round <= round;
}

void SnapshotRequests::Expire(const std::vector<uint32_t>& members,
                              absl::FunctionRef<uint32_t(uint32_t segment)> open_round,
                              absl::Time now) {
  for (auto& [segment, wanted] : wanted_) {
    if (wanted.held.has_value()) {
      if (wanted.until <= now) PutOff(wanted, open_round(segment));
      continue;
    }
    if (!wanted.asked.has_value()) continue;
    const bool is_gone = std::ranges::find(members, wanted.asked->worker) == members.end();
    if (is_gone || wanted.until <= now) WaitAgain(wanted);
  }
}

SnapshotRequests::Wanted* SnapshotRequests::Next(
    absl::FunctionRef<uint32_t(uint32_t segment)> open_round, uint32_t* segment) {
  Wanted* next = nullptr;
  for (auto& [each, wanted] : wanted_) {
    if (!Waits(wanted) || (next != nullptr && next->place < wanted.place)) continue;
    if (wanted.from_round > open_round(each)) continue;
    next = &wanted;
    *segment = each;
  }
  return next;
}

std::vector<SnapshotRequests::Request> SnapshotRequests::TakeDue(
    const std::vector<uint32_t>& members, absl::FunctionRef<uint32_t(uint32_t segment)> open_round,
    absl::Time now) {
  Expire(members, open_round, now);
  look_again_ = false;
  std::vector<uint32_t> asked;  // workers
  for (const auto& [segment, wanted] : wanted_) {
    if (wanted.asked.has_value()) asked.push_back(wanted.asked->worker);
  }
  std::vector<Request> requests;
  uint32_t segment = 0;
  while (asked.size() < std::min<size_t>(kRequestsAtOnce, members.size())) {
    Wanted* const next = Next(open_round, &segment);
    if (next == nullptr) break;
    // There are fewer requests than members, so a member is free.
    uint32_t worker = 0;
    do {
      worker = members[next->turn++ % members.size()];
    } while (std::ranges::find(asked, worker) != asked.end());
    next->asked = {segment, of_start_ ? 0 : open_round(segment), worker};
    next->expected_of.insert(worker);
    next->until = now + next->patience;
    asked.push_back(worker);
    requests.push_back(*next->asked);
  }
  return requests;
}

absl::Time SnapshotRequests::NextDue() const {
  absl::Time due = look_again_ ? absl::InfinitePast() : absl::InfiniteFuture();
  for (const auto& [segment, wanted] : wanted_) due = std::min(due, wanted.until);
  return due;
}

bool SnapshotRequests::IsOpen(uint32_t segment, uint32_t worker) const {
  const auto found = wanted_.find(segment);
  return found != wanted_.end() && found->second.expected_of.contains(worker) &&
         !found->second.held.has_value();
}

void SnapshotRequests::Hold(Held held, absl::Time now) {
  Wanted& wanted = wanted_.at(held.segment);
  LONGWAVE_CHECK(!wanted.held.has_value());
  wanted.asked.reset();
  wanted.until = now + hash_check_patience_;
  wanted.held = std::move(held);
  look_again_ = true;
}

void SnapshotRequests::Refuse(const Request& what, uint32_t open_round) {
  const auto found = wanted_.find(what.segment);
  if (found == wanted_.end() || !found->second.asked.has_value()) return;
  const Request& asked = *found->second.asked;
  if (asked.worker != what.worker || what.round < asked.round) return;
  PutOff(found->second, open_round);
}

std::optional<SnapshotRequests::Held> SnapshotRequests::Judge(const HashCheck& check,
                                                              uint32_t open_round) {
  const auto found = wanted_.find(check.segment);
  if (found == wanted_.end() || !found->second.held.has_value() ||
      found->second.held->round != check.round) {
    return std::nullopt;  // the snapshot was dropped
  }
  if (!check.equal) {
    PutOff(found->second, open_round);
    return std::nullopt;
  }
  std::optional<Held> confirmed = std::move(found->second.held);
  wanted_.erase(found);
  return confirmed;
}

std::vector<SnapshotHash> SnapshotRequests::Unconfirmed() const {
  std::vector<SnapshotHash> hashes;
  for (const auto& [segment, wanted] : wanted_) {
    if (wanted.held.has_value()) hashes.push_back({segment, wanted.held->round, wanted.held->hash});
  }
  return hashes;
}

}  // namespace longwave

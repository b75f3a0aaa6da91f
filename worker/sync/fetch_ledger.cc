#include "worker/sync/fetch_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longwave {
namespace {

// round + count, at most kRoundNever.
uint32_t After(uint32_t round, uint32_t count) {
  return round < kRoundNever - count ? round + count : kRoundNever;
}

}  // namespace

FetchLedger::FetchLedger(LedgerOptions options, Connections* connections)
    : options_(std::move(options)),
      connections_(connections),
      entries_(options_.connections.size()),
      waiting_(options_.connection_count),
      active_(options_.connection_count),
      due_(options_.connections.size()) {}

absl::Status FetchLedger::Want(uint32_t segment, uint32_t from_round, uint32_t until_round,
                               absl::Time now) {
  if (segment >= entries_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got a fetch of segment ", segment, " of ", entries_.size()));
  }
  Entry& entry = entries_[segment];
  // Updates kept from earlier serve this fetch; the events of the fetch before do not.
  std::map<uint32_t, Buffer> kept = std::exchange(entry.kept, {});
  Stop(segment, now);
  kept.erase(kept.begin(), kept.lower_bound(from_round));
  entry.kept = std::move(kept);
  Begin(segment, from_round, until_round, now);
  return absl::OkStatus();
}

void FetchLedger::Begin(uint32_t segment, uint32_t from_round, uint32_t until_round,
                        absl::Time now) {
  Entry& entry = entries_[segment];
  entry = {.stage = Stage::kWaiting,
           .next = from_round,
           .until = until_round,
           .kept = std::move(entry.kept),
           .merged_bytes = entry.merged_bytes};
  const uint32_t connection = options_.connections[segment];
  waiting_[connection].push_back(segment);
  ActivateNext(connection, now);
}

void FetchLedger::ActivateNext(uint32_t connection, absl::Time now) {
  std::deque<uint32_t>& waiting = waiting_[connection];
  while (!waiting.empty() && active_[connection].size() < kSegmentsAtOnce) {
    const uint32_t segment = waiting.front();
    waiting.pop_front();
    active_[connection].push_back(segment);
    connections_->Expect(connection, now);
    Ask(segment, now);
    Deliver(segment, now);
  }
}

void FetchLedger::Leave(uint32_t segment, Stage stage, absl::Time now) {
  const uint32_t connection = options_.connections[segment];
  entries_[segment].stage = stage;
  due_.Set(segment, absl::InfiniteFuture());
  std::erase(active_[connection], segment);
  connections_->Relieve(connection);
  ActivateNext(connection, now);
}

void FetchLedger::Stop(uint32_t segment, absl::Time now) {
  Entry& entry = entries_[segment];
  if (entry.stage == Stage::kWaiting) std::erase(waiting_[options_.connections[segment]], segment);
  const bool active = IsActive(entry);
  entry.kept.clear();
  entry.stage = Stage::kIdle;
  entry.next = 0;
  // Events of this fetch would mislead the segment's next fetch.
  std::erase_if(ready_, [segment](const FetchEvent& event) {
    return std::visit([](const auto& each) { return each.segment; }, event) == segment;
  });
  if (active) Leave(segment, Stage::kIdle, now);
}

void FetchLedger::Ask(uint32_t segment, absl::Time at) {
  Entry& entry = entries_[segment];
  entry.stage = Stage::kAsking;
  entry.fetch_sent = false;
  due_.Set(segment, at);
}

std::optional<uint32_t> FetchLedger::NextPull(const Entry& entry) const {
  // A shard sends the open round's update when the round closes. The ledger pulls it where it is
  // wanted, since the round may have closed already.
  const uint32_t known = entry.until == kRoundNever ? entry.open : After(entry.open, 1);
  const uint32_t end = std::min({known, entry.until, After(entry.next, kWindow)});
  uint32_t round = std::max(entry.asked, entry.next);
  while (round < end && entry.kept.contains(round)) ++round;
  if (round >= end) return std::nullopt;
  return round;
}

std::optional<OutgoingFrame> FetchLedger::FrameFor(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  OutgoingFrame frame{.connection = options_.connections[segment]};
  if (entry.stage == Stage::kPulling) {
    const std::optional<uint32_t> round = NextPull(entry);
    if (!round.has_value()) return std::nullopt;
    frame.header = PullFrame{
        .run = options_.run, .round = *round, .worker = options_.worker, .segment = segment};
  } else if (entry.fetch_sent) {
    return std::nullopt;
  } else {
    frame.header = FetchFrame{
        .run = options_.run, .round = entry.next, .worker = options_.worker, .segment = segment};
  }
  return frame;
}

uint64_t FetchLedger::OutstandingBytes(uint32_t connection) const {
  uint64_t bytes = 0;
  for (const uint32_t segment : active_[connection]) {
    const Entry& entry = entries_[segment];
    if (entry.stage == Stage::kPulling) {
      bytes += (std::max(entry.asked, entry.next) - entry.next) * entry.merged_bytes;
    } else if (!options_.snapshot_bytes.empty()) {
      bytes += options_.snapshot_bytes[segment];
    }
  }
  return bytes;
}

void FetchLedger::AskAgain(uint32_t segment, absl::Time at) {
  Entry& entry = entries_[segment];
  entry.fetch_sent = false;
  entry.asked = entry.next;
  // Without a round to pull, the shard's open round is unknown.
  if (!FrameFor(segment).has_value()) entry.stage = Stage::kAsking;
  due_.Set(segment, at);
}

std::optional<OutgoingFrame> FetchLedger::Due(absl::Time now) {
  while (DueAt() <= now) {
    const uint32_t segment = due_.front();
    const absl::Time ready_at = connections_->ready_at(options_.connections[segment]);
    if (ready_at > now) {
      due_.Set(segment, ready_at);
    } else if (std::optional<OutgoingFrame> frame = FrameFor(segment); frame.has_value()) {
      return frame;
    } else {  // the delayed frames have come unasked
      due_.Set(segment, absl::InfiniteFuture());
    }
  }
  return std::nullopt;
}

void FetchLedger::Sent(const OutgoingFrame& frame, absl::Time now) {
  const uint32_t segment = frame.header.segment();
  Entry& entry = entries_[segment];
  if (frame.header.kind() == FrameKind::kFetch) {
    entry.fetch_sent = true;
  } else {
    entry.asked = std::max(entry.asked, After(frame.header.round(), 1));
  }
  ScheduleNext(segment, now);
}

void FetchLedger::ScheduleNext(uint32_t segment, absl::Time now) {
  due_.Set(segment, FrameFor(segment).has_value() ? now : absl::InfiniteFuture());
}

absl::Time FetchLedger::DueAt() const {
  return ready_.size() < kReadyMax ? due_.front_at() : absl::InfiniteFuture();
}

void FetchLedger::Again(uint32_t connection, absl::Time now) {
  // A restored shard may make other updates of the same rounds than those kept.
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] == connection) entries_[segment].kept.clear();
  }
  Resume(connection, now);
  // A shard that has lost its folder waits for its members' rounds in each of its segments.
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    const Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection || entry.stage != Stage::kFollowing) continue;
    Begin(segment, entry.next, kRoundNever, now);
  }
}

void FetchLedger::Resume(uint32_t connection, absl::Time now) {
  for (const uint32_t segment : active_[connection]) AskAgain(segment, now);
}

std::optional<FetchEvent> FetchLedger::TakeReady() {
  if (ready_.empty()) return std::nullopt;
  FetchEvent event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

void FetchLedger::Deliver(uint32_t segment, absl::Time now) {
  Entry& entry = entries_[segment];
  if (entry.next == kRoundNever) return;  // a snapshot comes first
  entry.kept.erase(entry.kept.begin(), entry.kept.lower_bound(entry.next));
  while (!entry.kept.empty() && entry.kept.begin()->first == entry.next &&
         entry.next < entry.until) {
    ready_.push_back(Fetched{.segment = segment,
                             .round = entry.next,
                             .is_snapshot = false,
                             .payload = std::move(entry.kept.begin()->second)});
    entry.kept.erase(entry.kept.begin());
    ++entry.next;
  }
  const bool present = entry.stage == Stage::kPulling && entry.next >= entry.open;
  const bool ends = entry.until == kRoundNever ? present : entry.next >= entry.until;
  if (!ends) return;
  ready_.push_back(UpToDate{.segment = segment, .open_round = entry.next});
  if (entry.until != kRoundNever) entry.kept.clear();
  Leave(segment, entry.until == kRoundNever ? Stage::kFollowing : Stage::kIdle, now);
}

void FetchLedger::Progressed(uint32_t segment, absl::Time now) {
  Deliver(segment, now);
  if (IsActive(entries_[segment])) ScheduleNext(segment, now);
}

bool FetchLedger::Take(const AnswerFrame& answer, const Buffer& payload, absl::Time now) {
  const uint32_t segment = answer.segment;
  Entry& entry = entries_[segment];
  const bool of_fetch = answer.to == FrameKind::kFetch && entry.stage == Stage::kAsking &&
                        entry.fetch_sent && answer.round == entry.next;
  const bool of_pull = answer.to == FrameKind::kPull && entry.stage == Stage::kPulling &&
                       answer.round >= entry.next && answer.round < entry.asked;
  if (!of_fetch && !of_pull) return false;
  switch (answer.outcome) {
    case Outcome::kAccepted:
      if (!of_fetch) return true;
      entry.stage = Stage::kPulling;
      entry.asked = entry.next;
      entry.open = std::min(answer.open_round, kRoundNever - 1);
      if (!entry.kept.empty()) {
        entry.open = std::max(entry.open, After(entry.kept.rbegin()->first, 1));
      }
      Progressed(segment, now);
      return true;
    case Outcome::kCompacted:
      // Only pulls get this answer. A pull before the current fetch has no meaning for it.
      if (!of_pull) return true;
      // The first fetch follows at once. A backoff keeps a contradictory shard from a busy loop.
      Ask(segment,
          entry.refusals == 0 ? now : now + BusyBackoff(options_, segment, entry.refusals));
      ++entry.refusals;
      return true;
    case Outcome::kBusy:
    case Outcome::kNotMember:
      AskAgain(segment, now + BusyBackoff(options_, segment, entry.refusals++));
      return true;
    case Outcome::kRejected: {
      const auto reason = payload.bytes();
      return Refuse(segment,
                    std::string(reinterpret_cast<const char*>(reason.data()), reason.size()), now);
    }
    default:
      return true;
  }
}

bool FetchLedger::Refuse(uint32_t segment, std::string reason, absl::Time now) {
  Entry& entry = entries_[segment];
  ready_.push_back(
      FetchRefused{.segment = segment, .round = entry.next, .reason = std::move(reason)});
  entry.kept.clear();
  Leave(segment, Stage::kIdle, now);
  return true;
}

bool FetchLedger::Take(const MergedFrame& merged, const Buffer& payload, absl::Time now) {
  const uint32_t segment = merged.segment;
  Entry& entry = entries_[segment];
  // Later updates belong to the segment's next contribution.
  if (entry.stage == Stage::kIdle || merged.round >= entry.until) return false;
  entry.merged_bytes = payload.size();
  if (merged.round < entry.next) return true;  // a repetition
  entry.kept.try_emplace(merged.round, payload);
  if (entry.kept.size() > kAheadMax) entry.kept.erase(std::prev(entry.kept.end()));
  if (entry.stage != Stage::kPulling) return true;
  const uint32_t open = After(merged.round, 1);
  const bool wanted = merged.round < std::max(entry.asked, After(entry.next, 1));
  entry.open = std::max(entry.open, open);
  if (!wanted) return true;
  entry.refusals = 0;
  Progressed(segment, now);
  return true;
}

void FetchLedger::Take(const SnapshotFrame& snapshot, const Buffer& payload, absl::Time now) {
  const uint32_t segment = snapshot.segment;
  Entry& entry = entries_[segment];
  // The snapshot may be a second one of a repeated fetch, or one of an abandoned fetch.
  if (entry.stage != Stage::kAsking || !entry.fetch_sent) return;
  if (entry.next != kRoundNever && snapshot.round <= entry.next) return;
  ready_.push_back(Fetched{
      .segment = segment, .round = snapshot.round, .is_snapshot = true, .payload = payload});
  entry.next = snapshot.round;
  entry.refusals = 0;
  // The shard chooses the way from the snapshot on.
  Ask(segment, now);
  Deliver(segment, now);
}

}  // namespace longwave

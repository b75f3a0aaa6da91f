#include "worker/sync/fetch_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace longwave {
namespace {

// A sum of rounds that cannot overflow.
uint32_t After(uint32_t round, uint32_t count) {
  return round < kRoundNever - count ? round + count : kRoundNever;
}

// A shard drops fetches without a word while its disk is in trouble and while it restores their
// segment (DurableShard::OnFetch), so the pauses in which a worker waits to be heard stay short.
// Kept out of it: the time that what is outstanding takes on a slow link.
constexpr absl::Duration kRepeatMax = absl::Seconds(10);

absl::Duration FetchSilence(const LedgerOptions& options, int repetitions, uint64_t bytes) {
  const absl::Duration on_the_way = Silence(options, 0, bytes) - options.retry_after;
  return on_the_way +
         std::min(Silence(options, repetitions, 0), std::max(options.retry_after, kRepeatMax));
}

// An open round as an answer's weight has it.
uint32_t OpenRound(uint64_t weight) {
  return static_cast<uint32_t>(std::min<uint64_t>(weight, kRoundNever - 1));
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
  // What was told ahead is of use to this fetch; what the one before has brought is not.
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
  // Whoever fetches the segment next is told what that fetch brings, and nothing of this one.
  std::erase_if(ready_, [segment](const FetchEvent& event) {
    return std::visit([](const auto& each) { return each.segment; }, event) == segment;
  });
  if (active) Leave(segment, Stage::kIdle, now);
}

void FetchLedger::Ask(uint32_t segment, absl::Time at) {
  Entry& entry = entries_[segment];
  entry.stage = Stage::kAsking;
  entry.fetch_sent = false;
  entry.repetitions = 0;
  due_.Set(segment, at);
}

std::optional<uint32_t> FetchLedger::NextPull(const Entry& entry) const {
  // The update of the open round comes by itself when it closes; it is asked for where it is
  // wanted, in case it has closed since.
  const uint32_t known = entry.until == kRoundNever ? entry.open : After(entry.open, 1);
  const uint32_t end = std::min({known, entry.until, After(entry.next, kWindow)});
  uint32_t round = std::max(entry.asked, entry.next);
  while (round < end && entry.kept.contains(round)) ++round;
  if (round >= end) return std::nullopt;
  return round;
}

std::optional<OutgoingFrame> FetchLedger::FrameFor(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  FrameHeader header{.kind = FrameKind::kFetch,
                     .run = options_.run,
                     .round = entry.next,
                     .worker = options_.worker,
                     .segment = segment};
  if (entry.stage == Stage::kPulling) {
    const std::optional<uint32_t> round = NextPull(entry);
    if (!round.has_value()) return std::nullopt;
    header.kind = FrameKind::kPull;
    header.round = *round;
  } else if (entry.fetch_sent) {
    return std::nullopt;
  }
  return OutgoingFrame{
      .connection = options_.connections[segment], .header = header, .payload = Buffer()};
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
  // Where nothing could be asked for, it is how far the shard has got that is not known.
  if (!FrameFor(segment).has_value()) entry.stage = Stage::kAsking;
  due_.Set(segment, at);
}

std::optional<OutgoingFrame> FetchLedger::Due(absl::Time now) {
  while (DueAt() <= now) {
    const uint32_t segment = due_.front();
    const uint32_t connection = options_.connections[segment];
    Entry& entry = entries_[segment];
    if (const absl::Time then = connections_->held_until(connection); then > now) {
      due_.Set(segment, then);
      continue;
    }
    std::optional<OutgoingFrame> frame = FrameFor(segment);
    if (frame.has_value()) return frame;
    // All was asked for, and a silence has passed.
    if (connections_->heard(connection) >= entry.sent_at) {
      ++entry.repetitions;
      AskAgain(segment, now);
    } else {
      due_.Set(segment, absl::InfiniteFuture());
      entry.parked = true;
    }
  }
  return std::nullopt;
}

void FetchLedger::Sent(const OutgoingFrame& frame, absl::Time now) {
  const uint32_t segment = frame.header.segment;
  Entry& entry = entries_[segment];
  entry.sent_at = now;
  if (frame.header.kind == FrameKind::kFetch) {
    entry.fetch_sent = true;
  } else {
    entry.asked = std::max(entry.asked, After(frame.header.round, 1));
  }
  ScheduleNext(segment, now);
}

void FetchLedger::ScheduleNext(uint32_t segment, absl::Time now) {
  Entry& entry = entries_[segment];
  entry.parked = false;
  if (FrameFor(segment).has_value()) return due_.Set(segment, now);
  const uint64_t bytes = OutstandingBytes(options_.connections[segment]);
  due_.Set(segment, now + FetchSilence(options_, entry.repetitions, bytes));
}

absl::Time FetchLedger::DueAt() const {
  return ready_.size() < kReadyMax ? due_.front_at() : absl::InfiniteFuture();
}

void FetchLedger::Heard(uint32_t connection, absl::Time now) {
  for (const uint32_t segment : active_[connection]) {
    if (std::exchange(entries_[segment].parked, false)) due_.Set(segment, now);
  }
}

void FetchLedger::Again(uint32_t connection, absl::Time now) {
  // What it has told ahead it may tell otherwise now: its range can have been restored as it was
  // before that.
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] == connection) entries_[segment].kept.clear();
  }
  for (const uint32_t segment : active_[connection]) entries_[segment].repetitions = 0;
  Resume(connection, now);
  // A shard that has lost its folder waits to hear of each of its segments how far its members are.
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    const Entry& entry = entries_[segment];
    if (options_.connections[segment] != connection || entry.stage != Stage::kFollowing) continue;
    Begin(segment, entry.next, kRoundNever, now);
  }
}

void FetchLedger::Resume(uint32_t connection, absl::Time now) {
  for (const uint32_t segment : active_[connection]) {
    entries_[segment].parked = false;
    AskAgain(segment, now);
  }
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
  Entry& entry = entries_[segment];
  entry.repetitions = 0;
  Deliver(segment, now);
  if (IsActive(entry)) ScheduleNext(segment, now);
}

bool FetchLedger::Take(const FrameHeader& header, const Buffer& payload, absl::Time now) {
  switch (header.kind) {
    case FrameKind::kAnswer:
      return TakeAnswer(header, payload, now);
    case FrameKind::kMerged:
      return TakeMerged(header, payload, now);
    case FrameKind::kSnapshot:
      TakeSnapshot(header, payload, now);
      return true;
    default:
      return false;
  }
}

bool FetchLedger::TakeAnswer(const FrameHeader& header, const Buffer& payload, absl::Time now) {
  const uint32_t segment = header.segment;
  Entry& entry = entries_[segment];
  const bool of_fetch = MayAnswer(header, FrameKind::kFetch) && entry.stage == Stage::kAsking &&
                        entry.fetch_sent && header.round == entry.next;
  const bool of_pull = MayAnswer(header, FrameKind::kPull) && entry.stage == Stage::kPulling &&
                       header.round >= entry.next && header.round < entry.asked;
  if (!of_fetch && !of_pull) return false;
  switch (header.outcome) {
    case Outcome::kAccepted:
      if (!of_fetch) return true;
      entry.stage = Stage::kPulling;
      entry.asked = entry.next;
      entry.open = OpenRound(header.weight);
      if (!entry.kept.empty()) {
        entry.open = std::max(entry.open, After(entry.kept.rbegin()->first, 1));
      }
      Progressed(segment, now);
      return true;
    case Outcome::kGone:
      // To a pull alone; one of an earlier pull says nothing of the fetch that followed it.
      if (!of_pull) return true;
      // At once the first time. A shard that says one thing and then the other is not asked in a
      // tight circle.
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

bool FetchLedger::TakeMerged(const FrameHeader& header, const Buffer& payload, absl::Time now) {
  const uint32_t segment = header.segment;
  Entry& entry = entries_[segment];
  // Beyond what is wanted it is for whoever contributes next.
  if (entry.stage == Stage::kIdle || header.round >= entry.until) return false;
  entry.merged_bytes = payload.size();
  if (header.round < entry.next) return true;  // a repetition
  entry.kept.try_emplace(header.round, payload);
  if (entry.kept.size() > kAheadMax) entry.kept.erase(std::prev(entry.kept.end()));
  if (entry.stage != Stage::kPulling) return true;
  const uint32_t open = After(header.round, 1);
  const bool wanted = header.round < std::max(entry.asked, After(entry.next, 1));
  entry.open = std::max(entry.open, open);
  if (!wanted) return true;
  entry.refusals = 0;
  Progressed(segment, now);
  return true;
}

void FetchLedger::TakeSnapshot(const FrameHeader& header, const Buffer& payload, absl::Time now) {
  const uint32_t segment = header.segment;
  Entry& entry = entries_[segment];
  // A second one, for a fetch that was repeated, or one of a fetch that was given up.
  if (entry.stage != Stage::kAsking || !entry.fetch_sent) return;
  if (entry.next != kRoundNever && header.round <= entry.next) return;
  ready_.push_back(
      Fetched{.segment = segment, .round = header.round, .is_snapshot = true, .payload = payload});
  entry.next = header.round;
  entry.refusals = 0;
  // What leads on from here?
  Ask(segment, now);
  Deliver(segment, now);
}

}  // namespace longwave

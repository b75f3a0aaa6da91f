#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/sync/segment_ledger.h"

namespace longwave {

absl::Status SegmentLedger::Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round,
                                  absl::Time now) {
  LONGWAVE_RETURN_IF_ERROR(CheckFree("fetch", segment));
  StopFetch(segment, now);
  BeginFetch(segment, from_round, until_round, now);
  return absl::OkStatus();
}

void SegmentLedger::StopFetch(uint32_t segment, absl::Time now) {
  Entry& entry = entries_[segment];
  if (entry.stage == Stage::kWaiting) std::erase(waiting_[connection(segment)], segment);
  // Events of this fetch would mislead the segment's next one.
  std::erase_if(fetched_, [segment](const FetchEvent& event) { return event.segment == segment; });
  EndFetching(segment, Stage::kIdle, now);
}

void SegmentLedger::BeginFetch(uint32_t segment, uint32_t from_round, uint32_t until_round,
                               absl::Time now) {
  Entry& entry = entries_[segment];
  entry.kept.erase(entry.kept.begin(), entry.kept.lower_bound(from_round));
  entry = {.stage = Stage::kWaiting,
           .settled_next = entry.settled_next,
           .next = from_round,
           .kept = std::move(entry.kept),
           .merged_bytes = entry.merged_bytes,
           .push = {},
           .until = until_round};
  waiting_[connection(segment)].push_back(segment);
  ActivateNext(connection(segment), now);
}

void SegmentLedger::ActivateNext(uint32_t connection, absl::Time now) {
  std::deque<uint32_t>& waiting = waiting_[connection];
  while (!waiting.empty() && fetching_[connection] < kSegmentsAtOnce) {
    const uint32_t segment = waiting.front();
    waiting.pop_front();
    ++fetching_[connection];
    connections_->Expect(connection, now);
    Ask(segment, now);
    Deliver(segment, now);
  }
}

void SegmentLedger::EndFetching(uint32_t segment, Stage stage, absl::Time now) {
  const bool was_fetching = IsFetching(std::exchange(entries_[segment].stage, stage));
  Schedule(segment, absl::InfiniteFuture());
  if (!was_fetching) return;
  --fetching_[connection(segment)];
  connections_->Relieve(connection(segment));
  ActivateNext(connection(segment), now);
}

void SegmentLedger::Ask(uint32_t segment, absl::Time at) {
  Entry& entry = entries_[segment];
  entry.stage = Stage::kAsking;
  entry.fetch_sent = false;
  Schedule(segment, at);
}

std::optional<uint32_t> SegmentLedger::NextPull(const Entry& entry) const {
  // A shard sends the open round's update when the round closes. The ledger pulls it where it is
  // wanted, since the round may have closed already.
  const uint32_t known = entry.until == kRoundNever ? entry.open : After(entry.open, 1);
  const uint32_t end = std::min({known, entry.until, After(entry.next, kWindow)});
  uint32_t round = std::max(entry.asked, entry.next);
  while (round < end && entry.kept.contains(round)) ++round;
  if (round >= end) return std::nullopt;
  return round;
}

std::optional<OutgoingFrame> SegmentLedger::FetchingFrame(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  OutgoingFrame frame{.connection = connection(segment)};
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

void SegmentLedger::AskAgain(uint32_t segment, absl::Time at) {
  Entry& entry = entries_[segment];
  entry.fetch_sent = false;
  entry.asked = entry.next;
  // Without a round to pull, the shard's open round is unknown.
  if (!FetchingFrame(segment).has_value()) entry.stage = Stage::kAsking;
  Schedule(segment, at);
}

void SegmentLedger::ScheduleRequest(uint32_t segment, absl::Time now) {
  Schedule(segment, FrameFor(segment).has_value() ? now : absl::InfiniteFuture());
}

void SegmentLedger::Deliver(uint32_t segment, absl::Time now) {
  Entry& entry = entries_[segment];
  if (entry.next == kRoundNever) return;  // a snapshot comes first
  entry.kept.erase(entry.kept.begin(), entry.kept.lower_bound(entry.next));
  while (!entry.kept.empty() && entry.kept.begin()->first == entry.next &&
         entry.next < entry.until) {
    fetched_.push_back({.kind = FetchEvent::Kind::kUpdate,
                        .segment = segment,
                        .round = entry.next,
                        .payload = std::move(entry.kept.begin()->second)});
    entry.kept.erase(entry.kept.begin());
    ++entry.next;
  }
  const bool is_present = entry.stage == Stage::kPulling && entry.next >= entry.open;
  const bool ends = entry.until == kRoundNever ? is_present : entry.next >= entry.until;
  if (!ends) return;
  fetched_.push_back(
      {.kind = FetchEvent::Kind::kUpToDate, .segment = segment, .round = entry.next});
  EndFetching(segment, entry.until == kRoundNever ? Stage::kFollowing : Stage::kIdle, now);
}

void SegmentLedger::Progressed(uint32_t segment, absl::Time now) {
  Deliver(segment, now);
  if (IsFetching(entries_[segment].stage)) ScheduleRequest(segment, now);
}

void SegmentLedger::OnFetchAnswer(Entry& entry, const AnswerFrame& answer, const Buffer& payload,
                                  absl::Time now) {
  const uint32_t segment = answer.segment;
  const bool of_fetch = answer.to == FrameKind::kFetch && entry.stage == Stage::kAsking &&
                        entry.fetch_sent && answer.round == entry.next;
  const bool of_pull = answer.to == FrameKind::kPull && entry.stage == Stage::kPulling &&
                       answer.round >= entry.next && answer.round < entry.asked;
  if (!of_fetch && !of_pull) return;
  switch (answer.outcome) {
    case Outcome::kAccepted:
      if (!of_fetch) return;
      entry.stage = Stage::kPulling;
      entry.asked = entry.next;
      entry.open = std::min(answer.open_round, kRoundNever - 1);
      if (!entry.kept.empty()) {
        entry.open = std::max(entry.open, After(entry.kept.rbegin()->first, 1));
      }
      return Progressed(segment, now);
    case Outcome::kCompacted:
      // Only pulls get this answer. A pull before the current fetch has no meaning for it.
      if (!of_pull) return;
      // The first fetch follows at once. A backoff keeps a contradictory shard from a busy loop.
      Ask(segment,
          entry.refusals == 0 ? now : now + BusyBackoff(options_, segment, entry.refusals));
      ++entry.refusals;
      return;
    case Outcome::kBusy:
    case Outcome::kNotMember:
      return AskAgain(segment, now + BusyBackoff(options_, segment, entry.refusals++));
    case Outcome::kRejected: {
      const auto reason = payload.bytes();
      fetched_.push_back(
          {.kind = FetchEvent::Kind::kRefused,
           .segment = segment,
           .round = entry.next,
           .reason = std::string(reinterpret_cast<const char*>(reason.data()), reason.size())});
      entry.kept.clear();
      return EndFetching(segment, Stage::kIdle, now);
    }
    default:
      return;
  }
}

void SegmentLedger::OnSnapshot(const SnapshotFrame& snapshot, const Buffer& payload,
                               absl::Time now) {
  const uint32_t segment = snapshot.segment;
  Entry& entry = entries_[segment];
  // The snapshot may be a second one of a repeated fetch, or one of an abandoned fetch.
  if (entry.stage != Stage::kAsking || !entry.fetch_sent) return;
  if (entry.next != kRoundNever && snapshot.round <= entry.next) return;
  fetched_.push_back({.kind = FetchEvent::Kind::kSnapshot,
                      .segment = segment,
                      .round = snapshot.round,
                      .payload = payload});
  entry.next = snapshot.round;
  entry.refusals = 0;
  // The shard chooses the way from the snapshot on.
  Ask(segment, now);
  Deliver(segment, now);
}

}  // namespace longwave

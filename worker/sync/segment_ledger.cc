#include "worker/sync/segment_ledger.h"

#include <algorithm>
#include <utility>

#include "common/base/errors.h"

namespace longwave {

SegmentLedger::SegmentLedger(LedgerOptions options, Connections* connections)
    : options_(std::move(options)),
      connections_(connections),
      entries_(options_.connections.size()),
      contributions_due_(options_.connections.size()),
      fetches_due_(options_.connections.size()),
      waiting_(options_.connection_count),
      fetching_(options_.connection_count) {}

absl::Status SegmentLedger::CheckFree(const char* what, uint32_t segment) const {
  if (segment >= entries_.size()) {
    return InvalidArgument("got a ", what, " of segment ", segment, " of ", entries_.size());
  }
  const Entry& entry = entries_[segment];
  if (!IsContribution(entry.stage)) return absl::OkStatus();
  return FailedPrecondition("got a ", what, " of segment ", segment,
                            ", wanted that its push of round ", entry.push.round,
                            " is settled before");
}

void SegmentLedger::Schedule(uint32_t segment, absl::Time at) {
  const bool contributes = IsContribution(entries_[segment].stage);
  contributions_due_.Set(segment, contributes ? at : absl::InfiniteFuture());
  fetches_due_.Set(segment, contributes ? absl::InfiniteFuture() : at);
}

std::optional<OutgoingFrame> SegmentLedger::FrameFor(uint32_t segment) const {
  const Entry& entry = entries_[segment];
  if (IsContribution(entry.stage)) return ContributionFrame(entry);
  return IsFetching(entry.stage) ? FetchingFrame(segment) : std::nullopt;
}

std::optional<OutgoingFrame> SegmentLedger::NextFrame(DueQueue& due, absl::Time now) {
  while (due.front_at() <= now) {
    const uint32_t segment = due.front();
    const absl::Time ready_at = connections_->ready_at(connection(segment));
    if (ready_at > now) {
      due.Set(segment, ready_at);
    } else if (std::optional<OutgoingFrame> frame = FrameFor(segment); frame.has_value()) {
      return frame;
    } else {  // the frames that were to be requested have come
      due.Set(segment, absl::InfiniteFuture());
    }
  }
  return std::nullopt;
}

std::optional<OutgoingFrame> SegmentLedger::NextFetch(absl::Time now) {
  return FetchDueAt() <= now ? NextFrame(fetches_due_, now) : std::nullopt;
}

std::optional<OutgoingFrame> SegmentLedger::NextContribution(absl::Time now) {
  return NextFrame(contributions_due_, now);
}

void SegmentLedger::Sent(const OutgoingFrame& frame, absl::Time now) {
  const uint32_t segment = frame.header.segment();
  Entry& entry = entries_[segment];
  if (IsContribution(entry.stage)) {
    if (frame.header.kind() == FrameKind::kPush) {
      entry.stage = Stage::kSent;
      entry.sent = true;
    }
    entry.sent_as = connections_->sent(frame.connection);
    return Schedule(segment, absl::InfiniteFuture());
  }
  if (frame.header.kind() == FrameKind::kFetch) {
    entry.fetch_sent = true;
  } else {
    entry.asked = std::max(entry.asked, After(frame.header.round(), 1));
  }
  ScheduleRequest(segment, now);
}

void SegmentLedger::Again(uint32_t connection, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] != connection) continue;
    Entry& entry = entries_[segment];
    // A shard that has lost its folder may make other updates of the same rounds.
    entry.kept.clear();
    if (IsContribution(entry.stage)) {
      // Contributions in backoff are included, since a copy may have been rejected after the shard
      // accepted another. Late ones are included, since a repeated round is open for them and may
      // wait for no other worker.
      if (!IsUntaken(entry.stage)) entry.stage = Stage::kSent;
      if (!WaitsForTurn(segment)) Schedule(segment, now);
    } else if (IsFetching(entry.stage)) {
      AskAgain(segment, now);
    } else if (entry.stage == Stage::kFollowing) {
      // Such a shard waits for its members' rounds in each of its segments.
      BeginFetch(segment, entry.next, kRoundNever, now);
    }
  }
}

void SegmentLedger::Resume(uint32_t connection, uint32_t lost_up_to, absl::Time now) {
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] != connection) continue;
    const Entry& entry = entries_[segment];
    if (IsFetching(entry.stage)) {
      AskAgain(segment, now);
    } else if (IsContribution(entry.stage) && !WaitsForTurn(segment) &&
               entry.sent_as <= lost_up_to) {
      Schedule(segment, now);
    }
  }
}

uint64_t SegmentLedger::OutstandingBytes(uint32_t connection) const {
  uint64_t bytes = 0;
  for (uint32_t segment = 0; segment < entries_.size(); ++segment) {
    if (options_.connections[segment] != connection) continue;
    const Entry& entry = entries_[segment];
    if (IsContribution(entry.stage)) {
      const uint64_t up = entry.push.payload.size();
      bytes += up + (entry.merged_bytes > 0 ? entry.merged_bytes : up);  // an estimate at first
    } else if (entry.stage == Stage::kPulling) {
      bytes += (std::max(entry.asked, entry.next) - entry.next) * entry.merged_bytes;
    } else if (entry.stage == Stage::kAsking && !options_.snapshot_bytes.empty()) {
      bytes += options_.snapshot_bytes[segment];
    }
  }
  return bytes;
}

void SegmentLedger::OnAnswer(const AnswerFrame& answer, const Buffer& payload, absl::Time now) {
  Entry& entry = entries_[answer.segment];
  if (IsContribution(entry.stage)) return OnContributionAnswer(entry, answer, payload, now);
  if (IsFetching(entry.stage)) OnFetchAnswer(entry, answer, payload, now);
}

void SegmentLedger::OnMerged(const MergedFrame& merged, const Buffer& payload, absl::Time now) {
  Entry& entry = entries_[merged.segment];
  if (IsFetch(entry.stage)) entry.merged_bytes = payload.size();
  // An update of a round that is there is a repetition.
  if (merged.round < (IsFetch(entry.stage) ? entry.next : Position(entry))) return;
  entry.kept.try_emplace(merged.round, payload);
  if (entry.kept.size() > KeptMax(entry.stage)) entry.kept.erase(std::prev(entry.kept.end()));
  if (IsContribution(entry.stage)) return SettleIfKnown(entry);
  if (entry.stage != Stage::kPulling) return;
  const bool is_wanted = merged.round < std::max(entry.asked, After(entry.next, 1));
  entry.open = std::max(entry.open, After(merged.round, 1));
  if (!is_wanted) return;
  entry.refusals = 0;
  Progressed(merged.segment, now);
}

}  // namespace longwave

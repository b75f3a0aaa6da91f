#include "worker/sync/worker_ledger.h"

#include <algorithm>

namespace longwave {

WorkerLedger::WorkerLedger(const LedgerOptions& options)
    : options_(options),
      connections_(options),
      segments_(options, &connections_),
      snapshots_(options, &connections_) {}

void WorkerLedger::OnFrame(uint32_t connection, const FrameHeader& header, const Buffer& payload,
                           absl::Time now) {
  const FrameName name = header;
  if (name.run != options_.run) return;
  const Connections::News news = connections_.OnFrame(connection, header, now);
  if (news.another) SendAgain(connection, now);
  if (news.lost_up_to > 0) {
    segments_.Resume(connection, news.lost_up_to, now);
    snapshots_.Again(connection, now);
  }
  if (!connections_.is_welcome(connection) || name.segment >= options_.connections.size()) return;
  if (const auto* request = std::get_if<RequestFrame>(&header)) {
    OnRequest(*request);
  } else if (const auto* answer = std::get_if<AnswerFrame>(&header)) {
    NoteOpenRound(answer->open_round);
    snapshots_.OnAnswer(*answer, now);
    segments_.OnAnswer(*answer, payload, now);
  } else if (const auto* merged = std::get_if<MergedFrame>(&header)) {
    NoteOpenRound(std::min(merged->round, kRoundNever - 1) + 1);
    segments_.OnMerged(*merged, payload, now);
  } else if (const auto* snapshot = std::get_if<SnapshotFrame>(&header)) {
    segments_.OnSnapshot(*snapshot, payload, now);
  }
}

void AddRequest(const SnapshotRequest& request, std::deque<SnapshotRequest>& waiting) {
  if (std::ranges::find(waiting, request) != waiting.end()) return;
  std::erase_if(waiting, [&](const SnapshotRequest& old) {
    return old.segment == request.segment && old.of_start == request.of_start;
  });
  waiting.push_back(request);
}

void WorkerLedger::OnRequest(const RequestFrame& request) {
  if (!options_.owned.Contains(request.segment)) return;
  if (request.round == 0) {
    ForgetPosition(request.segment);
    positions_.push_back({.segment = request.segment, .epoch = request.epoch});
    return;
  }
  if (request.round == kRoundNever)
    return AddRequest({.segment = request.segment, .of_start = true}, requests_);
  // A shard that requests a snapshot to keep has the round open, and a later one is as good. A
  // shard that restores the segment does not, and needs exactly this round.
  AddRequest({.segment = request.segment,
              .round = request.round,
              .or_later = request.open_round >= request.round},
             requests_);
}

void WorkerLedger::NoteOpenRound(uint32_t open_round) {
  newest_open_round_ = std::max(newest_open_round_, std::min(open_round, kRoundNever - 1));
}

std::optional<Connections::Lost> WorkerLedger::TakeLost(absl::Time now) {
  const auto lost = connections_.TakeLost(now, [&](uint32_t connection) {
    return TimeOnTheWay(
        options_, segments_.OutstandingBytes(connection) + snapshots_.OutstandingBytes(connection));
  });
  if (lost.has_value()) snapshots_.Again(lost->connection, now);
  return lost;
}

void WorkerLedger::Reconnected(uint32_t connection, absl::Time now) {
  connections_.Reconnected(connection, now);
  SendAgain(connection, now);
}

void WorkerLedger::SendAgain(uint32_t connection, absl::Time now) {
  segments_.Again(connection, now);
  snapshots_.Again(connection, now);
}

size_t WorkerLedger::ForgetPosition(uint32_t segment) {
  return std::erase_if(positions_, [&](const Position& each) { return each.segment == segment; });
}

std::optional<OutgoingFrame> WorkerLedger::NextPosition(absl::Time now) const {
  for (const Position& position : positions_) {
    const uint32_t segment = position.segment, connection = options_.connections[segment];
    if (connections_.ready_at(connection) > now) continue;
    return OutgoingFrame{.connection = connection,
                         .header = PullFrame{.run = options_.run,
                                             .epoch = position.epoch,
                                             .round = segments_.position(segment),
                                             .worker = options_.worker,
                                             .segment = segment},
                         .payload = Buffer()};
  }
  return std::nullopt;
}

std::optional<OutgoingFrame> WorkerLedger::NextFrame(absl::Time now) {
  if (auto hello = connections_.NextFrame(now); hello.has_value()) return hello;
  if (auto position = NextPosition(now); position.has_value()) return position;
  if (auto request = segments_.NextFetch(now); request.has_value()) return request;
  if (auto snapshot = snapshots_.NextFrame(now, kSnapshotPatience); snapshot.has_value())
    return snapshot;
  if (auto push = segments_.NextContribution(now); push.has_value()) return push;
  return snapshots_.NextFrame(now, absl::ZeroDuration());
}

void WorkerLedger::Sent(const OutgoingFrame& frame, absl::Time now) {
  const FrameName name = frame.header;
  connections_.Sent(frame.connection, name.kind, now);
  switch (name.kind) {
    case FrameKind::kHello:
      return;
    case FrameKind::kSnapshot:
      return snapshots_.Sent(frame, now);
    default:
      if (name.kind == FrameKind::kPull && ForgetPosition(name.segment) > 0) return;
      return segments_.Sent(frame, now);
  }
}

void WorkerLedger::Held(const OutgoingFrame& frame, absl::Time then) {
  connections_.Hold(frame.connection, then);
}

absl::Time WorkerLedger::DueAt() const {
  absl::Time at = std::min({connections_.DueAt(), segments_.DueAt(), snapshots_.DueAt()});
  for (const Position& position : positions_) {
    at = std::min(at, connections_.ready_at(options_.connections[position.segment]));
  }
  return at;
}

}  // namespace longwave

#include "worker/sync/snapshot_queue.h"

#include <algorithm>
#include <utility>

#include "common/base/errors.h"

namespace longwave {

SnapshotQueue::SnapshotQueue(LedgerOptions options, Connections* connections)
    : options_(std::move(options)),
      connections_(connections),
      waiting_(options_.connection_count) {}

bool SnapshotQueue::HasRoom(uint32_t segment) const {
  if (segment >= options_.connections.size()) return false;
  const std::optional<OutgoingFrame>& waits = waiting_[options_.connections[segment]].frame;
  return !waits.has_value() || waits->header.segment() == segment;
}

absl::Status SnapshotQueue::Post(uint32_t segment, uint32_t round, Buffer payload, absl::Time now) {
  if (segment >= options_.connections.size()) {
    return InvalidArgument("got a snapshot of segment ", segment, " of ",
                           options_.connections.size());
  }
  const uint32_t connection = options_.connections[segment];
  Waiting& waiting = waiting_[connection];
  if (!HasRoom(segment)) {
    return FailedPrecondition("got a snapshot of segment ", segment,
                              ", wanted that the one of segment ", waiting.frame->header.segment(),
                              " on its connection is sent before");
  }
  waiting.frame = OutgoingFrame{
      .connection = connection,
      .header =
          SnapshotFrame{
              .run = options_.run, .round = round, .worker = options_.worker, .segment = segment},
      .payload = std::move(payload)};
  waiting.since = now;
  return absl::OkStatus();
}

void SnapshotQueue::OnAnswer(const AnswerFrame& answer, absl::Time now) {
  if (answer.to != FrameKind::kSnapshot) return;
  if (!under_way_.has_value() || under_way_->segment != answer.segment ||
      under_way_->round != answer.round) {
    return;  // of an abandoned snapshot
  }
  End(now);
}

void SnapshotQueue::Again(uint32_t connection, absl::Time now) {
  if (under_way_.has_value() && under_way_->connection == connection) End(now);
}

void SnapshotQueue::End(absl::Time now) {
  connections_->Relieve(under_way_->connection);
  under_way_.reset();
  free_since_ = now;
}

uint64_t SnapshotQueue::OutstandingBytes(uint32_t connection) const {
  const bool is_there = under_way_.has_value() && under_way_->connection == connection;
  return is_there ? under_way_->bytes : 0;
}

std::optional<OutgoingFrame> SnapshotQueue::NextFrame(absl::Time now,
                                                      absl::Duration patience) const {
  if (under_way_.has_value()) return std::nullopt;
  const Waiting* first = nullptr;
  for (uint32_t c = 0; c < waiting_.size(); ++c) {
    const Waiting& waiting = waiting_[c];
    if (!waiting.frame.has_value() || connections_->ready_at(c) > now) continue;
    if (std::max(waiting.since, free_since_) + patience > now) continue;
    if (first == nullptr || waiting.since < first->since) first = &waiting;
  }
  if (first == nullptr) return std::nullopt;
  return first->frame;
}

void SnapshotQueue::Sent(const OutgoingFrame& frame, absl::Time now) {
  connections_->Expect(frame.connection, now);
  under_way_ = {frame.connection, frame.header.segment(), frame.header.round(),
                frame.payload.size()};
  waiting_[frame.connection].frame.reset();
}

absl::Time SnapshotQueue::DueAt() const {
  absl::Time at = absl::InfiniteFuture();
  if (under_way_.has_value()) return at;
  for (uint32_t c = 0; c < waiting_.size(); ++c) {
    if (waiting_[c].frame.has_value()) at = std::min(at, connections_->ready_at(c));
  }
  return at;
}

}  // namespace longwave

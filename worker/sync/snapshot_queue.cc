#include "worker/sync/snapshot_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longwave {

SnapshotQueue::SnapshotQueue(LedgerOptions options, const Connections* connections)
    : options_(std::move(options)), connections_(connections), lanes_(options_.connection_count) {}

bool SnapshotQueue::HasRoom(uint32_t segment) const {
  if (segment >= options_.connections.size()) return false;
  return waiting(options_.connections[segment]).value_or(segment) == segment;
}

std::optional<uint32_t> SnapshotQueue::waiting(uint32_t connection) const {
  const std::optional<OutgoingFrame>& frame = lanes_[connection].waiting;
  return frame.has_value() ? std::make_optional(frame->header.segment) : std::nullopt;
}

absl::Status SnapshotQueue::Post(uint32_t segment, uint32_t round, Buffer payload, absl::Time now) {
  if (segment >= options_.connections.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got a snapshot of segment ", segment, " of ", options_.connections.size()));
  }
  const uint32_t connection = options_.connections[segment];
  Lane& lane = lanes_[connection];
  if (!HasRoom(segment)) {
    return absl::FailedPreconditionError(
        absl::StrCat("got a snapshot of segment ", segment, ", wanted that the one of segment ",
                     lane.waiting->header.segment, " on its connection is sent before"));
  }
  lane.waiting = OutgoingFrame{.connection = connection,
                               .header = {.kind = FrameKind::kSnapshot,
                                          .run = options_.run,
                                          .round = round,
                                          .worker = options_.worker,
                                          .segment = segment},
                               .payload = std::move(payload)};
  lane.since = now;
  return absl::OkStatus();
}

void SnapshotQueue::Take(const FrameHeader& answer, absl::Time now) {
  if (answer.contributions != static_cast<uint32_t>(FrameKind::kSnapshot)) return;
  if (answer.segment >= options_.connections.size()) return;
  Lane& lane = lanes_[options_.connections[answer.segment]];
  if (!lane.under_way.has_value() || lane.under_way->segment != answer.segment ||
      lane.under_way->round != answer.round) {
    return;  // of one that was given up
  }
  lane.under_way.reset();
  lane.unanswered = 0;
  came_at_ = now;
}

void SnapshotQueue::Again(uint32_t connection) {
  lanes_[connection].under_way.reset();
  lanes_[connection].unanswered = 0;
}

uint64_t SnapshotQueue::OutstandingBytes(uint32_t connection, absl::Time now) const {
  const std::optional<UnderWay>& under_way = lanes_[connection].under_way;
  return under_way.has_value() && under_way->until > now ? under_way->bytes : 0;
}

absl::Time SnapshotQueue::FreeAt() const {
  absl::Time at = came_at_;
  for (const Lane& lane : lanes_) {
    if (lane.under_way.has_value()) at = std::max(at, lane.under_way->until);
  }
  return at;
}

absl::Time SnapshotQueue::LaneDueAt(uint32_t connection, absl::Time free_at) const {
  const Lane& lane = lanes_[connection];
  if (!lane.waiting.has_value()) return absl::InfiniteFuture();
  if (lane.under_way.has_value() && connections_->heard(connection) < lane.under_way->sent_at)
    return absl::InfiniteFuture();
  return std::max(free_at, connections_->held_until(connection));
}

std::optional<OutgoingFrame> SnapshotQueue::Due(absl::Time now, absl::Duration patience) const {
  const absl::Time free_at = FreeAt();
  const Lane* first = nullptr;
  for (uint32_t c = 0; c < lanes_.size(); ++c) {
    const Lane& lane = lanes_[c];
    if (LaneDueAt(c, free_at) > now || std::max(lane.since, free_at) + patience > now) continue;
    if (first == nullptr || lane.since < first->since) first = &lane;
  }
  if (first == nullptr) return std::nullopt;
  return first->waiting;
}

void SnapshotQueue::Sent(const OutgoingFrame& frame, absl::Time now) {
  Lane& lane = lanes_[frame.connection];
  if (lane.under_way.has_value()) ++lane.unanswered;
  const absl::Duration patience = Silence(options_, lane.unanswered, 2 * frame.payload.size());
  lane.under_way = UnderWay{.segment = frame.header.segment,
                            .round = frame.header.round,
                            .sent_at = now,
                            .until = now + patience,
                            .bytes = frame.payload.size()};
  lane.waiting.reset();
}

absl::Time SnapshotQueue::DueAt() const {
  const absl::Time free_at = FreeAt();
  absl::Time at = absl::InfiniteFuture();
  for (uint32_t c = 0; c < lanes_.size(); ++c) at = std::min(at, LaneDueAt(c, free_at));
  return at;
}

}  // namespace longwave

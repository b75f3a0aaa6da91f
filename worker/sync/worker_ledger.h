#ifndef LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "worker/sync/connections.h"
#include "worker/sync/ledger_options.h"
#include "worker/sync/segment_ledger.h"
#include "worker/sync/snapshot_queue.h"

namespace longwave {

// A shard's request for the segment's parameters with all rounds before `round` and no more.
// or_later: a later round is as good. of_start: the run's first weights, at any round of the
// replica (round is 0).
struct SnapshotRequest {
  uint32_t segment = 0;
  uint32_t round = 0;
  bool or_later = false;
  bool of_start = false;
  bool operator==(const SnapshotRequest&) const = default;
};

// Appends a request. A segment's new request replaces the earlier one (of_start only one of_start),
// and a repeated request keeps its place.
void AddRequest(const SnapshotRequest& request, std::deque<SnapshotRequest>& waiting);

// A worker's decisions on the data plane, pure: contributions and fetches (SegmentLedger),
// snapshots for the shards (SnapshotQueue), and their shared connections. No socket, thread or
// clock inside; times are arguments. The exchange and the simulator drive the same
// object. Not thread-safe.
//
// A shard that has lost its folder asks where the worker stands (a request for round 0), also for
// segments without outstanding frames. The worker answers with a pull of its next round, with the
// request's epoch, which tells the answer from old pulls in queues.
//
// Order of frames due at once: hellos, requests (small and awaited), pushes, snapshots. A snapshot
// that has waited for kSnapshotPatience, with none under way, precedes pushes, so that a busy link
// sends it too. Pushes then have as much time again.
class WorkerLedger {
 public:
  explicit WorkerLedger(const LedgerOptions& options);
  WorkerLedger(const WorkerLedger&) = delete;
  WorkerLedger& operator=(const WorkerLedger&) = delete;

  // See SegmentLedger.
  absl::Status Post(SegmentPush push, absl::Time now) {
    return segments_.Post(std::move(push), now);
  }
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now) {
    return segments_.Fetch(segment, from_round, until_round, now);
  }

  // Answers a SnapshotRequest, once: a shard without the answer repeats the request. The answer
  // replaces the segment's earlier one that was not sent. InvalidArgument: no such segment.
  // FailedPrecondition: another segment's snapshot waits on its connection (see HasSnapshotRoom).
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload, absl::Time now) {
    return snapshots_.Post(segment, round, std::move(payload), now);
  }
  bool HasSnapshotRoom(uint32_t segment) const { return snapshots_.HasRoom(segment); }

  // A verified frame has come from `connection`.
  void OnFrame(uint32_t connection, const FrameHeader& header, const Buffer& payload,
               absl::Time now);
  // See Connections::TakeLost.
  std::optional<Connections::Lost> TakeLost(absl::Time now);
  // The connection was replaced: all its outstanding frames are sent again, after a hello.
  void Reconnected(uint32_t connection, absl::Time now);

  // The next frame due, if any; the same until the next other call, such as Sent or Held.
  std::optional<OutgoingFrame> NextFrame(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // The frame's connection takes no more for now: none is due on it until `then`.
  void Held(const OutgoingFrame& frame, absl::Time then);
  // The time to call NextFrame again if no frame comes before.
  absl::Time DueAt() const;

  bool has_settled() const { return segments_.has_settled(); }
  std::optional<Settled> TakeSettled() { return segments_.TakeSettled(); }
  bool has_fetched() const { return segments_.has_fetched(); }
  std::optional<FetchEvent> TakeFetched() { return segments_.TakeFetched(); }
  // The latest request of each segment.
  std::optional<SnapshotRequest> TakeRequest() { return TakeFirst(requests_); }

  // The newest known open round of any segment.
  uint32_t newest_open_round() const { return newest_open_round_; }
  // See SegmentLedger::failure.
  const absl::Status& failure() const { return segments_.failure(); }

  static constexpr absl::Duration kSnapshotPatience = absl::Seconds(30);

 private:
  struct Position {
    uint32_t segment = 0;
    uint32_t epoch = 0;  // of the request
  };

  void OnRequest(const RequestFrame& request);
  size_t ForgetPosition(uint32_t segment);  // returns their number
  std::optional<OutgoingFrame> NextPosition(absl::Time now) const;
  void NoteOpenRound(uint32_t open_round);
  void SendAgain(uint32_t connection, absl::Time now);

  const LedgerOptions options_;
  Connections connections_;
  SegmentLedger segments_;
  SnapshotQueue snapshots_;
  std::deque<SnapshotRequest> requests_;  // at most one a segment
  std::deque<Position> positions_;        // asked for by shards; likewise
  uint32_t newest_open_round_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_

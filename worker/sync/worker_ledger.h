#ifndef LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "worker/sync/connections.h"
#include "worker/sync/fetch_ledger.h"
#include "worker/sync/ledger_options.h"
#include "worker/sync/push_ledger.h"
#include "worker/sync/snapshot_queue.h"

namespace longwave {

// A shard wants the segment's parameters as they are with all rounds before `round`, and no more;
// or_later: or before a later round, which is as good as this one. of_start: those that the run
// began with, whatever round the replica is at (round is 0).
struct SnapshotAsk {
  uint32_t segment = 0;
  uint32_t round = 0;
  bool or_later = false;
  bool of_start = false;
  bool operator==(const SnapshotAsk&) const = default;
};

// To those that wait, in the order in which they came: a segment's latest takes the place of the
// one before (one of the start that of one of the start), but one that is repeated keeps its own.
void AddAsk(const SnapshotAsk& ask, std::deque<SnapshotAsk>& waiting);

// A worker's decisions on the data plane, pure: contributions (PushLedger), catching up
// (FetchLedger), snapshots for the shards (SnapshotQueue), and the connections that they share. No
// socket, thread or clock inside; times are arguments: the exchange and the simulator drive the
// same object. Not thread-safe.
//
// A shard that has lost its folder asks where the worker stands (an ask for round 0), also of
// segments of which nothing is outstanding here: it is told with a pull of the round that is next,
// of the ask's epoch, by which the shard knows it from pulls that waited for it in queues.
//
// What goes first where several frames are due: hellos, requests (they are small, and somebody
// waits for them), pushes, snapshots. A snapshot that has waited for kSnapshotPatience, with none
// under way, goes before pushes, so that a link that is never idle sends it too; and then pushes
// have as much time again.
class WorkerLedger {
 public:
  explicit WorkerLedger(const LedgerOptions& options);
  WorkerLedger(const WorkerLedger&) = delete;
  WorkerLedger& operator=(const WorkerLedger&) = delete;

  // See PushLedger::Post. A fetch of the segment ends: who contributes is up to date.
  absl::Status Post(SegmentPush push, absl::Time now);
  // That a segment's frames take.
  uint32_t connection(uint32_t segment) const { return options_.connections[segment]; }

  // See FetchLedger::Want.
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  // An answer to a SnapshotAsk, sent once: who misses it asks again. A segment's earlier one that
  // was not sent yet is dropped. InvalidArgument: no such segment. FailedPrecondition: another
  // segment's waits on its connection (see HasSnapshotRoom).
  absl::Status PostSnapshot(uint32_t segment, uint32_t round, Buffer payload, absl::Time now);
  bool HasSnapshotRoom(uint32_t segment) const { return snapshots_.HasRoom(segment); }
  // The segment whose snapshot waits to be sent there.
  std::optional<uint32_t> waiting_snapshot(uint32_t connection) const {
    return snapshots_.waiting(connection);
  }

  // A verified frame that came in on `connection`.
  void Take(uint32_t connection, const FrameHeader& header, const Buffer& payload, absl::Time now);
  // See Connections::TakeLost. What is outstanding on it waits until the shard answers a hello: the
  // other end may be a shard that is busy, where copies would wait in queues.
  std::optional<Connections::Lost> TakeLost(absl::Time now);
  // The connection is a new one: all that is outstanding on it is sent again, after a hello.
  void Reconnected(uint32_t connection, absl::Time now);

  // The frame to be sent next, if one is due: the same until Sent or Held is told of it, or
  // something else is called.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // Its connection takes nothing more for now: nothing is due on it until `then`.
  void Held(const OutgoingFrame& frame, absl::Time then);
  // When Due is to be asked next, if nothing comes in until then.
  absl::Time DueAt() const;

  bool has_settled() const { return pushes_.has_settled(); }
  std::vector<Settled> TakeSettled();
  bool has_fetched() const { return fetches_.has_ready(); }
  std::optional<FetchEvent> TakeFetched() { return fetches_.TakeReady(); }
  bool has_ask() const { return !asks_.empty(); }
  // The latest of each segment.
  std::optional<SnapshotAsk> TakeAsk();

  // The newest open round of any segment that was heard of.
  uint32_t newest_open_round() const { return newest_open_round_; }
  // See PushLedger::failure.
  const absl::Status& failure() const { return pushes_.failure(); }

  static constexpr absl::Duration kSnapshotPatience = absl::Seconds(30);

 private:
  struct Position {
    uint32_t segment = 0;
    uint32_t epoch = 0;  // of the ask
  };

  void TakeAskFrame(const FrameHeader& header);
  size_t ForgetPosition(uint32_t segment);  // how many there were
  OutgoingFrame PositionOf(const Position& position) const;
  std::optional<OutgoingFrame> PositionDue(absl::Time now) const;
  // What the frame says of its segment's open round.
  void NoteOpenRound(const FrameHeader& header);
  void SendAgain(uint32_t connection, absl::Time now);

  const LedgerOptions options_;
  Connections connections_;
  PushLedger pushes_;
  FetchLedger fetches_;
  SnapshotQueue snapshots_;
  std::deque<SnapshotAsk> asks_;       // at most one a segment
  std::deque<Position> positions_;     // that a shard asks for; likewise
  std::vector<uint32_t> open_rounds_;  // by segment, as far as is known
  uint32_t newest_open_round_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_WORKER_LEDGER_H_

#ifndef LONGWAVE_WORKER_SYNC_SNAPSHOT_QUEUE_H_
#define LONGWAVE_WORKER_SYNC_SNAPSHOT_QUEUE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "worker/sync/connections.h"
#include "worker/sync/ledger_options.h"

namespace longwave {

// Snapshots on their way to the shards that have asked for them, pure: a part of WorkerLedger.
//
// A snapshot is hundreds of times a push, and nobody waits for it. What a socket has taken is
// overtaken by nothing, and nobody here sees how much of it has left. So of each connection one
// waits at most, and of all connections, which share this machine's link, one is under way: from
// when it is sent until its shard's answer says that it has come, its connection is another one, or
// so much time has passed as it may take on a slow link with as much again before it (a little
// longer each time that this happens). To a shard that is not heard since no other is sent.
class SnapshotQueue {
 public:
  // `connections` outlives this.
  SnapshotQueue(LedgerOptions options, const Connections* connections);

  // Whether no other segment's waits on its connection. False: no such segment.
  bool HasRoom(uint32_t segment) const;
  // The segment of the one that waits there.
  std::optional<uint32_t> waiting(uint32_t connection) const;
  // To be sent once. One of this segment that waits already is dropped. InvalidArgument: no such
  // segment. FailedPrecondition: it has no room.
  absl::Status Post(uint32_t segment, uint32_t round, Buffer payload, absl::Time now);

  // An answer of this run.
  void Take(const FrameHeader& answer, absl::Time now);
  // What was sent on the connection may be lost.
  void Again(uint32_t connection);
  // Of the one that is under way there, for as long as it may take.
  uint64_t OutstandingBytes(uint32_t connection, absl::Time now) const;

  // One that may be sent now, and has waited for as long, since it was posted and since the one
  // before was under way: the same until it is Sent or its connection held.
  std::optional<OutgoingFrame> Due(absl::Time now, absl::Duration patience) const;
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // When Due, without patience, is to be asked next, if nothing comes in until then.
  absl::Time DueAt() const;

 private:
  struct UnderWay {
    uint32_t segment = 0;
    uint32_t round = 0;
    absl::Time sent_at;
    absl::Time until;
    uint64_t bytes = 0;
  };
  struct Lane {  // of a connection
    std::optional<OutgoingFrame> waiting;
    absl::Time since;
    std::optional<UnderWay> under_way;
    int unanswered = 0;  // one after the other
  };

  // From when on nothing is under way, as far as is known; of the past: since when.
  absl::Time FreeAt() const;
  // From when on what waits on the connection may be sent.
  absl::Time LaneDueAt(uint32_t connection, absl::Time free_at) const;

  const LedgerOptions options_;
  const Connections* const connections_;
  std::vector<Lane> lanes_;                    // by connection
  absl::Time came_at_ = absl::InfinitePast();  // the last one, as its shard has said
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_SNAPSHOT_QUEUE_H_

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

// Requested snapshots on their way to the shards, pure. A part of WorkerLedger.
//
// A snapshot is hundreds of times as large as a push, and no worker waits for it. Frames cannot
// overtake one that a socket has taken, and the ledger cannot see how much of that has left. So at
// most one snapshot waits for each connection. Over all connections, which share this machine's
// link, at most one is under way: from its sending until the shard's answer, or until its
// connection has lost something or ended.
class SnapshotQueue {
 public:
  // `connections` outlives this.
  SnapshotQueue(LedgerOptions options, Connections* connections);

  // True: no other segment's snapshot waits on its connection. False: also for no such segment.
  bool HasRoom(uint32_t segment) const;
  // Queues a snapshot to be sent once, in place of a waiting one of the segment. InvalidArgument:
  // no such segment. FailedPrecondition: no room.
  absl::Status Post(uint32_t segment, uint32_t round, Buffer payload, absl::Time now);

  // An answer of this run has come.
  void OnAnswer(const AnswerFrame& answer, absl::Time now);
  // Frames sent on the connection may be lost.
  void Again(uint32_t connection, absl::Time now);
  // Bytes of the snapshot that is under way there.
  uint64_t OutstandingBytes(uint32_t connection) const;

  // A snapshot that may be sent now and has waited for `patience`, both since its Post and since
  // the last one was under way. The same until it is Sent or its connection held.
  std::optional<OutgoingFrame> NextFrame(absl::Time now, absl::Duration patience) const;
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // The time to call NextFrame without patience if no frame comes before.
  absl::Time DueAt() const;

 private:
  struct Waiting {
    std::optional<OutgoingFrame> frame;
    absl::Time since;
  };
  struct UnderWay {
    uint32_t connection = 0;
    uint32_t segment = 0;
    uint32_t round = 0;
    uint64_t bytes = 0;
  };

  void End(absl::Time now);

  const LedgerOptions options_;
  Connections* const connections_;
  std::vector<Waiting> waiting_;                  // by connection
  std::optional<UnderWay> under_way_;             // counts as outstanding on its connection
  absl::Time free_since_ = absl::InfinitePast();  // nothing is under way
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_SNAPSHOT_QUEUE_H_

#ifndef LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "worker/sync/connections.h"
#include "worker/sync/due_queue.h"
#include "worker/sync/ledger_options.h"

namespace longwave {

// A segment's part of a sync on the way to its shard.
struct SegmentPush {
  uint32_t epoch = 0;
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer payload;
  float norm = 0;
  uint64_t weight = 0;  // tokens behind it
  // True: an earlier process may have sent the push, and only the shard knows its fate.
  bool sent_before = false;
  uint32_t accounted = 0;  // see SyncPipeline::Push
};

// The fate of a contribution.
enum class Fate : uint8_t {
  kAccepted,  // in the round's merge
  kLate,      // not in the round's merge; a later round takes it
  kUnknown,   // unknown to the shard: a return to the residual may count it twice
};

struct Settled {
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer merged;  // the round's update; empty when it is compacted
  Fate fate = Fate::kAccepted;
  // No shard keeps the round's update: the segment must be fetched from `round` on.
  bool compacted = false;
  // The segment's newest known open round. Above round + 1, this worker is behind.
  uint32_t open_round = 0;
};

// A worker's contributions, pure: which frame is due when, and the meaning of incoming frames. A
// part of WorkerLedger. No socket, thread or clock inside; times are arguments.
//
// A contribution:
//   unsent    Entered by Post, and by the answers `busy` and `not a member`. The push is due at
//             once, or after a backoff that doubles from kBusyBackoffMin to kBusyBackoffMax,
//             without limit.
//   sent      No answer yet.
//   accepted  The shard has the contribution (`accepted` or `duplicate`). The ledger waits for the
//             round's update.
//   late      The shard has closed the round without the contribution and sends the update. The
//             ledger waits as in accepted. Also late is a contribution whose place another one of
//             this worker has, sent by an earlier process whose residual is lost. The answer
//             `duplicate` tells the two apart by their payload's CRC. Where the residual is not
//             lost (`accounted`), another process uses a copy of it: a failure.
//   settled   The fate is known, and the update is there or compacted: see TakeSettled. Each
//             segment has one open contribution at a time.
// A contribution that was never sent before its round's update came is late. The fate of any other
// follows only from an answer: a push rejected as busy may be on the shard's disk, and copies of a
// frame may be under way for long. A shard that returns as another incarnation may have lost an
// accepted contribution, or closed without it, so the ledger pushes that again too.
//
// Each frame has one answer: the shard answers a push, and sends a round's update when the round
// closes. So the ledger repeats only rejected pushes and, where a connection has lost something
// (Resume), frames without an answer: the push, or a pull of the update.
//
// An update that arrives before its round's contribution is posted (a quorum was ahead) is kept for
// it while the shard's process is the same.
class PushLedger {
 public:
  // `connections` outlives this.
  PushLedger(LedgerOptions options, Connections* connections);

  // FailedPrecondition: the segment has an open contribution.
  absl::Status Post(SegmentPush push, absl::Time now);

  // True: the segment has a contribution that is not settled.
  bool is_open(uint32_t segment) const;
  // The first round of the segment not there, by its contributions alone.
  uint32_t next_round(uint32_t segment) const;

  // Take verified frames of this run for a segment of the model.
  void Take(const AnswerFrame& answer, const Buffer& payload, absl::Time now);
  void Take(const MergedFrame& merged, const Buffer& payload);
  // Makes everything outstanding on the connection due now: the shard may have lost it.
  void Again(uint32_t connection, absl::Time now);
  // Makes frames without an answer due now, up to that frame number on the connection.
  void Resume(uint32_t connection, uint32_t lost_up_to, absl::Time now);
  // Bytes of pushes and updates that are not settled.
  uint64_t OutstandingBytes(uint32_t connection) const;

  // The next frame due, if any; the same until it is Sent or its connection held.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(const OutgoingFrame& frame);
  // The time to call Due again if no frame comes before.
  absl::Time DueAt() const { return due_.front_at(); }

  bool has_settled() const { return !settled_.empty(); }
  // The contributions settled since the last call, without open_round.
  std::vector<Settled> TakeSettled();

  // FailedPrecondition, with the shard's sentence, once the shard rejected a push or a pull. A
  // repetition would be rejected too.
  const absl::Status& failure() const { return failure_; }

 private:
  enum class Stage : uint8_t { kUnsent, kSent, kAccepted, kLate, kSettled };
  struct Early {
    uint32_t round = 0;
    Buffer merged;
  };
  struct Entry {
    Stage stage = Stage::kSettled;
    bool ever_posted = false;
    SegmentPush push;
    std::optional<Buffer> merged;
    std::optional<Early> early;
    bool sent = false;          // the push was sent at least once
    int refusals = 0;           // busy and not a member, one after the other
    bool compacted = false;     // settled without the round's update
    uint32_t sent_as = 0;       // the number of its last frame on its connection; 0: none
    uint64_t merged_bytes = 0;  // of its last update
  };

  // True: no shard is known to have the push.
  static bool IsUntaken(const Entry& entry) {
    return entry.stage == Stage::kUnsent || entry.stage == Stage::kSent;
  }
  // The contribution's next frame is due at that time.
  void Schedule(const Entry& entry, absl::Time at);
  bool WaitsForTurn(const Entry& entry) const {
    return due_.at(entry.push.segment) != absl::InfiniteFuture();
  }
  OutgoingFrame FrameFor(const Entry& entry) const;
  void Refused(Entry& entry, absl::Time now);
  // answer: the one that ends IsUntaken.
  void WaitForUpdate(Entry& entry, const AnswerFrame& answer, Stage stage);
  void SettleIfKnown(Entry& entry);
  // A missing update counts as compacted.
  void Settle(Entry& entry, Fate fate);

  const LedgerOptions options_;
  Connections* const connections_;
  std::vector<Entry> entries_;  // by segment
  DueQueue due_;                // by segment
  std::vector<Settled> settled_;
  absl::Status failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_

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

// One segment's part of one sync, on its way to its shard.
struct SegmentPush {
  uint32_t epoch = 0;
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer payload;
  float norm = 0;
  uint64_t weight = 0;  // tokens behind it
  // An earlier process may have sent it: only its shard can say what became of it.
  bool sent_before = false;
  uint32_t accounted = 0;  // see SyncPipeline::Push
};

// What became of a contribution.
enum class Fate : uint8_t {
  kAccepted,  // it is in the round's merge
  kLate,      // the round was closed without it: it goes with a later one
  kUnknown,   // the shard no longer knows: whoever puts it back may count it twice
};

struct Settled {
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer merged;  // the round's update; empty when it is gone
  Fate fate = Fate::kAccepted;
  // No shard keeps the round's update any more: the segment must be fetched from `round` on.
  bool gone = false;
  // The segment's newest open round that was heard of: more than round + 1 means that this worker
  // is behind.
  uint32_t open_round = 0;
};

// What becomes of a worker's contributions, pure: which frame is to be sent when, and what the
// frames that come in mean. A part of WorkerLedger. No socket, thread or clock inside; times are
// arguments.
//
// A contribution:
//   unsent    Entered by Post, and by the answers `busy` and `not a member` (yet, or any more). Its
//             push is due at once, or after a backoff that doubles from kBusyBackoffMin to
//             kBusyBackoffMax, without end.
//   sent      Not answered yet. After a silence it is pushed again: a repetition changes nothing.
//   accepted  The shard has it (`duplicate` means that too). Waits for the round's update, and
//             pulls it after a silence.
//   late      The shard has closed the round without it, and sends its update. Waits like accepted.
//             So is one whose place another contribution of this worker has: that of an earlier
//             process, whose residual is lost. The answer `duplicate` tells them by their payload's
//             CRC. Where the residual is not lost (`accounted`), another process goes on from a
//             copy of it: a failure.
//   settled   Once its fate is known and the update is there, or is gone: see TakeSettled. Of a
//             segment one contribution is open at a time.
// A contribution that was never sent when its round's update comes is late. What became of any
// other only an answer to it says: what was refused as busy may have reached the shard's disk, and
// copies of a frame may be on their way for long. A shard that comes back as another incarnation
// may have lost what it had accepted, or closed without it, so that this is pushed again, too.
//
// A silence is counted by connection: as long as answers and updates for what is open come in on
// it, what is missing may be on its way. (`busy`, `not a member`, the answer to a hello and rounds
// to come say nothing of that.) It lasts retry_after and the time that what is outstanding on the
// connection takes at kBytesPerSecondMin, there and back, and as much of every other worker's takes
// on the shard's link (RoundSilence); slower links carry some frames twice.
// Then all that waits on the connection is sent again, as soon as anything was heard since it was
// sent last: to a peer that is away nothing is repeated but the hello, since what waits in queues
// would all arrive. Each repetition for one contribution waits twice as long as the one before,
// kSilenceDoublings times.
//
// An update that comes before its round's contribution was posted is kept for it (a quorum was
// ahead) for as long as its shard is the same process.
class PushLedger {
 public:
  // `connections` outlives this.
  PushLedger(LedgerOptions options, Connections* connections);

  // FailedPrecondition: the segment's last contribution is not settled.
  absl::Status Post(SegmentPush push, absl::Time now);

  // Whether the segment has a contribution that is not settled.
  bool is_open(uint32_t segment) const;
  // The first round of the segment that is not there, as far as contributions tell.
  uint32_t next_round(uint32_t segment) const;

  // A verified frame of this run for a segment of the model.
  void Take(const FrameHeader& header, const Buffer& payload, absl::Time now);
  // Something came in on the connection: what waited for a sign of life may be repeated.
  void Heard(uint32_t connection, absl::Time now);
  // All that is outstanding on the connection is due now, as the shard may have lost what it had.
  void Again(uint32_t connection, absl::Time now);
  // All that waits there for an answer or an update is due now: both may be lost, and nothing else.
  void Resume(uint32_t connection, absl::Time now);
  // Of pushes and updates that are not settled.
  uint64_t outstanding_bytes(uint32_t connection) const {
    return states_[connection].outstanding_bytes;
  }

  // The frame to be sent next, if one is due: the same until it is Sent or its connection held.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // When Due is to be asked next, if nothing comes in until then.
  absl::Time DueAt() const { return due_.front_at(); }

  bool has_settled() const { return !settled_.empty(); }
  // Those that were settled since the last call, without open_round.
  std::vector<Settled> TakeSettled();

  // FailedPrecondition, with the shard's sentence, once it rejected a push or a pull: nothing that
  // is sent again would be taken.
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
    bool sent = false;     // the push, ever
    int repetitions = 0;   // for want of an answer or update
    int refusals = 0;      // busy and not a member, one after the other
    bool overdue = false;  // a silence was found on its connection while it waited
    bool gone = false;     // it was settled without its round's update
    absl::Time sent_at = absl::InfinitePast();
    uint64_t outstanding_bytes = 0;  // its share of its connection's
    uint64_t merged_bytes = 0;       // of its last update
  };
  struct Connection {
    absl::Time told = absl::InfinitePast();  // by an answer or update for what is open
    uint64_t outstanding_bytes = 0;          // of pushes and updates that are not settled
    std::vector<uint32_t> parked;            // overdue segments that wait for a sign of life
  };

  Connection& ConnectionOf(uint32_t segment) { return states_[options_.connections[segment]]; }
  static bool IsOutstanding(const Entry& entry) {
    return entry.stage != Stage::kSettled && entry.repetitions > 0;
  }
  // Whether no shard is known to have the push.
  static bool IsUntaken(const Entry& entry) {
    return entry.stage == Stage::kUnsent || entry.stage == Stage::kSent;
  }
  void Schedule(const Entry& entry, absl::Time at);
  // After a silence on the connection: all that waits for its end.
  void MarkOverdue(uint32_t connection, absl::Time now);
  OutgoingFrame FrameFor(const Entry& entry) const;
  void TakeMerged(Entry& entry, const FrameHeader& header, const Buffer& payload, absl::Time now);
  void TakeAnswer(Entry& entry, const FrameHeader& header, const Buffer& payload, absl::Time now);
  void Refused(Entry& entry, absl::Time now);
  // header: of the answer that ends its being untaken.
  void WaitForUpdate(Entry& entry, const FrameHeader& header, Stage stage, absl::Time now);
  void SettleIfKnown(Entry& entry);
  // The update is gone where it is not there.
  void Settle(Entry& entry, Fate fate);

  const LedgerOptions options_;
  Connections* const connections_;
  std::vector<Entry> entries_;      // by segment
  std::vector<Connection> states_;  // by connection
  DueQueue due_;                    // by segment
  std::vector<Settled> settled_;
  absl::Status failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_

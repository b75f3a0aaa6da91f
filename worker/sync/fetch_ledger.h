#ifndef LONGWAVE_WORKER_SYNC_FETCH_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_FETCH_LEDGER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "worker/sync/connections.h"
#include "worker/sync/due_queue.h"
#include "worker/sync/ledger_options.h"

namespace longwave {

// Events of a segment's fetch, in order: snapshots and updates, each the next one after those
// before, and at last UpToDate or FetchRefused.

struct Fetched {
  uint32_t segment = 0;
  // An update's round, or the first round that is not in a snapshot.
  uint32_t round = 0;
  bool is_snapshot = false;
  Buffer payload;
};
struct UpToDate {
  uint32_t segment = 0;
  uint32_t open_round = 0;  // the first round that is not there
};
struct FetchRefused {
  uint32_t segment = 0;
  uint32_t round = 0;  // the first round requested
  std::string reason;  // the shard's sentence
};
using FetchEvent = std::variant<Fetched, UpToDate, FetchRefused>;

// A worker's fetches of missed rounds, pure: which frame is due when, and the meaning of incoming
// frames. A part of WorkerLedger.
//
// A segment:
//   idle       No fetch.
//   waiting    The fetch waits while kSegmentsAtOnce others of its connection are under way.
//   asking     A kFetch frame is due or sent: the shard chooses the way from `next` on with the
//              fewest bytes. A snapshot in answer is delivered, and the ledger fetches again from
//              there. The answer `accepted` says how far the log goes, and leads to pulling.
//   pulling    At most kWindow rounds from `next` on are pulled at a time and delivered in order.
//              `compacted` leads back to asking. A fetch up to a given round waits here until the
//              rounds before it are closed.
//   following  A fetch up to the present has got there. The ledger keeps later updates, at most
//              kAheadMax, for the next Want of the rest, as long as the shard's process is the
//              same.
// `busy` and `not a member` delay a request, without limit. `rejected` ends the fetch.
//
// Each request has one answer, as with pushes. A request without an answer is repeated after its
// connection has lost something. Updates may arrive in any order, twice, and before their pull: at
// most kAheadMax are kept. The ledger makes no requests while kReadyMax events wait to be taken.
class FetchLedger {
 public:
  // `connections` outlives this.
  FetchLedger(LedgerOptions options, Connections* connections);

  // Fetches the rounds from `from_round` to `until_round` (exclusive) of a segment, or up to the
  // present. from_round kRoundNever: the segment lacks even the run's first weights, so that a
  // snapshot comes first. A shard without such old rounds may lead beyond until_round: see
  // UpToDate. An earlier fetch of the segment ends, and its events are dropped. InvalidArgument: no
  // such segment.
  absl::Status Want(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  // Forgets the segment and its kept updates.
  void Stop(uint32_t segment, absl::Time now);
  // The segment's first round not delivered since the segment was last forgotten.
  uint32_t next_round(uint32_t segment) const {
    const uint32_t next = entries_[segment].next;
    return next == kRoundNever ? 0 : next;
  }

  // Take verified frames of this run for a segment of the model. True: for this ledger alone.
  bool Take(const AnswerFrame& answer, const Buffer& payload, absl::Time now);
  bool Take(const MergedFrame& merged, const Buffer& payload, absl::Time now);
  void Take(const SnapshotFrame& snapshot, const Buffer& payload, absl::Time now);
  // See PushLedger.
  void Again(uint32_t connection, absl::Time now);
  void Resume(uint32_t connection, absl::Time now);
  uint64_t OutstandingBytes(uint32_t connection) const;

  // The next frame due, if any; the same until it is Sent or its connection held.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  absl::Time DueAt() const;

  bool has_ready() const { return !ready_.empty(); }
  std::optional<FetchEvent> TakeReady();

  static constexpr uint32_t kWindow = 4;
  static constexpr uint32_t kAheadMax = 16;
  static constexpr uint32_t kSegmentsAtOnce = 8;
  static constexpr size_t kReadyMax = 64;

 private:
  enum class Stage : uint8_t { kIdle, kWaiting, kAsking, kPulling, kFollowing };
  struct Entry {
    Stage stage = Stage::kIdle;
    uint32_t next = 0;                // the round to be delivered next
    uint32_t until = kRoundNever;     // exclusive
    uint32_t open = 0;                // the newest known
    uint32_t asked = 0;               // pulls were sent for rounds before this one
    std::map<uint32_t, Buffer> kept;  // by round; those from `next` on
    bool fetch_sent = false;
    int refusals = 0;           // of missing frames, since the last progress
    uint64_t merged_bytes = 0;  // of its last update
  };

  static bool IsActive(const Entry& entry) {
    return entry.stage == Stage::kAsking || entry.stage == Stage::kPulling;
  }
  // ActivateNext begins waiting fetches up to kSegmentsAtOnce.
  void Begin(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  void ActivateNext(uint32_t connection, absl::Time now);
  // `stage` is not an active one.
  void Leave(uint32_t segment, Stage stage, absl::Time now);
  bool Refuse(uint32_t segment, std::string reason, absl::Time now);
  // Enters asking, with the fetch due at that time.
  void Ask(uint32_t segment, absl::Time at);
  // All missing frames are due at that time.
  void AskAgain(uint32_t segment, absl::Time at);
  // The first round that may be pulled and was not.
  std::optional<uint32_t> NextPull(const Entry& entry) const;
  // The next request of an active segment.
  std::optional<OutgoingFrame> FrameFor(uint32_t segment) const;
  // Due now if there is a request to make, else never.
  void ScheduleNext(uint32_t segment, absl::Time now);
  // A missing frame has come.
  void Progressed(uint32_t segment, absl::Time now);
  // Delivers the kept rounds from `next` on, and ends the fetch after the last.
  void Deliver(uint32_t segment, absl::Time now);

  const LedgerOptions options_;
  Connections* const connections_;
  std::vector<Entry> entries_;                 // by segment
  std::vector<std::deque<uint32_t>> waiting_;  // by connection: segments, in order
  std::vector<std::vector<uint32_t>> active_;  // by connection
  DueQueue due_;                               // by segment
  std::deque<FetchEvent> ready_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_FETCH_LEDGER_H_

#ifndef LONGWAVE_WORKER_SYNC_SEGMENT_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_SEGMENT_LEDGER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/fields.h"
#include "common/control/control.h"
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
  bool is_valid = false;  // whether another thread has found that `merged` fits the segment
  LONGWAVE_FIELDS(round, segment, fate, compacted)
};

// An event of a segment's fetch. In order: snapshots and updates, each the next one after those
// before, and at last kUpToDate or kRefused.
struct FetchEvent {
  enum class Kind : uint8_t { kUpdate, kSnapshot, kUpToDate, kRefused };
  Kind kind = Kind::kUpdate;
  uint32_t segment = 0;
  // The update's; the first one that is not in the snapshot; the first one that is not there; the
  // first one requested.
  uint32_t round = 0;
  Buffer payload = {};      // of an update or a snapshot
  std::string reason = {};  // kRefused: the shard's sentence
  LONGWAVE_FIELDS(kind, segment, round, reason)
};

template <typename T>
std::optional<T> TakeFirst(std::deque<T>& queue) {
  if (queue.empty()) return std::nullopt;
  T first = std::move(queue.front());
  queue.pop_front();
  return first;
}

// The state of each segment, its contribution or its fetch of missed rounds, pure: which frame is
// due when, and the meaning of incoming frames. A part of WorkerLedger. No socket, thread or clock
// inside; times are arguments.
//
//   idle       Neither. Entered once a contribution is settled: its fate is known, and its round's
//              update is there or compacted (TakeSettled).
//
// A contribution, of which a segment has one at a time:
//   unsent     Entered by Post, and by the answers `busy` and `not a member`. The push is due at
//              once, or after a backoff that doubles from kBusyBackoffMin to kBusyBackoffMax,
//              without limit.
//   sent       No answer yet.
//   accepted   The shard has the contribution (`accepted` or `duplicate`). The ledger waits for the
//              round's update.
//   late       The shard has closed the round without the contribution and sends the update. The
//              ledger waits as in accepted. Also late is a contribution whose place another one of
//              this worker has, sent by an earlier process whose residual is lost. The answer
//              `duplicate` tells the two apart by their payload's CRC. Where the residual is not
//              lost (`accounted`), another process uses a copy of it: a failure.
// A contribution that was never sent before its round's update came is late. The fate of any other
// follows only from an answer: a push rejected as busy may be on the shard's disk, and copies of a
// frame may be under way for long. A shard that returns as another incarnation may have lost an
// accepted contribution, or closed without it, so the ledger pushes that again too.
//
// A fetch, which a contribution ends:
//   waiting    The fetch waits while kSegmentsAtOnce others of its connection are under way.
//   asking     A kFetch frame is due or sent: the shard chooses the way from `next` on with the
//              fewest bytes. A snapshot in answer is delivered, and the ledger fetches again from
//              there. The answer `accepted` says how far the log goes, and leads to pulling.
//   pulling    At most kWindow rounds from `next` on are pulled at a time and delivered in order.
//              `compacted` leads back to asking. A fetch up to a given round waits here until the
//              rounds before it are closed.
//   following  A fetch up to the present has got there. The next fetch has the later updates.
// `busy` and `not a member` delay a request, without limit. `rejected` ends the fetch. The ledger
// makes no requests while kReadyMax events wait to be taken.
//
// Each frame has one answer, and a shard sends a round's update when the round closes. So the
// ledger repeats only rejected frames and, where a connection has lost something (Resume), frames
// without an answer: the push, a pull of the update, the fetch.
//
// Updates may arrive in any order, twice, and before what they are for: the ledger keeps some (see
// KeptMax) while the shard's process is the same.
class SegmentLedger {
 public:
  // `connections` outlives this.
  SegmentLedger(LedgerOptions options, Connections* connections);

  // Ends a fetch of the segment, whose events are dropped. InvalidArgument: no such segment.
  // FailedPrecondition: the segment has an open contribution.
  absl::Status Post(SegmentPush push, absl::Time now);

  // Fetches the rounds from `from_round` to `until_round` (exclusive) of a segment, or up to the
  // present. from_round kRoundNever: the segment lacks even the run's first weights, so that a
  // snapshot comes first. A shard without such old rounds may lead beyond until_round: see
  // kUpToDate. An earlier fetch of the segment ends, and its events are dropped. Errors: as Post.
  absl::Status Fetch(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);

  // The first round of the segment that is not there.
  uint32_t position(uint32_t segment) const { return Position(entries_[segment]); }

  // Take verified frames of this run for a segment of the model.
  void OnAnswer(const AnswerFrame& answer, const Buffer& payload, absl::Time now);
  void OnMerged(const MergedFrame& merged, const Buffer& payload, absl::Time now);
  void OnSnapshot(const SnapshotFrame& snapshot, const Buffer& payload, absl::Time now);
  // Makes everything outstanding on the connection due now: the shard may have lost it.
  void Again(uint32_t connection, absl::Time now);
  // Makes frames without an answer due now, pushes up to that frame number on the connection.
  void Resume(uint32_t connection, uint32_t lost_up_to, absl::Time now);
  // Bytes of pushes, updates and snapshots that are awaited.
  uint64_t OutstandingBytes(uint32_t connection) const;

  // The next fetch's frame or contribution's frame that is due; the same until it is Sent or its
  // connection held.
  std::optional<OutgoingFrame> NextFetch(absl::Time now);
  std::optional<OutgoingFrame> NextContribution(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  // The time to ask for due frames again if no frame comes before.
  absl::Time DueAt() const { return std::min(FetchDueAt(), contributions_due_.front_at()); }

  bool has_settled() const { return !settled_.empty(); }
  std::optional<Settled> TakeSettled() { return TakeFirst(settled_); }
  bool has_fetched() const { return !fetched_.empty(); }
  std::optional<FetchEvent> TakeFetched() { return TakeFirst(fetched_); }

  // FailedPrecondition, with the shard's sentence, once the shard rejected a contribution's push or
  // pull. A repetition would be rejected too.
  const absl::Status& failure() const { return failure_; }

  static constexpr uint32_t kWindow = 4;
  static constexpr uint32_t kAheadMax = 16;
  static constexpr uint32_t kSegmentsAtOnce = 8;
  static constexpr size_t kReadyMax = 64;

 private:
  enum class Stage : uint8_t {
    kIdle,
    kUnsent,
    kSent,
    kAccepted,
    kLate,
    kWaiting,
    kAsking,
    kPulling,
    kFollowing
  };
  struct Entry {
    Stage stage = Stage::kIdle;
    uint32_t settled_next = 0;  // the first round not there by its contributions alone
    uint32_t next = 0;          // by its last fetch, since the last contribution: to be delivered
    std::map<uint32_t, Buffer> kept;  // updates by round, from the next on
    uint64_t merged_bytes = 0;        // of its last update
    int refusals = 0;  // busy and not a member, one after the other; of a fetch, other detours too
    // A contribution's.
    SegmentPush push;
    bool sent = false;     // the push was sent at least once
    uint32_t sent_as = 0;  // the number of its last frame on its connection; 0: none
    // A fetch's.
    uint32_t until = kRoundNever;  // exclusive
    uint32_t open = 0;             // the newest known
    uint32_t asked = 0;            // pulls were sent for rounds before this one
    bool fetch_sent = false;
  };

  static bool IsUntaken(Stage stage) { return stage == Stage::kUnsent || stage == Stage::kSent; }
  static bool IsContribution(Stage stage) {
    return IsUntaken(stage) || stage == Stage::kAccepted || stage == Stage::kLate;
  }
  static bool IsFetching(Stage stage) {
    return stage == Stage::kAsking || stage == Stage::kPulling;
  }
  static bool IsFetch(Stage stage) {
    return IsFetching(stage) || stage == Stage::kWaiting || stage == Stage::kFollowing;
  }
  static uint32_t Position(const Entry& entry) {
    return std::max(entry.settled_next, entry.next == kRoundNever ? 0 : entry.next);
  }
  // Updates that a segment keeps: what a fetch may need, or a contribution's and the next one's.
  static size_t KeptMax(Stage stage) { return IsFetch(stage) ? kAheadMax : 2; }
  // round + count, at most kRoundNever.
  static uint32_t After(uint32_t round, uint32_t count) {
    return round < kRoundNever - count ? round + count : kRoundNever;
  }
  uint32_t connection(uint32_t segment) const { return options_.connections[segment]; }
  // OK: the segment exists and has no open contribution.
  absl::Status CheckFree(const char* what, uint32_t segment) const;
  // The segment's next frame is due at that time.
  void Schedule(uint32_t segment, absl::Time at);
  bool WaitsForTurn(uint32_t segment) const {
    return contributions_due_.at(segment) != absl::InfiniteFuture();
  }
  std::optional<OutgoingFrame> NextFrame(DueQueue& due, absl::Time now);
  std::optional<OutgoingFrame> FrameFor(uint32_t segment) const;

  // Contributions (segment_contribution.cc).
  OutgoingFrame ContributionFrame(const Entry& entry) const;
  void OnContributionAnswer(Entry& entry, const AnswerFrame& answer, const Buffer& payload,
                            absl::Time now);
  void Refused(Entry& entry, absl::Time now);
  // answer: the one that ends IsUntaken.
  void WaitForUpdate(Entry& entry, const AnswerFrame& answer, Stage stage);
  void SettleIfKnown(Entry& entry);
  // A missing update counts as compacted.
  void Settle(Entry& entry, Fate fate);

  // Fetches (segment_fetch.cc).
  absl::Time FetchDueAt() const {
    return fetched_.size() < kReadyMax ? fetches_due_.front_at() : absl::InfiniteFuture();
  }
  // Ends the fetch and drops its events.
  void StopFetch(uint32_t segment, absl::Time now);
  void BeginFetch(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  // Begins waiting fetches up to kSegmentsAtOnce.
  void ActivateNext(uint32_t connection, absl::Time now);
  // `stage` is not a fetching one.
  void EndFetching(uint32_t segment, Stage stage, absl::Time now);
  // Enters asking, with the fetch due at that time.
  void Ask(uint32_t segment, absl::Time at);
  // All missing frames are due at that time.
  void AskAgain(uint32_t segment, absl::Time at);
  // The first round that may be pulled and was not.
  std::optional<uint32_t> NextPull(const Entry& entry) const;
  std::optional<OutgoingFrame> FetchingFrame(uint32_t segment) const;
  // Due now if there is a request to make, else never.
  void ScheduleRequest(uint32_t segment, absl::Time now);
  void OnFetchAnswer(Entry& entry, const AnswerFrame& answer, const Buffer& payload,
                     absl::Time now);
  // A missing frame has come.
  void Progressed(uint32_t segment, absl::Time now);
  // Delivers the kept rounds from `next` on, and ends the fetch after the last.
  void Deliver(uint32_t segment, absl::Time now);

  const LedgerOptions options_;
  Connections* const connections_;
  std::vector<Entry> entries_;  // by segment
  DueQueue contributions_due_;  // by segment
  std::deque<Settled> settled_;
  absl::Status failure_;                       // of a contribution
  DueQueue fetches_due_;                       // by segment
  std::vector<std::deque<uint32_t>> waiting_;  // by connection: segments, in order
  std::vector<uint32_t> fetching_;             // by connection: segments in asking and pulling
  std::deque<FetchEvent> fetched_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_SEGMENT_LEDGER_H_

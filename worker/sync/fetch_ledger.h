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

// What a fetch of a segment brings, each segment in order: snapshots and updates, each the next one
// for who has taken those before, and at last UpToDate or FetchRefused.

struct Fetched {
  uint32_t segment = 0;
  // Of an update: its round. Of a snapshot: the first round that is not in it.
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
  uint32_t round = 0;  // from which on it was asked for
  std::string reason;  // the shard's sentence
};
using FetchEvent = std::variant<Fetched, UpToDate, FetchRefused>;

// How a worker gets what it has missed, pure: which frame is to be sent when, and what the frames
// that come in mean. A part of WorkerLedger.
//
// A segment:
//   idle       Nothing is wanted.
//   waiting    Wanted, while kSegmentsAtOnce others of its connection are fetched.
//   asking     A fetch is due or sent: how does one get from `next` on with the fewest bytes? A
//              snapshot in answer is delivered, and what leads on from there is asked for. The
//              answer `accepted` says how far the log goes, and leads to pulling.
//   pulling    At most kWindow rounds from `next` on are asked for at a time, and delivered in
//              order. `gone` leads back to asking. Whoever wants the rounds before a given one
//              waits here until they are closed.
//   following  Up to the present was wanted and is reached. Updates that come since are kept, at
//              most kAheadMax of them, for the next Want of the rest; not beyond the process of the
//              shard that told them.
// `busy` and `not a member` put a request off, without end. `rejected` ends the fetch.
//
// After a silence, which is counted by segment, what is missing is asked for again: see PushLedger
// for how long it is (but at most ten seconds beyond what a slow link takes) and why nothing is
// repeated to a peer that is away. Updates may come in any
// order, twice, and before they are asked for: at most kAheadMax are kept. Nothing more is asked
// for while kReadyMax events wait to be taken.
class FetchLedger {
 public:
  // `connections` outlives this.
  FetchLedger(LedgerOptions options, Connections* connections);

  // Wants what leads a segment whose rounds before `from_round` are there (kRoundNever: not even
  // what the run began with, so that a snapshot comes first) to `until_round` (exclusive), or to
  // the present. A shard that has nothing as old may lead beyond until_round: see UpToDate.
  // A fetch of the segment that is under way ends, with all that it has brought. InvalidArgument:
  // no such segment.
  absl::Status Want(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  // Forgets the segment, and what was kept of it.
  void Stop(uint32_t segment, absl::Time now);
  // The first round of the segment that was not delivered since it was forgotten last.
  uint32_t next_round(uint32_t segment) const {
    const uint32_t next = entries_[segment].next;
    return next == kRoundNever ? 0 : next;
  }

  // A verified frame of this run for a segment of the model. True: it was for this ledger alone.
  bool Take(const FrameHeader& header, const Buffer& payload, absl::Time now);
  // As PushLedger has them.
  void Heard(uint32_t connection, absl::Time now);
  void Again(uint32_t connection, absl::Time now);
  void Resume(uint32_t connection, absl::Time now);
  uint64_t OutstandingBytes(uint32_t connection) const;

  // The frame to be sent next, if one is due: the same until it is Sent or its connection held.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(const OutgoingFrame& frame, absl::Time now);
  absl::Time DueAt() const;

  bool has_ready() const { return !ready_.empty(); }
  // The next event, if there is one.
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
    uint32_t open = 0;                // as far as is known
    uint32_t asked = 0;               // pulls were sent for rounds before this one
    std::map<uint32_t, Buffer> kept;  // by round; those from `next` on
    bool fetch_sent = false;
    int repetitions = 0;  // of what is missing, since something came
    int refusals = 0;     // likewise
    bool parked = false;  // a silence has passed: waits for a sign of life
    absl::Time sent_at = absl::InfinitePast();
    uint64_t merged_bytes = 0;  // of its last update
  };

  static bool IsActive(const Entry& entry) {
    return entry.stage == Stage::kAsking || entry.stage == Stage::kPulling;
  }
  // Those that wait, as far as kSegmentsAtOnce allows it.
  void Begin(uint32_t segment, uint32_t from_round, uint32_t until_round, absl::Time now);
  void ActivateNext(uint32_t connection, absl::Time now);
  // To a stage that is not active.
  void Leave(uint32_t segment, Stage stage, absl::Time now);
  bool Refuse(uint32_t segment, std::string reason, absl::Time now);
  // To the stage asking; the fetch is due at that time.
  void Ask(uint32_t segment, absl::Time at);
  // All that is missing is due at that time.
  void AskAgain(uint32_t segment, absl::Time at);
  // The first round that may be asked for and was not.
  std::optional<uint32_t> NextPull(const Entry& entry) const;
  // What an active segment has not asked for yet.
  std::optional<OutgoingFrame> FrameFor(uint32_t segment) const;
  // Now if there is something to ask for, else after a silence from now on.
  void ScheduleNext(uint32_t segment, absl::Time now);
  // Something that was missing has come.
  void Progressed(uint32_t segment, absl::Time now);
  // What is next, as far as it is there; ends the fetch if that is all.
  void Deliver(uint32_t segment, absl::Time now);
  bool TakeAnswer(const FrameHeader& header, const Buffer& payload, absl::Time now);
  bool TakeMerged(const FrameHeader& header, const Buffer& payload, absl::Time now);
  void TakeSnapshot(const FrameHeader& header, const Buffer& payload, absl::Time now);

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

#ifndef LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_
#define LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"

namespace longwave {

// One segment's part of one sync, on its way to its shard.
struct SegmentPush {
  uint32_t epoch = 0;
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer payload;
  float norm = 0;
  uint64_t weight = 0;  // tokens behind it
};

// What came of a contribution.
struct Settled {
  uint32_t round = 0;
  uint32_t segment = 0;
  Buffer merged;         // the round's update
  bool accepted = true;  // false: the round was closed without it, which goes with a later one
};

// A segment of no model: in a hello, so that its answer is no push's.
inline constexpr uint32_t kNoSegment = ~uint32_t{0};

struct LedgerOptions {
  uint64_t run = 0;
  uint32_t worker = 0;
  std::vector<uint32_t> connections;  // by segment: the connection that its frames take
  uint32_t connection_count = 0;
  uint64_t download_bytes_per_s = 0;  // that each shard may send, told by hello; 0: no limit
  absl::Duration retry_after = absl::Seconds(10);  // silence after which a frame is sent again
};

// A worker's decisions on the data plane, pure: which frame is to be sent when, and what the frames
// that come in mean. No socket, thread or clock inside; times are arguments. Not thread-safe.
//
// A contribution:
//   unsent    Entered by Post, and by the answer `busy`. Its push is due at once, or after a
//             backoff that doubles from kBusyBackoffMin to kBusyBackoffMax.
//   sent      Not answered yet. After a silence it is pushed again: a repetition changes nothing.
//   accepted  The shard has it (`duplicate` means that too). Waits for the round's update, and
//             pulls it after a silence.
//   late      The shard has closed the round without it. The update is pulled at once, if it is not
//             there.
//   settled   Once its fate is known and the update is there: see TakeSettled. Of a segment one
//             contribution is open at a time.
//
// A silence is counted by connection: as long as answers and updates come in on it, what is missing
// may be on its way. (`busy` and the answer to a hello say nothing of that: a shard may be busy for
// as long as the very push is missing that was lost.) It lasts retry_after and the time that what
// is outstanding on the connection takes at kBytesPerSecondMin, there and back; a slower link
// carries some frames twice. Then all that waits on the connection is sent again. Each repetition
// for one contribution waits twice as long as the one before, kSilenceDoublings times. A hello
// opens each connection, and again after a silence.
//
// An update that comes before its round's contribution was posted is kept for it: a quorum was
// ahead.
class PushLedger {
 public:
  explicit PushLedger(LedgerOptions options);

  // FailedPrecondition: the segment's last contribution is not settled.
  absl::Status Post(SegmentPush push, absl::Time now);

  // A verified frame that came in on `connection`.
  void Take(uint32_t connection, const FrameHeader& header, const Buffer& payload, absl::Time now);

  struct Outgoing {
    uint32_t connection = 0;
    FrameHeader header;
    Buffer payload;
  };
  // The frame to be sent next, if one is due: the same until Sent or Held is told of it.
  std::optional<Outgoing> Due(absl::Time now);
  void Sent(const Outgoing& frame, absl::Time now);
  // Its connection takes nothing more for now: nothing is due on it until `then`.
  void Held(const Outgoing& frame, absl::Time then);
  // When Due is to be asked next, if nothing comes in until then.
  absl::Time DueAt() const;

  bool has_settled() const { return !settled_.empty(); }
  // Those that were settled since the last call.
  std::vector<Settled> TakeSettled();

  // FailedPrecondition, with the shard's sentence, once it rejected a push or a pull: nothing that
  // is sent again would be taken.
  const absl::Status& failure() const { return failure_; }

  static constexpr absl::Duration kBusyBackoffMin = absl::Milliseconds(50);
  static constexpr absl::Duration kBusyBackoffMax = absl::Seconds(2);
  static constexpr int kSilenceDoublings = 5;
  static constexpr uint64_t kBytesPerSecondMin = 125'000;  // 1 Mbit/s

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
    // Pushes that may still be answered `accepted`.
    int unanswered = 0;
    int repetitions = 0;             // for want of an answer or update
    int busy = 0;                    // answers of that kind, one after the other
    bool overdue = false;            // a silence was found on its connection while it waited
    uint64_t outstanding_bytes = 0;  // its share of its connection's
    uint64_t merged_bytes = 0;       // of its last update
  };
  struct Connection {
    absl::Time heard = absl::InfinitePast();
    absl::Time greeted = absl::InfinitePast();
    absl::Time held_until = absl::InfinitePast();
    int repetitions = 0;             // of a hello without an answer
    uint64_t outstanding_bytes = 0;  // of pushes and updates that are not settled
  };
  // What is due when. Equal times go in the order in which they were set.
  struct Task {
    absl::Time at = absl::InfiniteFuture();
    uint64_t order = 0;
    uint32_t index = 0;  // a connection's hello, or connection_count + segment
    bool operator==(const Task&) const = default;
    std::weak_ordering operator<=>(const Task&) const = default;
  };

  uint32_t TaskOf(uint32_t segment) const { return options_.connection_count + segment; }
  void Schedule(uint32_t index, absl::Time at);
  // From when on the frame may go, as the silence on its connection has it.
  absl::Time SilentAt(const Entry& entry, const Connection& connection) const;
  absl::Duration Silence(int repetitions) const;
  absl::Duration Silence(int repetitions, const Connection& connection) const;
  // After a silence on the connection: all that waits for its end.
  void MarkOverdue(uint32_t connection, absl::Time now);
  absl::Duration BusyBackoff(const Entry& entry) const;
  Outgoing Hello(uint32_t connection) const;
  Outgoing FrameFor(const Entry& entry) const;
  void TakeMerged(Entry& entry, const FrameHeader& header, const Buffer& payload);
  void TakeAnswer(Entry& entry, const FrameHeader& header, const Buffer& payload, absl::Time now);
  void TakeHelloAnswer(uint32_t connection, Outcome outcome, absl::Time now);
  void SettleIfKnown(Entry& entry);

  const LedgerOptions options_;
  std::vector<Entry> entries_;  // by segment
  std::vector<Connection> connections_;
  std::vector<Task> tasks_;  // by index; those with a time are in due_ too
  std::set<Task> due_;
  uint64_t order_ = 0;
  std::vector<Settled> settled_;
  absl::Status failure_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_PUSH_LEDGER_H_

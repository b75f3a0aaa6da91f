#ifndef LONGWAVE_SERVER_SHARD_PACER_H_
#define LONGWAVE_SERVER_SHARD_PACER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/token_bucket.h"
#include "common/link/sealed_frame.h"

namespace longwave {

// Holds what each worker is sent to the rate that it asked for. Only what was sent is charged, by
// who has sent it: what was refused on its way costs its worker nothing. Merged updates wait here
// while their worker's bucket is empty; they keep the shared buffer, no copy. For each worker and
// segment at most one update waits that a close has sent, the one of the newest round: a worker
// that is a round behind pulls, and is told. What it has asked for itself, older updates and
// snapshots to catch up with, waits each on its own, at most kAskedMax of them: it asks again. So a
// worker's queue is never longer than the shard has segments and kAskedMax. Pure: times are
// arguments.
class Pacer {
 public:
  // What a bucket saves up: it evens out a thread that was busy when frames fell due.
  static constexpr absl::Duration kBurst = absl::Milliseconds(100);
  static constexpr size_t kAskedMax = 64;

  // encryption: of the links that the frames will go by.
  explicit Pacer(Encryption encryption = Encryption::kNone) : encryption_(encryption) {}

  // Why a frame is sent.
  enum class Cause : uint8_t { kClose, kAsked };

  // The worker has not said yet what it may be sent: what comes to Admit waits until SetRate, or
  // until `until` if that is not called.
  void AwaitRate(uint32_t worker, absl::Time until);
  // Bytes a second, 0: no limit. Naming the rate that holds already changes nothing else.
  void SetRate(uint32_t worker, uint64_t bytes_per_s);
  uint64_t RateOf(uint32_t worker) const;

  // Bytes that went to the worker: each frame that Admit or Pop let go once it is sent, and what
  // goes without asking.
  void Charge(uint32_t worker, uint64_t bytes, absl::Time now);

  // True: the frame may go now. False: it was kept, and comes back by Pop; or a
  // newer one of its segment waits already, or too much that was asked for, and it was dropped.
  bool Admit(uint32_t worker, const SealedFrame& frame, absl::Time now,
             Cause cause = Cause::kClose);

  struct Due {
    uint32_t worker = 0;
    SealedFrame frame;
    Cause cause = Cause::kClose;
  };
  // The next frame whose time has come. Workers in the order of their times, a worker's
  // frames in the order of Admit.
  std::optional<Due> Pop(absl::Time now);
  // The frame could not be sent, and comes back at `until` at the earliest, before the worker's
  // others; unless a newer one of its segment waits.
  void PutBack(uint32_t worker, SealedFrame frame, absl::Time until, Cause cause = Cause::kClose);

  // When Pop may have something again; InfiniteFuture: nothing waits.
  absl::Time NextDue() const;

  struct Waiting {
    size_t frames = 0;
    uint64_t bytes = 0;
  };
  Waiting WaitingFor(uint32_t worker) const;

  void Forget(uint32_t worker);

 private:
  // What a frame is to its worker: of those with one key one waits.
  struct Key {
    uint32_t segment = 0;
    Cause cause = Cause::kClose;
    FrameKind kind = FrameKind::kMerged;
    uint32_t round = 0;  // 0 for what a close has sent
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.segment, key.cause, key.kind, key.round);
    }
  };
  struct Queue {
    TokenBucket bucket;
    std::deque<Key> keys;  // in order; the frame of each is in `frames`
    absl::flat_hash_map<Key, SealedFrame> frames;
    size_t asked = 0;  // of them
    uint64_t bytes = 0;
    absl::Time not_before = absl::InfinitePast();  // after a PutBack
    absl::Time rate_by = absl::InfinitePast();     // after an AwaitRate
    absl::Time due = absl::InfiniteFuture();       // its place in due_, if a frame waits
  };

  static absl::Duration WaitOf(const Queue& queue, absl::Time now);
  static Key KeyOf(const SealedFrame& frame, Cause cause);
  // Keeps the frame, or the one of its key that is kept and newer. `place`: where it stands if its
  // key has no place yet.
  enum class Place { kFirst, kLast };
  void Keep(Queue& queue, SealedFrame frame, Cause cause, Place place) const;
  void Schedule(uint32_t worker, Queue& queue, absl::Time due);
  void Unschedule(uint32_t worker, Queue& queue);

  Encryption encryption_;
  // Of workers with a limit, or that were stuck, or whose limit is not known.
  absl::flat_hash_map<uint32_t, Queue> queues_;
  std::set<std::pair<absl::Time, uint32_t>> due_;  // of those for whom a frame waits
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_PACER_H_

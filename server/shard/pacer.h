#ifndef LONGWAVE_SERVER_SHARD_PACER_H_
#define LONGWAVE_SERVER_SHARD_PACER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/token_bucket.h"
#include "common/link/sealed_frame.h"
#include "server/shard/shard_effect.h"

namespace longwave {

// Limits the frames to each worker to the rate that the worker asked for. The sender charges a
// frame only once it is sent, so a frame that was refused on its way costs the worker nothing.
// While a worker's bucket is empty, merged updates wait here. They share one buffer and are not
// copied. For each worker and segment at most one update of a close waits, the newest: a worker
// that is a round behind pulls. Frames that the worker requested, older updates and snapshots to
// catch up with, wait separately, at most kRequestsMax of them; the worker requests dropped ones
// again. A worker's queue is therefore never longer than the shard's number of segments plus
// kRequestsMax. The class is pure: times are arguments.
class Pacer {
 public:
  // A bucket saves up this long, which evens out a thread that was busy when frames fell due.
  static constexpr absl::Duration kBurst = absl::Milliseconds(100);
  static constexpr size_t kRequestsMax = 64;

  // encryption: of the links that the frames will go by.
  explicit Pacer(Encryption encryption = Encryption::kNone) : encryption_(encryption) {}

  // The worker's rate is not known yet: frames for Admit wait until SetRate, or until `until`
  // without it.
  void AwaitRate(uint32_t worker, absl::Time until);
  // Bytes a second, 0: no limit. Setting the same rate again has no effect.
  void SetRate(uint32_t worker, uint64_t bytes_per_s);
  uint64_t RateOf(uint32_t worker) const;

  // Bytes sent to the worker: each frame from Admit or TakeDue once it is sent, and frames that
  // bypass the pacer.
  void Charge(uint32_t worker, uint64_t bytes, absl::Time now);

  // True: the frame may go to the worker now. False: the frame was kept and comes back by TakeDue,
  // or was dropped because a newer frame of its segment waits or too many requested frames wait.
  bool Admit(uint32_t worker, const SendFrame& send, absl::Time now);
  // The next due frame, to one worker. Workers come in the order of their times, a worker's frames
  // in the order of Admit.
  std::optional<SendFrame> TakeDue(absl::Time now);
  // Returns a frame that could not be sent to the worker. The frame comes back at `until` or later,
  // before the worker's others, unless a newer one of its segment waits.
  void PutBack(uint32_t worker, const SendFrame& send, absl::Time until);

  // Dropped frames since the last call, as (worker, segment).
  std::vector<std::pair<uint32_t, uint32_t>> TakeDropped() { return std::exchange(dropped_, {}); }

  // The next time at which TakeDue may return a frame; InfiniteFuture: no frame waits.
  absl::Time NextDue() const;

  struct Waiting {
    size_t frames = 0;
    uint64_t bytes = 0;
  };
  Waiting WaitingFor(uint32_t worker) const;

  void Forget(uint32_t worker);

 private:
  // The identity of a waiting frame: at most one frame waits for each key.
  struct Key {
    uint32_t segment = 0;
    SendCause cause = SendCause::kClose;
    FrameKind kind = FrameKind::kMerged;
    uint32_t round = 0;  // 0 for a close's update
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.segment, key.cause, key.kind, key.round);
    }
  };
  struct Queue {
    TokenBucket bucket;
    std::deque<Key> keys;  // in order; the frame of each is in `frames`
    absl::flat_hash_map<Key, SendFrame> frames;
    size_t asked = 0;  // requested ones among them
    uint64_t bytes = 0;
    absl::Time not_before = absl::InfinitePast();  // set by PutBack
    absl::Time rate_by = absl::InfinitePast();     // set by AwaitRate
    absl::Time due = absl::InfiniteFuture();       // place in due_ if a frame waits
  };

  static absl::Duration WaitOf(const Queue& queue, absl::Time now);
  static Key KeyOf(const SendFrame& send);
  // Keeps the frame, or the newer frame of the same key. `place`: the position of a key that is new
  // in the queue.
  enum class Place { kFirst, kLast };
  void Keep(uint32_t worker, Queue& queue, const SendFrame& send, Place place);
  void Schedule(uint32_t worker, Queue& queue, absl::Time due);
  void Unschedule(uint32_t worker, Queue& queue);

  Encryption encryption_;
  // Workers with a limit, with an unknown limit, or whose last frame could not be sent.
  absl::flat_hash_map<uint32_t, Queue> queues_;
  std::set<std::pair<absl::Time, uint32_t>> due_;  // workers with waiting frames
  std::vector<std::pair<uint32_t, uint32_t>> dropped_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_PACER_H_

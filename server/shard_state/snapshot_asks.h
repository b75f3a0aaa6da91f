#ifndef LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_
#define LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"

namespace longwave {

// Which members a shard asks for its segments' parameters, and what they sent that nobody has
// confirmed yet. One snapshot a segment is under way at most. Pure.
//
// A snapshot is hundreds of times a push, on links that are busy with pushes. So a few are asked
// for at a time, of a worker one, and who was asked is given the time that it may take:
//
//   waiting      for its turn, or for the round that it is put off to. Those that wait are asked
//                for in the order in which they came to wait.
//   asked        a member is asked for the state before the open round. It waits for its turn again
//                when that member is gone, or has not answered within its patience; the next member
//                is asked then. What the one before sends all the same is taken, and so
//                is a later round than was asked for: who was asked too late has that one.
//   unconfirmed  an answer is held until its verdict, for a while.
//
// What came and is of no use (it cannot be read, it differs, or there was no verdict on it) costs
// as much as one that is. So the segment's next ask is put off by a round, and each time by twice
// as many as the time before, until one is confirmed: never by more than put_off_max, nor beyond
// the round at which it is wanted anew.
//
// Of what the run began with, members are asked for round 0, whatever round is open.
class SnapshotAsks {
 public:
  // Asks of a shard that are not answered.
  static constexpr uint32_t kAsksAtOnce = 2;

  // verdict_patience: how long a verdict is waited for. put_off_max: rounds, at least 1. of_start:
  // what the run began with is asked for.
  SnapshotAsks(absl::Duration verdict_patience, uint32_t put_off_max, bool of_start = false)
      : verdict_patience_(verdict_patience), put_off_max_(put_off_max), of_start_(of_start) {}

  struct Ask {
    uint32_t segment = 0;
    uint32_t round = 0;
    uint32_t worker = 0;
  };
  struct Held {
    uint32_t segment = 0;
    uint32_t round = 0;
    uint64_t hash = 0;  // of the parameters
    Buffer payload;     // as it came, compressed (snapshot_payload.h)
  };

  // The segment's state is wanted, from its open round on; `turn` modulo the members says of whom
  // first, and `patience` how long a member may take to answer. One that is under way goes on.
  void Want(uint32_t segment, uint32_t open_round, uint64_t turn, absl::Duration patience);
  // What to ask the members now. Each call returns an ask once, for the state before the round that
  // is open: of earlier ones no member can tell any more.
  std::vector<Ask> Due(const std::vector<uint32_t>& members,
                       absl::FunctionRef<uint32_t(uint32_t segment)> open_round, absl::Time now);
  absl::Time NextDue() const;
  // Due may have something to say: the members are others, or the segment's round is open.
  void MembersChanged() { look_again_ = true; }
  void RoundOpened(uint32_t segment, uint32_t round);

  // Whether an answer of this segment is of use: one was asked for and none is held.
  bool IsOpen(uint32_t segment) const;
  // IsOpen is true.
  void Hold(Held held, absl::Time now);
  // What the worker sent is of no use. Nothing, if it is of before what was asked for: a copy, say.
  void Refuse(const Ask& what, uint32_t open_round);
  // The snapshot that the verdict confirms, which is no longer held here. One that differs is
  // forgotten.
  std::optional<Held> Judge(const SnapshotVerdict& verdict, uint32_t open_round);

  std::vector<SnapshotHash> Unconfirmed() const;
  void Clear() { wanted_.clear(); }

 private:
  struct Wanted {
    uint64_t turn = 0;
    absl::Duration patience;
    uint64_t place = 0;       // among those that wait
    uint32_t from_round = 0;  // before it nobody is asked
    uint32_t failures = 0;    // since one was confirmed
    std::optional<Ask> asked;
    bool expects = false;                       // something that was asked for may still come
    absl::Time until = absl::InfiniteFuture();  // of who is asked, or of the verdict
    std::optional<Held> held;
  };

  static bool Waits(const Wanted& wanted) {
    return !wanted.asked.has_value() && !wanted.held.has_value();
  }
  void WaitAgain(Wanted& wanted);
  void PutOff(Wanted& wanted, uint32_t open_round);
  void Expire(const std::vector<uint32_t>& members,
              absl::FunctionRef<uint32_t(uint32_t segment)> open_round, absl::Time now);
  // Of those that wait the one whose turn it is; null: none.
  Wanted* Next(absl::FunctionRef<uint32_t(uint32_t segment)> open_round, uint32_t* segment);

  const absl::Duration verdict_patience_;
  const uint32_t put_off_max_;
  const bool of_start_;
  std::map<uint32_t, Wanted> wanted_;  // by segment
  uint64_t places_ = 0;
  bool look_again_ = false;  // something has changed since Due
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_

#ifndef LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_REQUESTS_H_
#define LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_REQUESTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/wire/buffer.h"

namespace longwave {

// Snapshot requests of a shard to members, and the snapshots without a hash check yet. A segment
// has at most one under way. Pure.
//
// A snapshot is hundreds of times as large as a push, on links that are busy with pushes. So few
// requests are open at a time, at most one per worker, each with patience for its transfer:
//
//   waiting      The segment waits for its turn, or for the round that it is put off to. Turns go
//                in the order of arrival.
//   asked        A member has a request for the state before the open round. If that member is lost
//                or its patience ends, the segment waits for its next turn, and the next member
//                gets the request. A late snapshot of the earlier member still counts, and so does
//                a later round than requested, since a member that got the request late has that
//                one. A snapshot of a member without a request does not, since one that sends
//                useless ones unasked could put every request off for ever.
//   unconfirmed  The shard holds a snapshot until its hash check, for hash_check_patience at most.
//
// A useless snapshot (unreadable, different, or without a hash check) costs as much as a useful
// one. So each failure puts the segment's next request off by a round, then by twice as many rounds
// each time, until one is confirmed. The wait is at most put_off_max, and ends at the round at
// which a new snapshot is due.
//
// Requests for the start name round 0, whatever round is open.
class SnapshotRequests {
 public:
  // Open requests of a shard.
  static constexpr uint32_t kRequestsAtOnce = 2;

  // put_off_max: rounds, at least 1. of_start: requests concern the run's first weights.
  SnapshotRequests(absl::Duration hash_check_patience, uint32_t put_off_max, bool of_start = false)
      : hash_check_patience_(hash_check_patience), put_off_max_(put_off_max), of_start_(of_start) {}

  struct Request {
    uint32_t segment = 0;
    uint32_t round = 0;
    uint32_t worker = 0;
  };
  struct Held {
    uint32_t segment = 0;
    uint32_t round = 0;
    uint64_t hash = 0;  // of the parameters
    Buffer payload;     // compressed, as received (snapshot_payload.h)
  };

  // Requests the segment's state from its open round on. `turn` modulo the number of members picks
  // the first member; `patience` is per member. A request under way continues.
  void Want(uint32_t segment, uint32_t open_round, uint64_t turn, absl::Duration patience);
  // The requests to send now, each returned once, for the state before the open round: members no
  // longer have earlier ones.
  std::vector<Request> TakeDue(const std::vector<uint32_t>& members,
                               absl::FunctionRef<uint32_t(uint32_t segment)> open_round,
                               absl::Time now);
  absl::Time NextDue() const;
  // TakeDue may have new results: the membership changed, or the segment's round opened.
  void MembersChanged() { look_again_ = true; }
  void RoundOpened(uint32_t segment, uint32_t round);

  // A snapshot of this segment by this worker is useful: it was requested and none is held.
  bool IsOpen(uint32_t segment, uint32_t worker) const;
  // IsOpen must be true of its sender.
  void Hold(Held held, absl::Time now);
  // The worker's snapshot is useless. Ignored if it is older than the request (a copy, say).
  void Refuse(const Request& what, uint32_t open_round);
  // Returns the snapshot that the hash check confirms and releases it. A snapshot that differs is
  // dropped.
  std::optional<Held> Judge(const HashCheck& check, uint32_t open_round);

  std::vector<SnapshotHash> Unconfirmed() const;
  void Clear() { wanted_.clear(); }

 private:
  struct Wanted {
    uint64_t turn = 0;
    absl::Duration patience;
    uint64_t place = 0;       // in the order of waiting
    uint32_t from_round = 0;  // no request before it
    uint32_t failures = 0;    // since the last confirmed one
    std::optional<Request> asked;
    std::set<uint32_t> expected_of;             // workers whose snapshot may still come
    absl::Time until = absl::InfiniteFuture();  // end of the member's or hash check's patience
    std::optional<Held> held;
  };

  static bool Waits(const Wanted& wanted) {
    return !wanted.asked.has_value() && !wanted.held.has_value();
  }
  void WaitAgain(Wanted& wanted);
  void PutOff(Wanted& wanted, uint32_t open_round);
  void Expire(const std::vector<uint32_t>& members,
              absl::FunctionRef<uint32_t(uint32_t segment)> open_round, absl::Time now);
  // The waiting segment whose turn it is; null: none.
  Wanted* Next(absl::FunctionRef<uint32_t(uint32_t segment)> open_round, uint32_t* segment);

  const absl::Duration hash_check_patience_;
  const uint32_t put_off_max_;
  const bool of_start_;
  std::map<uint32_t, Wanted> wanted_;  // by segment
  uint64_t places_ = 0;
  bool look_again_ = false;  // state has changed since TakeDue
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_REQUESTS_H_

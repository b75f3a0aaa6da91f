#ifndef LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORES_H_
#define LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "server/shard_state/replica_restore.h"
#include "server/shard_state/snapshot_requests.h"

namespace longwave {

// Upper bound of a model snapshot of the segment. arrays: θ, and with update nesterov the velocity.
inline uint64_t ModelBytes(const Layout& layout, uint32_t segment, uint32_t arrays) {
  uint64_t elements = 0;
  for (const Tile& tile : layout.tiles(layout.segments()[segment]))
    elements += uint64_t{tile.rows_valid} * tile.cols_valid;
  return elements * sizeof(float) * arrays;
}

// The slowest link that a snapshot's patience allows for; pushes take half of it.
inline constexpr uint64_t kSlowLinkBytesPerSecond = 125'000;  // 1 Mbit/s
inline absl::Duration TimeOnSlowLink(uint64_t bytes) {
  return absl::Seconds(2 * bytes / kSlowLinkBytesPerSecond);
}

struct ReplicaRestoresOptions {
  uint32_t rounds = 0;  // that the run has finished
  // False: a segment is restored with its round alone.
  bool needs_states = true;
  uint32_t model_arrays = 1;
  // While no member takes part, the restores wait so long for members other than those that join:
  // after a network cut the coordinator may hear a new worker before the trained ones. The same
  // wait follows the loss of a member, which may be ahead of the others and return.
  absl::Duration join_patience;
};

// The segments of a shard that has lost its folder until each is restored from the members'
// replicas (ReplicaRestore): all have the same members, whose links they share. Likewise the
// segments of a folder whose log may have lost its end, until the members have shown that none is
// ahead of it. Pure.
class ReplicaRestores {
 public:
  // `layout` outlives this.
  ReplicaRestores(const Layout* layout, const ReplicaRestoresOptions& options)
      : layout_(*layout), options_(options) {}

  void Begin(uint32_t segment);
  // The folder's log has the segment before open_round, and may have had more. The state stays if
  // all members of now and of the log name rounds up to open_round, or some were not heard within
  // twice join_patience and none has named a later one. A later round begins a restore.
  void Check(uint32_t segment, uint32_t open_round);
  // logged: the members that took part by the log.
  void SetLogged(std::vector<uint32_t> logged) { logged_ = std::move(logged); }
  void End(uint32_t segment);
  void Clear();
  bool empty() const { return restores_.empty(); }
  size_t restoring_count() const;  // segments, without those that are only checked
  bool Contains(uint32_t segment) const { return restores_.contains(segment); }
  // Contained, and not only checked.
  bool IsRestoring(uint32_t segment) const {
    return Contains(segment) && !IsCheck(segment, restores_.at(segment));
  }

  // A member has all rounds of the segment before `round`.
  void Heard(uint32_t segment, uint32_t worker, uint32_t round);
  // See ReplicaRestore. False: the segment is not being restored.
  bool Expects(uint32_t segment, uint32_t worker, uint32_t round) const {
    return Contains(segment) && restores_.at(segment).Expects(worker, round);
  }
  void Refuse(uint32_t segment) { restores_.at(segment).Refuse(); }
  // The worker has sent a snapshot, so that its remaining ones need less time than at the request.
  void Hasten(uint32_t worker, absl::Time now);
  // before, after: the members that take part.
  void MembersChanged(const std::vector<uint32_t>& before, const std::vector<uint32_t>& after,
                      absl::Time now);

  struct Steps {
    // To send, in this order. Round 0: a question where the worker stands.
    std::vector<SnapshotRequests::Request> requests;
    // Segments that are restored with the worker's round, without its state.
    std::vector<SnapshotRequests::Request> known;
    std::vector<uint32_t> intact;  // segments whose log lacks nothing that a member has
  };
  // Due work, each step returned once. take_part: the members that do.
  Steps TakeDue(const Membership& members, const std::vector<uint32_t>& take_part, absl::Time now);
  absl::Time NextDue() const;

 private:
  uint64_t BytesOf(uint32_t segment) const {
    return ModelBytes(layout_, segment, options_.model_arrays);
  }
  bool IsCheck(uint32_t segment, const ReplicaRestore& restore) const;  // nobody is ahead so far
  uint64_t AwaitedBytes(uint32_t worker) const;  // of all snapshots that are expected of it
  // For a worker from which that many bytes are expected.
  absl::Duration Patience(uint32_t segment, uint64_t awaited_bytes) const;

  const Layout& layout_;
  const ReplicaRestoresOptions options_;
  std::map<uint32_t, ReplicaRestore> restores_;  // by segment
  // No member is chosen before this time. Set while no member takes part, and when one was lost.
  absl::Time decides_at_ = absl::InfinitePast();
  std::map<uint32_t, uint32_t> checks_;  // the log's open round by segment, of Check
  // The end of the wait for members that are to be heard in the checks; set by the first TakeDue.
  absl::Time checked_at_ = absl::InfinitePast();
  std::vector<uint32_t> logged_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORES_H_

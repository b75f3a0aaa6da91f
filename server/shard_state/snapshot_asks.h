#ifndef LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_
#define LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/wire/buffer.h"
#include "common/wire/control.h"

namespace longwave {

// Which members a shard asks for its segments' parameters, and what they sent that nobody has
// confirmed yet. One snapshot a segment is on its way at most: a newer one takes its place. Pure.
//
//   asked        (segment + round / snapshot_rounds) mod members; after a while without an answer,
//                or when the answer was refused, the next member
//   unconfirmed  an answer is held until its verdict
class SnapshotAsks {
 public:
  explicit SnapshotAsks(absl::Duration patience) : patience_(patience) {}

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

  // From now on the segment's state before `round` is wanted; `turn` says whom to ask first.
  void Want(uint32_t segment, uint32_t round, uint64_t turn, absl::Time now);
  // Whom to ask now: those of `members` (in their order) whose turn it is.
  std::vector<Ask> Due(const std::vector<uint32_t>& members, absl::Time now);
  absl::Time NextDue() const;

  // The round that the segment is asked for; nothing: none.
  std::optional<uint32_t> Wanted(uint32_t segment) const;
  void Hold(Held held);
  // It cannot be had from this member: the next one is due.
  void Refuse(uint32_t segment, absl::Time now);
  // What the verdict confirms; a snapshot that differs is forgotten, and the next member due.
  std::optional<Held> Judge(const SnapshotVerdict& verdict, absl::Time now);

  std::vector<SnapshotHash> Unconfirmed() const;
  void Clear() { wants_.clear(); }

 private:
  struct Want_ {
    uint32_t round = 0;
    uint64_t turn = 0;
    absl::Time due = absl::InfinitePast();
    std::optional<Held> held;
  };

  const absl::Duration patience_;
  std::map<uint32_t, Want_> wants_;  // by segment
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_

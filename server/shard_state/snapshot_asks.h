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
//   wanted       a member is asked for the state before the open round; after a while without an
//                answer, or when its answer is refused, the next member.
//   unconfirmed  an answer is held until its verdict; what is wanted meanwhile is not. Without a
//                verdict for a while it is forgotten, and the next member asked.
class SnapshotAsks {
 public:
  // How long an answer and a verdict are waited for.
  SnapshotAsks(absl::Duration answer_patience, absl::Duration verdict_patience)
      : answer_patience_(answer_patience), verdict_patience_(verdict_patience) {}

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

  // The segment's state is wanted; `turn` modulo the members says of whom first.
  void Want(uint32_t segment, uint64_t turn, absl::Time now);
  // What to ask the members now. Each call returns an ask once, for the state before the round that
  // is open: of earlier ones no member can tell any more.
  std::vector<Ask> Due(const std::vector<uint32_t>& members,
                       absl::FunctionRef<uint32_t(uint32_t segment)> open_round, absl::Time now);
  absl::Time NextDue() const;

  // Whether an answer of this segment is of use: one is wanted and none is held.
  bool IsOpen(uint32_t segment) const;
  // IsOpen is true.
  void Hold(Held held, absl::Time now);
  // What came is of no use: the next member is asked.
  void Refuse(uint32_t segment, absl::Time now);
  // The snapshot that the verdict confirms, which is no longer held here. One that differs is
  // forgotten, and the next member asked.
  std::optional<Held> Judge(const SnapshotVerdict& verdict, absl::Time now);

  std::vector<SnapshotHash> Unconfirmed() const;
  void Clear() { wanted_.clear(); }

 private:
  struct Wanted {
    uint64_t turn = 0;
    absl::Time due = absl::InfinitePast();
    std::optional<Held> held;
  };

  const absl::Duration answer_patience_;
  const absl::Duration verdict_patience_;
  std::map<uint32_t, Wanted> wanted_;  // by segment
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_SNAPSHOT_ASKS_H_

#ifndef LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_
#define LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// How a shard that has lost its folder finds out where a segment stands: the members know. The
// first push or pull of each names the round that it waits for, so that it has all rounds before.
// When all live members were heard, or kPatience after the first, the largest of those rounds is
// the one to open, and one of the members that named it is asked for its state before. Pure.
class ReplicaRestore {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // A push or pull of `round` from a member.
  void Heard(uint32_t worker, uint32_t round, absl::Time now);

  struct Choice {
    uint32_t round = 0;   // to open
    uint32_t worker = 0;  // that has the state before it
  };
  // Nothing yet, or the choice, which then stays the round's; asked again after `Refuse`, the next
  // member of that round. `live`: members that take part.
  std::optional<Choice> Choose(const std::vector<uint32_t>& live, absl::Time now);
  // Whether a choice was made and its member has been asked; when to ask another.
  void Asked(absl::Time now) { asked_at_ = now; }
  bool is_asked() const { return asked_at_ != absl::InfinitePast(); }
  // The member that was asked did not answer in time or has sent what is of no use.
  void Refuse();

  absl::Time NextDue() const;

 private:
  std::map<uint32_t, uint32_t> rounds_;  // by worker, the newest
  absl::Time first_heard_ = absl::InfiniteFuture();
  absl::Time asked_at_ = absl::InfinitePast();
  uint32_t turn_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

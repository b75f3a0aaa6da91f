#ifndef LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_
#define LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace longwave {

// How a shard that has lost its folder finds out where a segment stands: the members know. A pull
// names the round that its sender waits for, so that the sender has all rounds before. Who
// says nothing is asked where it stands: it may wait for another segment, which waits
// for somebody who says nothing of that one. When all those were heard who take part, the largest
// of those rounds is the one to open, and one of the members that named it is asked for its state
// before. None that lacks a round which the run has finished: who has it may be away just then, cut
// off together with the coordinator say, and where others began from before it the run would be
// lost. However long that takes: where one is ahead that was not waited for, it can neither push
// nor be led back. Who is dead is waited for until the coordinator says so. Pure.
class ReplicaRestore {
 public:
  // Of a member that was asked, before another one is, beside the time that sending takes.
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  // Before a member that says nothing is asked where it stands, and again.
  static constexpr absl::Duration kHearEvery = absl::Seconds(2);

  // turn: who of the members of the round is asked first; other segments ask others.
  // at_least: the rounds that the run has finished.
  explicit ReplicaRestore(uint32_t turn = 0, uint32_t at_least = 0)
      : turn_(turn), at_least_(at_least) {}

  // A pull of `round` came from a member.
  void Heard(uint32_t worker, uint32_t round);
  // Forgets what all others said: nobody can ask them any more, or they are to say it again.
  void KeepOnly(const std::vector<uint32_t>& workers);

  struct Choice {
    uint32_t round = 0;   // to open
    uint32_t worker = 0;  // that has the state before it
  };
  // Those of `awaited` to be asked now where they stand; each call returns an ask once.
  std::vector<uint32_t> Silent(const std::vector<uint32_t>& awaited, absl::Time now);
  // Whom to ask for its state now; each call returns an ask once. Another member of the round
  // follows kPatience later (or GiveUntil), or at once after Refuse, and so on. `awaited`: members
  // that take part, or while there are none (all have been lost and are joining again) all members.
  std::optional<Choice> Due(const std::vector<uint32_t>& awaited, absl::Time now);
  // Who was asked last; nothing: nobody yet.
  const std::optional<Choice>& choice() const { return choice_; }
  // How long who was asked last may take, instead of kPatience; and how long at most, whatever it
  // was given. There is a choice.
  void GiveUntil(absl::Time until) { due_ = until; }
  void GiveAtMostUntil(absl::Time until) { due_ = std::min(due_, until); }
  // What the member has sent is of no use.
  void Refuse() { due_ = absl::InfinitePast(); }

  absl::Time NextDue() const { return std::min(due_, hear_at_); }

 private:
  std::map<uint32_t, uint32_t> rounds_;  // the newest of each worker
  // When the next member is to be asked.
  absl::Time due_ = absl::InfiniteFuture();
  absl::Time hear_at_ = absl::InfiniteFuture();  // who is silent is asked then
  std::optional<Choice> choice_;
  uint32_t turn_;
  uint32_t at_least_;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_REPLICA_RESTORE_H_

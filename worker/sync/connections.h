#ifndef LONGWAVE_WORKER_SYNC_CONNECTIONS_H_
#define LONGWAVE_WORKER_SYNC_CONNECTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/wire/frame.h"
#include "worker/sync/due_queue.h"
#include "worker/sync/ledger_options.h"

namespace longwave {

// What a worker knows of its connections to the shards, pure: who is there, and since when. A hello
// opens each connection, so that the shard knows the way back, and is said again every hello_every
// until it is welcome and for as long as something is outstanding; once kIdleHellos times as much
// has passed without a word from the shard while nothing is (a shard that was started again, and
// asks the members where they stand, knows the way to each of them, and a NAT between them does not
// forget it); and at once when the shard asks for it. Its answer names the shard's incarnation:
// another one has lost what its predecessor had not made durable.
//
// A connection can be dead while both processes live: ZeroMQ does not connect again after bytes
// that break its protocol, and a damaged length makes an end wait for bytes that never come. So a
// connection on which the shard has answered nothing for kUnansweredHellos hellos, and for what is
// on its way, is to be made anew (TakeLost); of one that takes nothing meanwhile nothing is. Only
// an answer counts: merged updates also come where nothing gets through to the shard. From the
// third connection in a row on that took a hello and had no answer, each has twice the time of the
// one before, kPatienceDoublings times: a shard that takes nothing from its socket keeps something
// of each.
class Connections {
 public:
  explicit Connections(const LedgerOptions& options);

  // Something more, or less, is outstanding on the connection.
  void Expect(uint32_t connection, absl::Time now);
  void Relieve(uint32_t connection);

  // What a frame means for all that is outstanding on its connection.
  enum class News : uint8_t {
    kNone,
    kResumed,  // the first welcome since it was made anew: what was not answered was lost
    kAnother,  // another incarnation of the shard than the last one: all is to be sent again
  };
  // A verified frame of this run came in.
  News Take(uint32_t connection, const FrameHeader& header, absl::Time now);

  // What is lost: the caller makes it anew at once.
  struct Lost {
    uint32_t connection = 0;
    absl::Duration unanswered;
    bool is_first = false;  // since it was welcome last
  };
  // A connection without an answer for too long, once. on_the_way: the time that what is on its way
  // there and back may take.
  std::optional<Lost> TakeLost(absl::Time now,
                               absl::FunctionRef<absl::Duration(uint32_t connection)> on_the_way);

  // The connection is a new one, perhaps to another process.
  void Reconnected(uint32_t connection, absl::Time now);

  // When something came in last: what was sent before may be lost, but somebody is there again.
  absl::Time heard(uint32_t connection) const { return states_[connection].heard; }

  // It takes nothing more for now: nothing is to be sent on it until `then`.
  void Hold(uint32_t connection, absl::Time then);
  absl::Time held_until(uint32_t connection) const { return states_[connection].held_until; }

  // The next hello that is due.
  std::optional<OutgoingFrame> Due(absl::Time now);
  void Sent(uint32_t connection, absl::Time now);
  // It took a frame of whatever kind.
  void Took(uint32_t connection) { states_[connection].refused_since = absl::InfiniteFuture(); }
  absl::Time DueAt() const { return due_.front_at(); }

  static constexpr int kIdleHellos = 15;
  static constexpr int kUnansweredHellos = 3;
  static constexpr int kPatienceDoublings = 4;

 private:
  struct State {
    absl::Time heard = absl::InfinitePast();
    absl::Time greeted = absl::InfinitePast();
    absl::Time expecting_since = absl::InfiniteFuture();
    absl::Time held_until = absl::InfinitePast();
    // The first hello that had no answer, or what the connection did not take.
    absl::Time unanswered_since = absl::InfiniteFuture();
    absl::Time refused_since = absl::InfiniteFuture();  // it took nothing
    absl::Time renewed_at = absl::InfinitePast();
    uint32_t outstanding = 0;
    uint64_t incarnation = 0;  // 0: not heard of yet
    bool spoke = false;        // of something else, before that was heard
    bool welcome = false;
    bool renewed = false;        // since it was welcome last
    int silent_connections = 0;  // likewise: that took a hello, one after the other
  };

  absl::Time GreetingAt(const State& state) const;
  void Schedule(uint32_t connection) { due_.Set(connection, GreetingAt(states_[connection])); }

  const uint64_t run_;
  const uint32_t worker_;
  const uint64_t download_bytes_per_s_;
  const absl::Duration hello_every_;
  const absl::Duration idle_hello_every_;
  std::vector<State> states_;
  DueQueue due_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_CONNECTIONS_H_

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

// A worker's connections to the shards, pure: which shard is there, since when, and whether frames
// were lost. A hello opens each connection, so that the shard can answer. Until the shard accepts
// the hello (the connection is welcome), the worker sends nothing else there. The worker repeats
// the hello every hello_every until then and while frames are outstanding. An idle connection
// repeats the hello after kIdleHellos times as long without an answer from the shard, so that a
// restarted shard can reach all members and a NAT does not forget the connection, whatever else the
// shard sends: its requests arrive even where no frame reaches it. The shard may also request a
// hello at once. The answer names the shard's incarnation: another incarnation has lost whatever
// its predecessor had not made durable. Frames before that answer may be of an earlier process and
// are ignored.
//
// Frames arrive in order on a connection, so both ends count them. A hello says how many frames the
// worker has sent before it. The answer says how many of these are missing, and how many frames the
// shard has sent before the answer. A changed number of missing frames at either end shows a loss
// since the last answer: a damaged frame, a frame that the shard had no room for, or frames in
// flight when ZeroMQ reconnected underneath. Missing answers alone show no loss. A hello also
// carries the connection's number, by which the shard recognizes the connections that it replaced.
//
// A connection can be dead while both processes live: ZeroMQ does not reconnect after bytes that
// break its protocol, and a damaged length makes an end wait for bytes that never come. So the
// worker replaces a connection without an answer for kUnansweredHellos hellos and the time of the
// frames in flight (TakeLost). A connection that takes no frames meanwhile has none in flight. Only
// answers count, since merged updates arrive even where no frame reaches the shard. From the third
// unanswered connection in a row on, each has twice the time of the one before, kPatienceDoublings
// times: a shard that does not read its socket keeps memory for each.
class Connections {
 public:
  explicit Connections(LedgerOptions options);

  // The connection has one more frame outstanding; Relieve: one fewer.
  void Expect(uint32_t connection, absl::Time now);
  void Relieve(uint32_t connection);

  // Conclusions from an incoming frame about the frames sent on its connection.
  struct News {
    bool another = false;  // the shard's incarnation has changed: send everything again
    // Some frames up to this number (see sent), or some that the shard has sent since, were lost:
    // send everything without an answer again. 0: no loss.
    uint32_t lost_up_to = 0;
  };
  static constexpr uint32_t kAllFrames = ~uint32_t{0};
  // A verified frame of this run has come.
  News OnFrame(uint32_t connection, const FrameHeader& header, absl::Time now);

  // A lost connection: the caller replaces it at once.
  struct Lost {
    uint32_t connection = 0;
    absl::Duration unanswered;
    bool is_first = false;  // since the connection was last welcome
  };
  // Returns a connection without an answer for too long, once. on_the_way: the time that frames in
  // flight may take there and back.
  std::optional<Lost> TakeLost(absl::Time now,
                               absl::FunctionRef<absl::Duration(uint32_t connection)> on_the_way);

  // The connection was replaced, perhaps by one to another process.
  void Reconnected(uint32_t connection, absl::Time now);

  // The connection takes no more frames for now: none is due on it until `then`.
  void Hold(uint32_t connection, absl::Time then);
  bool is_welcome(uint32_t connection) const { return states_[connection].welcome; }
  // The time from which frames other than a hello may be sent; InfiniteFuture: not welcome.
  absl::Time ready_at(uint32_t connection) const {
    const State& state = states_[connection];
    return state.welcome ? state.held_until : absl::InfiniteFuture();
  }

  // The next hello that is due.
  std::optional<OutgoingFrame> NextFrame(absl::Time now);
  // The connection took a frame.
  void Sent(uint32_t connection, FrameKind kind, absl::Time now);
  // The number of frames that the connection took, which is the number of the last one.
  uint32_t sent(uint32_t connection) const { return states_[connection].sent; }
  absl::Time DueAt() const { return due_.front_at(); }

  static constexpr int kIdleHellos = 15;
  static constexpr int kUnansweredHellos = 3;
  static constexpr int kPatienceDoublings = 4;

 private:
  struct State {
    absl::Time answered = absl::InfinitePast();
    absl::Time greeted = absl::InfinitePast();
    absl::Time expecting_since = absl::InfiniteFuture();
    absl::Time held_until = absl::InfinitePast();
    // The first hello without an answer, or the first frame that the connection did not take.
    absl::Time unanswered_since = absl::InfiniteFuture();
    absl::Time refused_since = absl::InfiniteFuture();  // the connection took no frame
    absl::Time renewed_at = absl::InfinitePast();
    uint32_t number = 0;
    uint32_t outstanding = 0;
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t missing_there = 0;  // as of the last answer to a hello
    uint32_t missing_here = 0;   // likewise
    uint64_t incarnation = 0;    // 0: unknown yet
    bool welcome = false;
    bool renewed = false;        // since the last welcome
    int silent_connections = 0;  // likewise: took a hello and had no answer, in a row
  };

  absl::Time GreetingAt(const State& state) const;
  void Schedule(uint32_t connection) { due_.Set(connection, GreetingAt(states_[connection])); }

  const LedgerOptions options_;
  std::vector<State> states_;
  DueQueue due_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_SYNC_CONNECTIONS_H_

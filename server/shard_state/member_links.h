#ifndef LONGWAVE_SERVER_SHARD_STATE_MEMBER_LINKS_H_
#define LONGWAVE_SERVER_SHARD_STATE_MEMBER_LINKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/link/peer_frame.h"
#include "common/link/sealed_frame.h"
#include "longwave/v1/shard.records.h"
#include "server/shard/shard_effect.h"
#include "server/shard/worker_connections.h"

namespace longwave {

// Hands a frame to a connection. NotFound: the connection is closed. Unavailable: its queue is
// full.
using SendToPeer = absl::FunctionRef<absl::Status(const PeerId&, const SealedFrame&)>;

// A shard's links to its members: connections, hellos and traffic. Both ends count a connection's
// frames. A frame that the shard drops counts as sent: the answer to the worker's next hello then
// shows the loss, and the worker repeats its request. Pure.
class MemberLinks {
 public:
  // The shard requests a hello so often from a member that has said none.
  static constexpr absl::Duration kHelloPatience = absl::Seconds(1);

  // segments: those of the shard. `layout` outlives this object.
  MemberLinks(uint64_t run, const Layout* layout, uint32_t first_segment, uint32_t segment_count,
              Encryption encryption);

  // Returns the workers that are members no longer; their state is gone.
  std::vector<uint32_t> SetMembers(const std::vector<Member>& members);
  bool Contains(uint32_t worker) const { return links_.contains(worker); }

  // A frame has arrived. Returns the number of earlier frames on its connection; nullopt: the
  // sender is no member, or the frame is of another run.
  std::optional<uint32_t> Hear(const PeerFrame& frame);
  // Whether to request a hello of the member now. Each call returns a request once.
  enum class HelloRequest : uint8_t { kNone, kFirst, kAgain };
  HelloRequest TakeHelloRequest(uint32_t worker, absl::Time now);

  // Sends to the worker: an answer on its connection, another frame by the worker's route to its
  // segment. NotFound, also: no frame of the worker has come yet.
  absl::Status Send(uint32_t worker, SendFrame& send, SendToPeer send_to_peer);
  // A frame of the segment for the worker will not be sent.
  void CountDropped(uint32_t worker, uint32_t segment);

  // Of the members, by worker; rates and waiting frames are the caller's to fill in.
  std::vector<WorkerLinkReport> Report() const;

 private:
  struct Link {
    WorkerConnections connections;
    bool greeted = false;
    absl::Time requested_hello = absl::InfinitePast();
    LinkTraffic traffic;
  };

  // Null: no member, or a frame of another run.
  Link* Find(const FrameName& frame, uint32_t worker);
  WorkerConnections::Hello HelloOf(const HelloFrame& hello) const;
  absl::Status SendAnswer(Link* link, SendFrame& send, SendToPeer send_to_peer);
  // The connection has the frame, or the frame was dropped.
  void Count(Link& link, const PeerId& peer, const SealedFrame& frame, const absl::Status& sent);

  const uint64_t run_;
  const Layout& layout_;
  const uint32_t first_segment_;
  const uint32_t segment_count_;
  const Encryption encryption_;
  absl::flat_hash_map<uint32_t, Link> links_;  // by member
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_STATE_MEMBER_LINKS_H_

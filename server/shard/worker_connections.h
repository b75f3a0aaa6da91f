#ifndef LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_
#define LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/link/peer_frame.h"

namespace longwave {

// One worker's connections to a shard, and which of them each segment goes by: the one that its
// last frame came by, or else any, the one heard last. So what goes wrong mends itself with the
// next frame: a connection that broke, a worker that came back with fewer. Pure.
class WorkerConnections {
 public:
  // Twice what a configuration may ask for, so that all may be replaced before the first is given
  // up. One more takes the place of the one not heard for longest.
  static constexpr size_t kConnectionsMax = 32;

  // segment_count: of the shard; segments are named by their place among them.
  explicit WorkerConnections(size_t segment_count) : routes_(segment_count) {}

  // A frame came from `peer`; of the segment, if it is of one.
  void Hear(const PeerId& peer, std::optional<size_t> segment);

  // The connection has gone.
  void Remove(const PeerId& peer);

  // nullptr: none is known.
  const PeerId* RouteOf(size_t segment) const;
  // The one that was heard last; nullptr likewise. For what the worker does not ask for: where a
  // connection is dead and nobody sees it, no request on another one moves the segment's route.
  const PeerId* Newest() const {
    return connections_.empty() ? nullptr : &connections_.back().peer;
  }

  uint32_t size() const { return static_cast<uint32_t>(connections_.size()); }

 private:
  struct Connection {
    PeerId peer;
    uint32_t name = 0;  // no two of this worker had the same; counted from 1
  };

  std::vector<Connection> connections_;  // in the order in which they were heard last
  std::vector<uint32_t> routes_;         // by segment: a connection's name; 0: none yet
  uint32_t names_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_

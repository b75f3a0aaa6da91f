#ifndef LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_
#define LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/link/peer_frame.h"

namespace longwave {

// A worker's connections to a shard, and the route of each segment: the connection of the segment's
// last frame, or else the one heard last of those whose hello names it. Each rank of a node has
// connections of its own for its segments. After a broken connection, or after the worker's return
// with fewer connections, the next frame therefore corrects the route. Frames that still arrive on
// a replaced connection do not move routes back. The class is pure.
class WorkerConnections {
 public:
  // Twice the configurable maximum, so that all may be replaced before the first is removed. A
  // further connection takes the place of the one that was heard longest ago.
  static constexpr size_t kConnectionsMax = 128;

  // segment_count: of the shard; segments are named by their place among them.
  explicit WorkerConnections(size_t segment_count) : routes_(segment_count) {}

  // Numbers of frames on a connection in both directions, by which a worker detects losses
  // (WIRE.md, 3).
  struct Counts {
    uint32_t taken = 0;
    uint32_t sent = 0;  // includes frames that were due and dropped
  };
  // A hello's content about its connection.
  struct Hello {
    uint32_t number = 0;
    size_t serves_begin = 0;  // segments
    size_t serves_end = 0;
  };
  // A frame has arrived from `peer`, for `segment` if it belongs to one. Returns the connection's
  // counts.
  Counts& Hear(const PeerId& peer, std::optional<size_t> segment,
               const std::optional<Hello>& hello = std::nullopt);
  // nullptr: the connection is unknown.
  Counts* CountsOf(const PeerId& peer);

  // The connection was closed.
  void Remove(const PeerId& peer);

  // nullptr: no connection that serves the segment is known.
  const PeerId* RouteOf(size_t segment) const;
  // The connection heard last of those that serve the segment; nullptr likewise. For frames that
  // the worker has not requested: if a connection is dead unnoticed, no request on another one
  // moves the segment's route.
  const PeerId* Newest(size_t segment) const;

  uint32_t size() const { return static_cast<uint32_t>(connections_.size()); }

 private:
  struct Connection {
    PeerId peer;
    uint32_t name = 0;  // unique among this worker's connections; counted from 1
    Hello hello = {};   // none yet: it serves the segments of its frames alone
    Counts counts = {};
  };

  std::vector<Connection> connections_;  // ordered by when they were heard last
  std::vector<uint32_t> routes_;         // a connection's name by segment; 0: none yet
  uint32_t names_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SHARD_WORKER_CONNECTIONS_H_

#ifndef LONGWAVE_SERVER_SERVICE_WORKER_CONNECTIONS_H_
#define LONGWAVE_SERVER_SERVICE_WORKER_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/link/link.h"

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
  explicit WorkerConnections(size_t segment_count) : routes_(segment_count, kNone) {}

  // A frame came from `peer`; of the segment, if it is of one. Returns the connection that had to
  // give way, if one had.
  std::optional<PeerId> Hear(const PeerId& peer, std::optional<size_t> segment);

  // The connection has gone.
  void Remove(const PeerId& peer);

  // nullptr: none is known.
  const PeerId* RouteOf(size_t segment) const;

  std::vector<PeerId> peers() const;

 private:
  static constexpr uint8_t kNone = 255;

  struct Connection {
    PeerId peer;         // empty: this place is free
    uint64_t heard = 0;  // grows with each frame; 0 in a free place
  };
  size_t Find(const PeerId& peer) const;  // connections_.size() if it is not there

  std::vector<Connection> connections_;
  std::vector<uint8_t> routes_;  // by segment: a place in connections_
  size_t last_ = 0;              // the one heard last
  uint64_t clock_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_WORKER_CONNECTIONS_H_

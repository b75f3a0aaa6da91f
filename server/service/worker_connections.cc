#include "server/service/worker_connections.h"

#include <algorithm>
#include <utility>

namespace longwave {

std::optional<PeerId> WorkerConnections::Hear(const PeerId& peer, std::optional<size_t> segment) {
  std::optional<PeerId> gave_way;
  size_t place = Find(peer);
  if (place == connections_.size()) {
    // A free place has never been heard: it is the oldest.
    const auto oldest =
        std::min_element(connections_.begin(), connections_.end(),
                         [](const auto& a, const auto& b) { return a.heard < b.heard; });
    if (oldest != connections_.end() &&
        (oldest->heard == 0 || connections_.size() == kConnectionsMax)) {
      place = oldest - connections_.begin();
      if (oldest->heard > 0) gave_way = std::exchange(oldest->peer, PeerId());
    } else {
      connections_.emplace_back();
    }
    connections_[place].peer = peer;
  }
  connections_[place].heard = ++clock_;
  last_ = place;
  if (segment.has_value()) routes_[*segment] = static_cast<uint8_t>(place);
  return gave_way;
}

void WorkerConnections::Remove(const PeerId& peer) {
  const size_t place = Find(peer);
  if (place == connections_.size()) return;
  connections_[place] = Connection();
  if (place != last_) return;
  const auto newest =
      std::max_element(connections_.begin(), connections_.end(),
                       [](const auto& a, const auto& b) { return a.heard < b.heard; });
  last_ = newest - connections_.begin();
}

const PeerId* WorkerConnections::RouteOf(size_t segment) const {
  const uint8_t place = routes_[segment];
  if (place != kNone && connections_[place].heard > 0) return &connections_[place].peer;
  if (connections_.empty() || connections_[last_].heard == 0) return nullptr;
  return &connections_[last_].peer;
}

std::vector<PeerId> WorkerConnections::peers() const {
  std::vector<PeerId> peers;
  for (const Connection& connection : connections_) {
    if (connection.heard > 0) peers.push_back(connection.peer);
  }
  return peers;
}

size_t WorkerConnections::Find(const PeerId& peer) const {
  // Most frames come by the connection of the frame before.
  if (last_ < connections_.size() && connections_[last_].peer == peer) return last_;
  return std::find_if(connections_.begin(), connections_.end(),
                      [&](const Connection& connection) { return connection.peer == peer; }) -
         connections_.begin();
}

}  // namespace longwave

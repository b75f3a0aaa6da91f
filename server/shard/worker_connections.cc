#include "server/shard/worker_connections.h"

#include <algorithm>

namespace longwave {

WorkerConnections::Counts& WorkerConnections::Hear(const PeerId& peer,
                                                   std::optional<size_t> segment,
                                                   std::optional<uint32_t> number) {
  auto found = std::ranges::find(connections_, peer, &Connection::peer);
  if (found == connections_.end()) {
    if (connections_.size() == kConnectionsMax) connections_.erase(connections_.begin());
    connections_.push_back({peer, ++names_});
  } else {
    std::rotate(found, found + 1, connections_.end());
  }
  Connection& heard = connections_.back();
  heard.number = number.value_or(heard.number);
  if (segment.has_value()) {
    const auto before = std::ranges::find(connections_, routes_[*segment], &Connection::name);
    if (before == connections_.end() || before->number <= heard.number)
      routes_[*segment] = heard.name;
  }
  ++heard.counts.taken;
  return heard.counts;
}

WorkerConnections::Counts* WorkerConnections::CountsOf(const PeerId& peer) {
  const auto found = std::ranges::find(connections_, peer, &Connection::peer);
  return found == connections_.end() ? nullptr : &found->counts;
}

void WorkerConnections::Remove(const PeerId& peer) {
  std::erase_if(connections_, [&](const Connection& each) { return each.peer == peer; });
}

const PeerId* WorkerConnections::RouteOf(size_t segment) const {
  if (connections_.empty()) return nullptr;
  const auto found = std::ranges::find(connections_, routes_[segment], &Connection::name);
  return found == connections_.end() ? &connections_.back().peer : &found->peer;
}

}  // namespace longwave

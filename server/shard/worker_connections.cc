#include "server/shard/worker_connections.h"

#include <algorithm>

namespace longwave {

WorkerConnections::Counts& WorkerConnections::Hear(const PeerId& peer,
                                                   std::optional<size_t> segment,
                                                   const std::optional<Hello>& hello) {
  auto found = std::ranges::find(connections_, peer, &Connection::peer);
  if (found == connections_.end()) {
    if (connections_.size() == kConnectionsMax) connections_.erase(connections_.begin());
    connections_.push_back({peer, ++names_});
  } else {
    std::rotate(found, found + 1, connections_.end());
  }
  Connection& heard = connections_.back();
  heard.hello = hello.value_or(heard.hello);
  if (segment.has_value()) {
    const auto before = std::ranges::find(connections_, routes_[*segment], &Connection::name);
    if (before == connections_.end() || before->hello.number <= heard.hello.number)
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
  const auto found = std::ranges::find(connections_, routes_[segment], &Connection::name);
  return found == connections_.end() ? Newest(segment) : &found->peer;
}

const PeerId* WorkerConnections::Newest(size_t segment) const {
  const auto found = std::ranges::find_if(connections_.rbegin(), connections_.rend(), [&](auto& c) {
    return c.hello.serves_begin <= segment && segment < c.hello.serves_end;
  });
  return found == connections_.rend() ? nullptr : &found->peer;
}

}  // namespace longwave

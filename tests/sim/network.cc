#include "tests/sim/network.h"

#include <algorithm>

namespace longwave::sim {
namespace {

// Limit of a stalled connection's delay: several rounds.
constexpr absl::Duration kStallMax = absl::Seconds(20);

}  // namespace

void Network::Cut(uint32_t node, absl::Time until) {
  nodes_[node].cut_until = std::max(nodes_[node].cut_until, until);
}

void Network::CutLink(uint32_t from, uint32_t to, absl::Time until) {
  cut_links_[Pair(from, to)] = until;
}

void Network::Clog(uint32_t node, absl::Time until) {
  nodes_[node].clogged_until = std::max(nodes_[node].clogged_until, until);
}

void Network::Heal() {
  for (Node& node : nodes_) node.cut_until = node.clogged_until = absl::InfinitePast();
  cut_links_.clear();
  weather_ = {};
}

bool Network::IsCut(uint32_t from, uint32_t to) const {
  const absl::Time now = scheduler_->now();
  if (now < nodes_[from].cut_until || now < nodes_[to].cut_until) return true;
  const auto cut = cut_links_.find(Pair(from, to));
  return cut != cut_links_.end() && now < cut->second;
}

absl::Time Network::ArrivalOf(uint32_t from, uint32_t to, uint64_t bytes) {
  Node& sender = nodes_[from];
  const absl::Time begins = std::max(scheduler_->now(), sender.link_free_at);
  sender.link_free_at =
      begins + absl::Seconds(static_cast<double>(bytes) / options_.bytes_per_second);
  const absl::Duration spread = options_.latency_max - options_.latency_min;
  absl::Time at = sender.link_free_at + options_.latency_min + spread * rng_.Uniform();
  at = std::max({at, sender.clogged_until, nodes_[to].clogged_until});
  return at;
}

void Network::Send(uint32_t from, Process& to, uint64_t connection, uint64_t bytes,
                   const Scheduler::Action& deliver) {
  ++sent_;
  if (IsCut(from, to.node()) || rng_.Uniform() < weather_.lost) {
    probes_->Hit(Probe::kFrameLost);
    return;
  }
  absl::Time at = ArrivalOf(from, to.node(), bytes);
  if (connection != kControl && rng_.Uniform() < weather_.stalled) {
    probes_->Hit(Probe::kConnectionStalled);
    at += kStallMax * (rng_.Uniform() * rng_.Uniform());
  }
  absl::Time& last = last_arrival_[{from, to.node(), connection}];
  at = last = std::max(last, at);
  Arrive(from, to, at, deliver);
}

void Network::Arrive(uint32_t from, Process& to, absl::Time at, const Scheduler::Action& deliver) {
  scheduler_->At(at, [this, from, &to, deliver] {
    // A cut also loses messages on their way.
    if (IsCut(from, to.node())) {
      probes_->Hit(Probe::kFrameLost);
      return;
    }
    to.Deliver(deliver);
  });
}

}  // namespace longwave::sim

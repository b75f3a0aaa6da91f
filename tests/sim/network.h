#ifndef LONGWAVE_TESTS_SIM_NETWORK_H_
#define LONGWAVE_TESTS_SIM_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/scheduler.h"

namespace longwave::sim {

// The network without the temporary faults.
struct NetworkOptions {
  absl::Duration latency_min = absl::Milliseconds(1);
  absl::Duration latency_max = absl::Milliseconds(40);
  double bytes_per_second = 1e6;  // a process's rate of sending
};

// Temporary shares of messages with a fault.
struct Weather {
  double lost = 0;
  double stalled = 0;  // delayed, with all later ones of the connection
};

// The network between all processes, which are named by their node. A connection delivers messages
// once and in order. Messages of different connections overtake each other. A sender does not learn
// whether a message arrived.
class Network {
 public:
  Network(Scheduler* scheduler, const NetworkOptions& options, uint64_t seed, uint32_t nodes,
          Probes* probes)
      : scheduler_(scheduler), options_(options), rng_(seed), nodes_(nodes), probes_(probes) {}

  void set_weather(const Weather& weather) { weather_ = weather; }

  // Until then no message from or to the node arrives.
  void Cut(uint32_t node, absl::Time until);
  // Until then no message from the one node to the other arrives; the reverse direction works.
  void CutLink(uint32_t from, uint32_t to, absl::Time until);
  // Messages from or to the node arrive after that time, all of them.
  void Clog(uint32_t node, absl::Time until);
  // A clog holds up messages from the one to the other, so the sender's queues fill.
  bool IsClogged(uint32_t from, uint32_t to) const {
    return scheduler_->now() < std::max(nodes_[from].clogged_until, nodes_[to].clogged_until);
  }
  // Ends all faults.
  void Heal();

  // `deliver` runs in `to`, unless that process is down at arrival. connection: a number unique
  // among the connections between the two. kControl: the control plane's connection, which does not
  // stall.
  static constexpr uint64_t kControl = ~uint64_t{0};
  void Send(uint32_t from, Process& to, uint64_t connection, uint64_t bytes,
            const Scheduler::Action& deliver);

  uint64_t sent() const { return sent_; }

 private:
  struct Node {
    absl::Time cut_until = absl::InfinitePast();
    absl::Time clogged_until = absl::InfinitePast();
    absl::Time link_free_at = absl::InfinitePast();
  };
  static uint64_t Pair(uint32_t from, uint32_t to) { return (uint64_t{from} << 32) | to; }
  bool IsCut(uint32_t from, uint32_t to) const;
  absl::Time ArrivalOf(uint32_t from, uint32_t to, uint64_t bytes);
  void Arrive(uint32_t from, Process& to, absl::Time at, const Scheduler::Action& deliver);

  Scheduler* const scheduler_;
  const NetworkOptions options_;
  Rng rng_;
  Weather weather_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, absl::Time> cut_links_;  // by pair; only looked up
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint64_t>, absl::Time>
      last_arrival_;  // by pair and connection
  uint64_t sent_ = 0;
  Probes* const probes_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_NETWORK_H_

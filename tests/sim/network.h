#ifndef LONGWAVE_TESTS_SIM_NETWORK_H_
#define LONGWAVE_TESTS_SIM_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "common/base/rng.h"
#include "tests/sim/probes.h"
#include "tests/sim/process.h"
#include "tests/sim/scheduler.h"

namespace longwave::sim {

// How the network is at all times, apart from the faults that come and go.
struct NetworkOptions {
  absl::Duration latency_min = absl::Milliseconds(1);
  absl::Duration latency_max = absl::Milliseconds(40);
  double bytes_per_second = 1e6;  // that a process can send
};

// And while it is unwell: the share of messages that this happens to.
struct Weather {
  double lost = 0;
  double duplicated = 0;
  double overtaken = 0;  // delayed so much that later ones come first
};

// Between all processes, which are named by their node. Messages from one node to another come in
// the order in which they were sent, unless the weather is bad. Nothing tells a sender what became
// of them.
class Network {
 public:
  Network(Scheduler* scheduler, const NetworkOptions& options, uint64_t seed, uint32_t nodes,
          Probes* probes)
      : scheduler_(scheduler), options_(options), rng_(seed), nodes_(nodes), probes_(probes) {}

  void set_weather(const Weather& weather) { weather_ = weather; }

  // Nothing comes from or goes to the node until then.
  void Cut(uint32_t node, absl::Time until);
  // Nothing goes from one node to the other until then; the other way is open.
  void CutLink(uint32_t from, uint32_t to, absl::Time until);
  // What goes from or to the node arrives after that time, all of it.
  void Clog(uint32_t node, absl::Time until);
  // What is sent from one to the other is held up by such a clog: its sender's queues fill.
  bool IsClogged(uint32_t from, uint32_t to) const {
    return scheduler_->now() < std::max(nodes_[from].clogged_until, nodes_[to].clogged_until);
  }
  // Ends all of it.
  void Heal();

  // `deliver` runs in `to`, unless that is down when it arrives. A datagram may be overtaken by
  // those behind it, and may arrive twice; in a stream neither happens.
  enum class Kind { kDatagram, kStream };
  void Send(uint32_t from, Process& to, uint64_t bytes, Kind kind,
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
  std::unordered_map<uint64_t, absl::Time> cut_links_;     // by pair; looked up alone
  std::unordered_map<uint64_t, absl::Time> last_arrival_;  // likewise
  uint64_t sent_ = 0;
  Probes* const probes_;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_NETWORK_H_

#include "cli/plan/transfers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longwave {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kWindowPackets = 10;

// Rates of the busy connections; 0 of the others.
std::vector<double> FairRates(const std::vector<double>& links,
                              const std::vector<Connection>& connections,
                              const std::vector<bool>& busy) {
  std::vector<double> rates(connections.size(), 0), left = links;
  std::vector<bool> open = busy;
  while (std::ranges::find(open, true) != open.end()) {
    std::vector<double> load(links.size(), 0);
    for (size_t i = 0; i < connections.size(); ++i) {
      if (!open[i]) continue;
      load[connections[i].own_link] += 1;
      load[connections[i].shard_link] += connections[i].copies;
    }
    size_t tightest = 0;
    double rate = kInfinite;
    for (size_t link = 0; link < links.size(); ++link) {
      const double fair = load[link] > 0 ? std::max(0.0, left[link]) / load[link] : kInfinite;
      if (load[link] > 0 && fair <= rate) {
        rate = fair;
        tightest = link;
      }
    }
    for (size_t i = 0; i < connections.size(); ++i) {
      const Connection& connection = connections[i];
      if (!open[i] || (connection.own_link != tightest && connection.shard_link != tightest))
        continue;
      open[i] = false;
      rates[i] = rate;
      if (std::isinf(rate)) continue;
      left[connection.own_link] -= rate;
      left[connection.shard_link] -= rate * connection.copies;
    }
  }
  return rates;
}

}  // namespace

std::vector<std::vector<double>> TransferEnds(const std::vector<double>& bytes_per_second,
                                              const std::vector<Connection>& connections) {
  const size_t count = connections.size();
  std::vector<std::vector<double>> ends(count);
  std::vector<double> left(count, 0);
  for (size_t i = 0; i < count; ++i)
    if (!connections[i].transfers.empty()) left[i] = connections[i].transfers[0].bytes;
  double now = 0;
  while (true) {
    std::vector<bool> busy(count, false);
    double next = kInfinite;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Transfer>& transfers = connections[i].transfers;
      if (ends[i].size() == transfers.size()) continue;
      const double from = transfers[ends[i].size()].from_s;
      busy[i] = from <= now;
      if (!busy[i]) next = std::min(next, from);
    }
    const std::vector<double> rates = FairRates(bytes_per_second, connections, busy);
    size_t first = count;  // the connection whose transfer ends first
    for (size_t i = 0; i < count; ++i) {
      const double end = busy[i] ? now + left[i] / rates[i] : kInfinite;
      if (end > next || std::isinf(end)) continue;
      next = end;
      first = i;
    }
    if (std::isinf(next)) return ends;
    for (size_t i = 0; i < count; ++i)
      if (busy[i] && i != first) left[i] = std::max(0.0, left[i] - (next - now) * rates[i]);
    now = next;
    if (first == count) continue;
    ends[first].push_back(now);
    const std::vector<Transfer>& transfers = connections[first].transfers;
    if (ends[first].size() < transfers.size()) left[first] = transfers[ends[first].size()].bytes;
  }
}

double SlowStartSeconds(double bytes, double bytes_per_second, double round_trip_s) {
  const double window = kWindowPackets * kPacketDataBytes;
  // Until the window fills the link, or all has been sent.
  const double round_trips =
      std::min(std::ceil(std::log2(std::max(1.0, bytes_per_second * round_trip_s / window))),
               std::ceil(std::log2(bytes / window + 1)) - 1);
  // Of that time the link was busy with what the windows had.
  const double sent = window * (std::exp2(round_trips) - 1);
  return std::max(0.0, round_trips * round_trip_s - sent / bytes_per_second);
}

}  // namespace longwave

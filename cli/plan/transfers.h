#ifndef LONGWAVE_CLI_PLAN_TRANSFERS_H_
#define LONGWAVE_CLI_PLAN_TRANSFERS_H_

#include <cstddef>
#include <vector>

namespace longwave {

// Bytes that have to go through a link, from a time on.
struct Transfer {
  double from_s = 0;
  double bytes = 0;
};

// Transfers of equal connections, one after the other on each. `copies` equal machines have such a
// connection to one shard: each has a link of its own, and the shard's link carries them all.
struct Connection {
  size_t own_link = 0, shard_link = 0;  // indices into the rates
  double copies = 1;
  std::vector<Transfer> transfers;  // by from_s
};

// The seconds at which each connection's transfers end. Connections that are busy at the same time
// share a link as TCP's do over time: evenly, and what one cannot use because of its other link the
// others get (max-min fairness). bytes_per_second: of each link, above 0; infinite: never binds.
std::vector<std::vector<double>> TransferEnds(const std::vector<double>& bytes_per_second,
                                              const std::vector<Connection>& connections);

// Seconds that TCP's slow start adds to a transfer on a connection that has been idle: the window
// begins with 10 packets (RFC 6928) and doubles each round trip until it fills the link.
double SlowStartSeconds(double bytes, double bytes_per_second, double round_trip_s);

// The share of a link's bytes that is data, in packets of 1500 bytes with IPv4's and TCP's headers
// and TCP's time stamps.
inline constexpr double kPacketDataBytes = 1448;
inline constexpr double kDataShare = kPacketDataBytes / 1500;

}  // namespace longwave

#endif  // LONGWAVE_CLI_PLAN_TRANSFERS_H_

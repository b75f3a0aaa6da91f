#ifndef LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_
#define LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/security/refusals.h"

namespace longwave {

// Private to this folder. Which connections to a port have made no call: half-open ones, and those
// of somebody who came through the handshake and says nothing. gRPC tells of none of them, so the
// system's own list is held against who has called. A peer is "1.2.3.4:5" or "[::1]:5".
class SilentConnections {
 public:
  // After which a connection that has made no call counts; less than what a handshake may take.
  static constexpr absl::Duration kSilenceMax = absl::Seconds(3);
  // One that has gone, as the server lets it go, counts if it was seen for as long as this: on a
  // busy machine the looks at it come late.
  static constexpr absl::Duration kSeenMin = absl::Milliseconds(1500);

  void Heard(const std::string& peer, absl::Time now);
  // connected: all that there are, of a list that was asked for at `asked` and there at `now`.
  // Returns those that have been silent for too long, each once.
  std::vector<std::string> Look(const std::vector<std::string>& connected, absl::Time asked,
                                absl::Time now);

 private:
  struct Connection {
    absl::Time since;  // when it was first seen, or was heard for the first time
    absl::Time last;   // when it was still there
    bool heard = false;
    bool counted = false;
    bool there = false;
  };
  std::map<std::string, Connection> connections_;  // by peer
};

// "ipv4:1.2.3.4:5" and "ipv6:%5Bfe80::1%252%5D:5", as gRPC writes them; without the scope, which
// the system's list does not have.
std::string PeerOfGrpc(std::string_view peer);
// What a server listens on.
struct ListenAddress {
  std::set<std::string> hosts;  // "1.2.3.4", "[::1]"; none: any of this machine's
  uint16_t port = 0;
};
// Of "host:port", as a server was told it; a name is looked up.
std::set<std::string> HostsOf(const std::string& address);
// Peers of the established connections to it: table is /proc/net/tcp's or tcp6's text.
std::vector<std::string> PeersAt(const ListenAddress& local, std::string_view table);

// Looks once a second, on a thread of its own, and counts those at a server's address as
// Refusal::kHalfOpen.
class SilenceWatch {
 public:
  // refusals: null if nobody counts.
  explicit SilenceWatch(Refusals* refusals) : refusals_(refusals) {}
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  // Once the port is known.
  void Begin(ListenAddress local);
  // Somebody calls, by gRPC's name.
  void Heard(const std::string& grpc_peer);
  // Here for tests: the thread does it.
  void Look(const std::vector<std::string>& connected, absl::Time asked, absl::Time now);

 private:
  void Watch(std::stop_token stop, const ListenAddress& local);

  Refusals* const refusals_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  SilentConnections connections_;
  std::jthread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_

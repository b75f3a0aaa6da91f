#ifndef LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_
#define LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
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

  void Heard(const std::string& peer, absl::Time now);
  // connected: all that there are now. Returns those that have been silent for too long, each once.
  std::vector<std::string> Look(const std::vector<std::string>& connected, absl::Time now);

 private:
  struct Connection {
    absl::Time since;  // when it was first seen, or was heard for the first time
    bool heard = false;
    bool counted = false;
    bool there = false;
  };
  std::map<std::string, Connection> connections_;  // by peer
};

// "ipv4:1.2.3.4:5" and "ipv6:%5B::1%5D:5", as gRPC writes them.
std::string PeerOfGrpc(std::string_view peer);
// Peers of the established connections to a local port: table is /proc/net/tcp's or tcp6's text.
std::vector<std::string> PeersAt(uint16_t port, std::string_view table);

// Looks once a second, on a thread of its own, and counts those at a port as Refusal::kHalfOpen.
class SilenceWatch {
 public:
  explicit SilenceWatch(Refusals* refusals) : refusals_(refusals) {}
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  // Once the port is known.
  void Begin(uint16_t port);
  // Somebody calls, by gRPC's name.
  void Heard(const std::string& grpc_peer);

 private:
  void Watch(std::stop_token stop, uint16_t port);

  Refusals* const refusals_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  SilentConnections connections_;
  std::jthread thread_;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_SILENT_CONNECTIONS_H_

#ifndef LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_
#define LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace longwave {

// Serves a process's series over HTTP, on a thread of its own:
//   /metrics   the page
//   /healthz   200 "ok" for as long as the process runs
// Anything else is 404, any method but GET and HEAD 405, and a malformed request 400. The server
// answers one request on each connection. A slow client delays no other: the server closes a
// connection whose request or answer exceeds its limit, and the oldest one when there are too many.
class MetricsServer {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr absl::Duration kRequestPatience = absl::Seconds(3);
  static constexpr absl::Duration kAnswerPatience = absl::Seconds(10);

  // address: "host:port", port 0 for any free one, "[::1]:9464" for IPv6. `metrics` outlives the
  // server. Errors: Unavailable (the port is in use), InvalidArgument (not an address, or none of
  // this machine), PermissionDenied.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              Metrics* metrics);
  virtual ~MetricsServer() = default;

  virtual std::string address() const = 0;  // with its real port
  std::string url() const { return "http://" + address() + "/metrics"; }
};

// Serves a process's series at `flag` (--metrics) or, without it, `configured` (metrics.listen),
// and logs the address. Null if the address is empty.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const std::optional<std::string>& flag,
                                                            const std::string& configured,
                                                            Metrics* metrics);

// Prints the address on standard output, for the user; nothing without a server.
void SayMetrics(const MetricsServer* server);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_

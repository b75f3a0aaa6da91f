#ifndef LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_
#define LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/metrics/metrics.h"

namespace longwave {

// Serves a process's series over HTTP, on threads of its own:
//   /metrics   the page
//   /healthz   200 "ok" for as long as the process runs
// Anything else is 404, any method but GET and HEAD 405. A connection that keeps silent is closed
// after kRequestTimeout, and one request is answered on it.
class MetricsServer {
 public:
  static constexpr int kRequestTimeoutMs = 3000;

  // address: "host:port", port 0 for any free one, "[::1]:9464" for IPv6. `metrics` outlives the
  // server. Unavailable: the port is in use. InvalidArgument: not an address, or none of this
  // machine. PermissionDenied.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              Metrics* metrics);
  virtual ~MetricsServer() = default;

  virtual std::string address() const = 0;  // with its real port
  std::string url() const { return "http://" + address() + "/metrics"; }
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_METRICS_METRICS_SERVER_H_

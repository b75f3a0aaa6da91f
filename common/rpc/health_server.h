#ifndef LONGWAVE_COMMON_RPC_HEALTH_SERVER_H_
#define LONGWAVE_COMMON_RPC_HEALTH_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace longwave {

// gRPC's health service alone (grpc.health.v1), on a port of its own and without TLS, for probes
// without a certificate, such as a kubelet's. The service reports only whether this process lives
// (service "") and whether it works (service "ready"). Thread-safe.
class HealthServer {
 public:
  static constexpr char kReadyService[] = "ready";

  // address: "host:port", port 0 for any free one. Serves at once: alive, not ready. Errors:
  // InvalidArgument (not an address of this machine), Unavailable (the port is in use).
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(const std::string& address);
  virtual ~HealthServer() = default;

  // host:port with the real port.
  virtual std::string address() const = 0;
  virtual void SetReady(bool ready) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_HEALTH_SERVER_H_

#ifndef LONGWAVE_COMMON_RPC_RPC_SERVER_H_
#define LONGWAVE_COMMON_RPC_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/log/refusals.h"
#include "common/rpc/admission_records.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "longwave/v1/coordinator.calls.h"
#include "longwave/v1/shard.calls.h"

namespace longwave {

// Handles the coordinator's calls, from many threads at once. An error reaches the caller as the
// gRPC status of the same code and sentence.
class CoordinatorHandler : public CoordinatorCalls {
 public:
  // For a server with credentials alone. The name of the worker with this index, which a
  // heartbeat's certificate must have; empty if there is none.
  virtual std::string WorkerName(uint32_t worker) = 0;
  // Why the holder of the certificate may not act for its names (expelled, or another key's), if
  // so.
  virtual std::optional<CallRefusal> Admit(const CertificateInfo& caller) = 0;
  // Whether to read the Join request of a caller with this token.
  virtual absl::Status CheckToken(const std::string& token) = 0;
};

// Handles a shard's calls, as CoordinatorHandler.
class ShardHandler : public ShardServiceCalls {
 public:
  // As CoordinatorHandler::Admit. Called from many threads at once.
  virtual std::optional<CallRefusal> Admit(const CertificateInfo& caller) = 0;
};

struct RpcServerOptions {
  // Folder of the server's credentials (common/security/credentials.h), reread when its files
  // change. Calls then use TLS, and the server checks each caller's certificate. Empty: plain text,
  // and every process may make every call.
  std::string credentials;
  // Counts rejects; outlives the server. Not null with credentials.
  Refusals* refusals = nullptr;
  // The age at which a secured connection is replaced, which bounds the age of its ends'
  // certificates.
  absl::Duration connection_age_max = absl::Minutes(10);
};

// A gRPC server for one handler. A plain server also has gRPC's health and reflection services; a
// secured one has not, as those read what strangers send.
//
// The server bounds what callers cost. A connection has five seconds for its handshake. All
// messages under way together take at most a quarter of the process's memory, and the number of
// calls under way is bounded too (caller_bounds.h). A secured server reads only the call header of
// a stranger. Only the process's file descriptors bound the number of connections.
class RpcServer {
 public:
  // address: "host:port", port 0 for any free one. The handler outlives the server. Errors:
  // InvalidArgument (not an address of this machine), Unavailable (the port is in use).
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          CoordinatorHandler* handler,
                                                          const RpcServerOptions& options = {});
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          ShardHandler* handler,
                                                          const RpcServerOptions& options = {});
  virtual ~RpcServer() = default;

  // host:port with the real port.
  virtual std::string address() const = 0;

  // Accepts no more calls, and returns once those under way are answered, or cancelled after half a
  // second. The destructor calls Shutdown too.
  virtual void Shutdown() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_RPC_SERVER_H_

#ifndef LONGWAVE_COMMON_RPC_RPC_SERVER_H_
#define LONGWAVE_COMMON_RPC_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/admission.h"
#include "common/security/call_policy.h"
#include "common/security/certificates.h"
#include "common/security/refusals.h"
#include "common/wire/control.h"
#include "common/wire/shard_report.h"

namespace longwave {

// What answers the coordinator's calls. Called from many threads at once. An error reaches the
// caller as the gRPC status of the same code and sentence.
class CoordinatorHandler {
 public:
  virtual ~CoordinatorHandler() = default;

  virtual absl::StatusOr<uint32_t> Register(const RegisterWorker& request) = 0;
  virtual absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) = 0;
  virtual absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) = 0;
  virtual absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) = 0;
  virtual absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) = 0;
  virtual absl::Status StopRun(const std::string& reason) = 0;
  virtual absl::StatusOr<RunDescription> GetRun();

  // Where control is secured. The name of the worker with this index, whose heartbeats its
  // certificate has to name; empty: there is none.
  virtual std::string WorkerName(uint32_t worker);
  // Why the holder of the certificate may not act for those that it names, if so: they were
  // expelled, or are another key's by now.
  virtual std::optional<CallRefusal> Admit(const CertificateInfo& caller);
  // Who may take part. Unless overridden FailedPrecondition: the run is not secured.
  virtual absl::StatusOr<std::string> GetAuthority();
  // Whether whoever has this token is one whose request to join is read.
  virtual absl::Status CheckToken(const std::string& token);
  virtual absl::StatusOr<JoinAnswer> Join(const JoinWish& wish);
  virtual absl::StatusOr<std::string> RenewCertificate(const CertificateInfo& caller,
                                                       const std::string& request);
  virtual absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  virtual absl::StatusOr<TokenList> ListTokens();
  virtual absl::Status RevokeToken(const std::string& id);
  // Returns the tokens that it revokes.
  virtual absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole);
};

// What answers a shard's calls, likewise.
class ShardHandler {
 public:
  virtual ~ShardHandler() = default;

  virtual absl::StatusOr<ShardReport> GetStatus() = 0;
  // As the coordinator's. Called from many threads at once.
  virtual std::optional<CallRefusal> Admit(const CertificateInfo& caller);
};

struct RpcServerOptions {
  // Folder of the server's credentials (common/security/credentials.h), followed as it changes:
  // calls come over TLS, and each is held against its caller's certificate. Empty: plain text, and
  // everybody may call everything.
  std::string credentials;
  // Counts who was refused; outlives the server. With credentials, not null.
  Refusals* refusals = nullptr;
  // After which a secured connection is made anew, so that the certificates at its ends are not
  // older than that.
  absl::Duration connection_age_max = absl::Minutes(10);
};

// A gRPC server for one handler. Plain, it has gRPC's health and reflection services beside it;
// secured it has not, as those read whatever a stranger sends.
//
// It bounds what callers cost. A connection has five seconds for its handshake, and all messages
// under way together take a quarter of the memory that the process may have (caller_bounds.h).
// Secured, what a stranger sends beyond the header of its call is not read. The number of
// connections is bounded by the process's file descriptors alone.
class RpcServer {
 public:
  // address: "host:port", port 0 for any free one. The handler outlives the server.
  // InvalidArgument: not an address of this machine. Unavailable: the port is in use.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          CoordinatorHandler* handler,
                                                          const RpcServerOptions& options = {});
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          ShardHandler* handler,
                                                          const RpcServerOptions& options = {});
  virtual ~RpcServer() = default;

  // host:port with the real port.
  virtual std::string address() const = 0;

  // Takes no more calls, and returns once those under way are answered (or, after half a second,
  // cancelled). The destructor does it too.
  virtual void Shutdown() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_RPC_SERVER_H_

#ifndef LONGWAVE_COMMON_RPC_RPC_SERVER_H_
#define LONGWAVE_COMMON_RPC_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/shard_report.h"
#include "common/wire/control.h"

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
};

// What answers a shard's calls, likewise.
class ShardHandler {
 public:
  virtual ~ShardHandler() = default;

  virtual absl::StatusOr<ShardReport> GetStatus() = 0;
};

// A gRPC server for one handler, with gRPC's health and reflection services beside it.
class RpcServer {
 public:
  // address: "host:port", port 0 for any free one. The handler outlives the server.
  // InvalidArgument: not an address of this machine. Unavailable: the port is in use.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          CoordinatorHandler* handler);
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const std::string& address,
                                                          ShardHandler* handler);
  virtual ~RpcServer() = default;

  // host:port with the real port.
  virtual std::string address() const = 0;

  // Takes no more calls, and returns once those under way are answered (or, after half a second,
  // cancelled). The destructor does it too.
  virtual void Shutdown() = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_RPC_SERVER_H_

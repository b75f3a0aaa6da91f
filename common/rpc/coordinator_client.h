#ifndef LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_
#define LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/control.h"
#include "common/rpc/admission_records.h"

namespace longwave {

// The deadline of a call for which a person waits, of a coordinator that may be busy.
inline constexpr absl::Duration kCommandDeadline = absl::Seconds(15);

// Calls to the coordinator. Thread-safe. Each call ends within `deadline` of Connect.
class CoordinatorClient {
 public:
  // address: "host:port". Returns without waiting for the coordinator. credentials: the folder of
  // the caller's credentials (common/security/credentials.h), reread when its files change; empty:
  // plain text.
  static std::unique_ptr<CoordinatorClient> Connect(const std::string& address,
                                                    absl::Duration deadline = absl::Seconds(5),
                                                    const std::string& credentials = "");
  virtual ~CoordinatorClient() = default;

  // Returns the worker's index.
  virtual absl::StatusOr<uint32_t> Register(const RegisterWorker& request) = 0;
  // Returns the run's name (the random word in frames), and whether to restore.
  virtual absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) = 0;
  virtual absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) = 0;
  virtual absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) = 0;
  // With the records of rounds from this one on; by default without any, of which a long run has
  // many.
  virtual absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from = ~uint64_t{0}) = 0;
  virtual absl::Status StopRun(const std::string& reason) = 0;
  // Errors: Unavailable (no answer).
  virtual absl::StatusOr<RunDescription> GetRun() = 0;

  // Admission to a secured run. Errors: FailedPrecondition (the run is not secured, or its
  // coordinator has no authority).
  virtual absl::StatusOr<std::string> RenewCertificate(const std::string& request) = 0;
  virtual absl::StatusOr<NewToken> CreateToken(const TokenWish& wish) = 0;
  virtual absl::StatusOr<TokenList> ListTokens() = 0;
  virtual absl::Status RevokeToken(const std::string& id) = 0;
  // Returns the tokens that the expulsion revokes.
  virtual absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo,
                                          bool whole = false) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_

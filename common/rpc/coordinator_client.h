#ifndef LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_
#define LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/admission.h"
#include "common/wire/control.h"

namespace longwave {

// Calls to the coordinator. Thread-safe. Every call ends within `deadline` of Connect.
class CoordinatorClient {
 public:
  // address: "host:port". Does not wait for the coordinator to be there. credentials: the folder of
  // the caller's (common/security/credentials.h), followed as it changes; empty: plain text.
  static std::unique_ptr<CoordinatorClient> Connect(const std::string& address,
                                                    absl::Duration deadline = absl::Seconds(5),
                                                    const std::string& credentials = "");
  virtual ~CoordinatorClient() = default;

  // Returns the worker's index.
  virtual absl::StatusOr<uint32_t> Register(const RegisterWorker& request) = 0;
  // Returns the run's name (the random word that frames carry), and whether to restore.
  virtual absl::StatusOr<ShardRegistration> Register(const RegisterShard& request) = 0;
  virtual absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat& heartbeat) = 0;
  virtual absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat& heartbeat) = 0;
  virtual absl::StatusOr<RunStatus> GetStatus(uint64_t round_records_from) = 0;
  virtual absl::Status StopRun(const std::string& reason) = 0;
  // Unavailable: nobody answers.
  virtual absl::StatusOr<RunDescription> GetRun();

  // Of a secured run: who may take part. FailedPrecondition: it is not secured, or its coordinator
  // has no authority of its own. Implementations without all that say so of themselves.
  virtual absl::StatusOr<std::string> RenewCertificate(const std::string& request);
  virtual absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  virtual absl::StatusOr<TokenList> ListTokens();
  virtual absl::Status RevokeToken(const std::string& id);
  // Returns the tokens that it revokes.
  virtual absl::StatusOr<Expulsion> Expel(const std::string& worker, bool undo, bool whole = false);
};

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_COORDINATOR_CLIENT_H_

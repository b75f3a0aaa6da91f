#ifndef LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_
#define LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_

// Handlers that answer no call, from which tests derive those that answer some.
#include <optional>
#include <string>

#include "common/rpc/rpc_server.h"

namespace longwave {

class IdleCoordinator : public CoordinatorHandler {
 public:
  absl::StatusOr<uint32_t> Register(const RegisterWorker&) override { return No(); }
  absl::StatusOr<ShardRegistration> Register(const RegisterShard&) override { return No(); }
  absl::StatusOr<WorkerHeartbeatReply> Heartbeat(const WorkerHeartbeat&) override { return No(); }
  absl::StatusOr<ShardHeartbeatReply> Heartbeat(const ShardHeartbeat&) override { return No(); }
  absl::StatusOr<RunStatus> GetStatus(uint64_t) override { return No(); }
  absl::Status StopRun(const std::string&) override { return No(); }
  absl::StatusOr<RunDescription> GetRun() override { return No(); }
  std::string WorkerName(uint32_t) override { return ""; }
  std::optional<CallRefusal> Admit(const CertificateInfo&) override { return std::nullopt; }
  absl::StatusOr<std::string> GetAuthority() override { return No(); }
  absl::Status CheckToken(const std::string&) override { return No(); }
  absl::StatusOr<JoinAnswer> Join(const JoinWish&) override { return No(); }
  absl::StatusOr<std::string> RenewCertificate(const CertificateInfo&,
                                               const std::string&) override {
    return No();
  }
  absl::StatusOr<NewToken> CreateToken(const TokenWish&) override { return No(); }
  absl::StatusOr<TokenList> ListTokens() override { return No(); }
  absl::Status RevokeToken(const std::string&) override { return No(); }
  absl::StatusOr<Expulsion> Expel(const std::string&, bool, bool) override { return No(); }

 private:
  static absl::Status No() { return absl::UnimplementedError("this coordinator is idle"); }
};

class IdleShard : public ShardHandler {
 public:
  absl::StatusOr<ShardReport> GetStatus() override { return ShardReport(); }
  std::optional<CallRefusal> Admit(const CertificateInfo&) override { return std::nullopt; }
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_

#ifndef LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_
#define LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_

// Handlers that answer no call, from which tests derive those that answer some.
#include <optional>
#include <string>

#include "common/rpc/rpc_server.h"

namespace longwave {

class IdleCoordinator : public CoordinatorHandler {
 public:
  std::string WorkerName(uint32_t) override { return ""; }
  std::optional<CallRefusal> Admit(const CertificateInfo&) override { return std::nullopt; }
  absl::Status CheckToken(const std::string&) override {
    return absl::UnimplementedError("this coordinator is idle");
  }
};

class IdleShard : public ShardHandler {
 public:
  absl::StatusOr<ShardReport> GetStatus() override { return ShardReport(); }
  std::optional<CallRefusal> Admit(const CertificateInfo&) override { return std::nullopt; }
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_IDLE_HANDLERS_H_

#ifndef LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_
#define LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/link/curve.h"
#include "common/log/refusals.h"
#include "common/rpc/rpc_server.h"
#include "common/security/identity.h"

namespace longwave {

// A shard's credentials and its count of refused callers. Without credentials there is no security.
struct ProcessSecurity {
  std::string credentials;  // folder of the credentials
  CurveKeys keys;
  Refusals refusals;
  absl::Duration connection_age_max = absl::Minutes(10);

  bool is_on() const { return !credentials.empty(); }
  RpcServerOptions ForServer() {
    return {.credentials = credentials,
            .refusals = &refusals,
            .connection_age_max = connection_age_max};
  }
};

// security.mode and the addresses decide whether security is on. FailedPrecondition: security is
// on, and the credentials are missing or do not fit.
absl::StatusOr<std::unique_ptr<ProcessSecurity>> OpenSecurity(
    const RunConfig& config, const std::string& state_dir, const Identity& identity,
    const std::vector<std::string>& addresses);

// A certificate is renewed after two thirds of its life, and every connection must be replaced
// before the last third ends.
absl::Duration ConnectionAgeMax(const SecuritySection& security);

// Without reasons that have a count of zero.
std::vector<RefusalCount> CountsOf(const Refusals& refusals);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_

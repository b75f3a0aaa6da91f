#ifndef LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_
#define LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/run_config.h"
#include "common/link/curve.h"
#include "common/rpc/rpc_server.h"
#include "common/security/identity.h"
#include "common/security/refusals.h"
#include "common/wire/control.h"

namespace longwave {

// What a shard has to show, and whom it has refused. Without credentials nothing is secured.
struct ProcessSecurity {
  std::string credentials;  // their folder
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

// Whether it is on is decided by security.mode and the addresses; then the credentials have to be
// there and fit. FailedPrecondition: they don't.
absl::StatusOr<std::unique_ptr<ProcessSecurity>> OpenSecurity(
    const RunConfig& config, const std::string& state_dir, const Identity& identity,
    const std::vector<std::string>& addresses);

// A certificate is renewed after two thirds of its life: before the last third is over, every
// connection has been made anew.
absl::Duration ConnectionAgeMax(const SecuritySection& security);

// Without reasons that never came up.
std::vector<RefusalCount> CountsOf(const Refusals& refusals);

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_PROCESS_SECURITY_H_

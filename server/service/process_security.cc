#include "server/service/process_security.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/security/credentials.h"
#include "common/security/security_mode.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<ProcessSecurity>> OpenSecurity(
    const RunConfig& config, const std::string& state_dir, const Identity& identity,
    const std::vector<std::string>& addresses) {
  auto security = std::make_unique<ProcessSecurity>();
  if (!IsSecured(config.security.mode, addresses)) return security;
  LONGWAVE_ASSIGN_OR_RETURN(security->credentials,
                            CredentialsFolder(config.security.folder, state_dir));
  LONGWAVE_RETURN_IF_ERROR(CheckCredentials(security->credentials, identity, absl::Now()).status());
  LONGWAVE_ASSIGN_OR_RETURN(security->keys, MakeCurveKeys());
  security->connection_age_max = ConnectionAgeMax(config.security);
  return security;
}

absl::Duration ConnectionAgeMax(const SecuritySection& security) {
  return std::min(absl::Minutes(10), absl::Seconds(security.certificate_life_s) / 6);
}

std::vector<RefusalCount> CountsOf(const Refusals& refusals) {
  std::vector<RefusalCount> counts;
  for (size_t i = 0; i < kRefusalCount; ++i) {
    const auto reason = static_cast<Refusal>(i);
    if (const uint64_t count = refusals.of(reason); count > 0)
      counts.push_back({std::string(Name(reason)), count});
  }
  return counts;
}

}  // namespace longwave

#include "worker/member/fetch_config.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/heartbeat_schedule.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/credentials.h"
#include "common/security/security_mode.h"

namespace longwave {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(3);
constexpr absl::Duration kPause = absl::Milliseconds(300);

}  // namespace

absl::Status KeepTrying(absl::Duration patience, const StopSignal& stop,
                        absl::FunctionRef<absl::Status()> attempt) {
  const absl::Time give_up = MonotonicNow() + patience;
  for (bool said = false;; said = true) {
    if (stop.requested()) return Cancelled("asked to stop before registration");
    absl::Status status = attempt();
    if (status.ok() || !MayPass(status) || MonotonicNow() > give_up) return status;
    if (!said) Log(LogLevel::kWarning, status.message(), "; trying again");
    absl::SleepFor(kPause);
  }
}

absl::StatusOr<RunConfig> FetchRunConfig(const std::string& coordinator, const Overrides& overrides,
                                         const std::string& state_dir, const StopSignal& stop) {
  // The worker's own settings determine how it reaches the coordinator, whatever the run's
  // configuration says.
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig own, ParseConfig("{}", "the defaults", overrides));
  std::string credentials;
  if (IsSecured(own.security.mode, {coordinator})) {
    LONGWAVE_ASSIGN_OR_RETURN(credentials, CredentialsFolder(own.security.folder, state_dir));
  }
  const auto client = CoordinatorClient::Connect(coordinator, kCallDeadline, credentials);
  absl::StatusOr<RunDescription> run = Unknown("not asked for");
  LONGWAVE_RETURN_IF_ERROR(
      KeepTrying(absl::Seconds(own.cluster.start_timeout_s), stop, [&]() -> absl::Status {
        run = client->GetRun();
        if (run.ok()) return absl::OkStatus();
        return absl::Status(run.status().code(),
                            absl::StrCat("the coordinator at ", coordinator,
                                         " does not tell its run: ", run.status().message()));
      }));
  return ParseConfig(run->configuration, "the coordinator's configuration", overrides);
}

}  // namespace longwave

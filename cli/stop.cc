#include "cli/stop.h"

#include <cstdio>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

absl::Status Stop(const std::string& address, const std::string& security) {
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(address, kCommandDeadline, security);
  LONGWAVE_ASSIGN_OR_RETURN(const RunStatus run,
                            client->GetStatus(std::numeric_limits<uint64_t>::max()));
  if (IsOver(run.phase)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run is over already (", std::string(Name(run.phase)), ")"));
  }
  LONGWAVE_RETURN_IF_ERROR(client->StopRun("stopped by an operator"));
  PrintLine(stdout,
            "stopped; the worker that validates writes the weights of now into its run folder");
  return absl::OkStatus();
}

}  // namespace

int RunStop(const std::string& address, const std::string& security) {
  return ExitStatus("longwave stop: failed", Stop(address, security));
}

}  // namespace longwave

#include "cli/status.h"

#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cli/view.h"
#include "common/base/print.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

void Print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) PrintLine(stdout, line);
}

// Nothing is known of them before a round has ended.
std::string ReplicasLine(const RunStatus& status) {
  if (status.record_count == 0) return "-, state -";
  return absl::StrCat(status.replicas_equal ? "equal" : status.inequality, ", state ",
                      FormatHash(status.state_hash));
}

// "nobody", or "3 token, 1 expired".
std::string RefusalsLine(const RunStatus& status) {
  std::string line;
  for (const RefusalCount& refusal : status.refusals)
    absl::StrAppend(&line, line.empty() ? "" : ", ", refusal.count, " ", refusal.reason);
  return line.empty() ? "nobody" : line;
}

}  // namespace

int RunStatusCommand(const std::string& address, const std::string& security) {
  if (!IsHostPort(address)) {
    PrintLine(stderr,
              absl::StrCat("longwave status: got ", Quotable(address), ", wanted host:port"));
    return 1;
  }
  // No records are wanted: a long run has many.
  const absl::StatusOr<RunStatus> status =
      CoordinatorClient::Connect(address, absl::Seconds(5), security)
          ->GetStatus(std::numeric_limits<uint64_t>::max());
  if (!status.ok()) {
    PrintLine(stderr, absl::StrCat("longwave status: failed: ", status.status().message()));
    return 1;
  }
  const std::string& why = status->phase == RunPhase::kWaiting ? status->trouble : status->failure;
  Print(
      {absl::StrCat("run        ", std::string(Name(status->phase)), why.empty() ? "" : ": ", why),
       absl::StrCat("rounds     ", status->record_count, ", epoch ", status->epoch, ", ",
                    FormatDuration(status->seconds)),
       absl::StrCat("validation ", FormatLoss(status->validation_loss.value_or(
                                       std::numeric_limits<double>::quiet_NaN()))),
       absl::StrCat("replicas   ", ReplicasLine(*status),
                    status->repairs > 0 ? absl::StrCat(", repaired ", status->repairs) : "")});
  for (const std::string& line : TroubleLines(*status)) {
    Print({absl::StrCat("trouble    ", line)});
  }
  if (status->secured) Print({absl::StrCat("security   on, refused ", RefusalsLine(*status))});
  Print({""});
  Print(WorkerLines(*status));
  Print({""});
  Print(ShardLines(*status));
  return 0;
}

}  // namespace longwave

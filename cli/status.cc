#include "cli/status.h"

#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/screen.h"
#include "cli/view.h"
#include "common/base/print.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

// Below an empty line: a table as the style has it, colours included.
void PrintTable(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  std::fputs(text.c_str(), stdout);
}

Hue HueOf(RunPhase phase) {
  if (phase == RunPhase::kFinished) return Hue::kGood;
  return phase == RunPhase::kFailed ? Hue::kBad : Hue::kPlain;
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
  const auto say = [](const char* name, const std::string& what, Hue hue = Hue::kPlain) {
    PrintPainted(stdout, absl::StrFormat("%-11s%s", name, what), hue);
  };
  say("run", absl::StrCat(std::string(Name(status->phase)), why.empty() ? "" : ": ", why),
      HueOf(status->phase));
  say("rounds", absl::StrCat(status->record_count, ", epoch ", status->epoch, ", ",
                             FormatDuration(status->seconds)));
  say("validation",
      FormatLoss(status->validation_loss.value_or(std::numeric_limits<double>::quiet_NaN())));
  say("replicas", absl::StrCat(ReplicasLine(*status), status->repairs > 0 ? ", repaired " : "",
                               status->repairs > 0 ? absl::StrCat(status->repairs) : ""));
  for (const std::string& line : TroubleLines(*status)) say("trouble", line, Hue::kBad);
  if (status->secured) say("security", absl::StrCat("on, refused ", RefusalsLine(*status)));
  PrintTable(WorkerLines(*status, StyleOf(stdout)));
  PrintTable(ShardLines(*status, StyleOf(stdout)));
  return 0;
}

}  // namespace longwave

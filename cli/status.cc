#include "cli/status.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json_text.h"
#include "cli/screen.h"
#include "cli/status_feed.h"
#include "cli/summary.h"
#include "cli/view.h"
#include "common/base/figures.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

// Prints an empty line and a table in the style, with its colours.
void PrintTable(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  std::fputs(text.c_str(), stdout);
}

Hue HueOf(RunPhase phase) {
  if (phase == RunPhase::kFinished) return Hue::kGood;
  return phase == RunPhase::kFailed ? Hue::kBad : Hue::kPlain;
}

// "-" until a round has ended.
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

// The status of a run with its own configuration.
struct Known {
  RunConfig config;
  RunStatus status;
};

absl::StatusOr<Known> Ask(const Target& target) {
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  Known known;
  LONGWAVE_ASSIGN_OR_RETURN(known.config, GetConfig(*client));
  // Of the records only the last one.
  LONGWAVE_ASSIGN_OR_RETURN(known.status, client->GetStatus());
  if (known.status.record_count == 0) return known;
  LONGWAVE_ASSIGN_OR_RETURN(known.status, client->GetStatus(known.status.record_count - 1));
  return known;
}

void Print(const RunConfig& config, const RunStatus& status) {
  const std::string& why = status.phase == RunPhase::kWaiting ? status.trouble : status.failure;
  const auto say = [](const char* name, const std::string& what, Hue hue = Hue::kPlain) {
    PrintPainted(stdout, absl::StrFormat("%-11s%s", name, what), hue);
  };
  say("run", absl::StrCat(std::string(Name(status.phase)), why.empty() ? "" : ": ", why),
      HueOf(status.phase));
  say("rounds", absl::StrCat(RoundsDone(status), " of ", RoundCount(config), ", epoch ",
                             status.epoch, ", ", FormatDuration(status.seconds), ", left ",
                             FormatDuration(SecondsLeft(config, status))));
  say("training", absl::StrCat("loss ", FormatLoss(TrainLoss(status)), ", ",
                               FormatCount(TokensPerSecond(status)), " tokens/s"));
  say("validation",
      FormatLoss(status.validation_loss.value_or(std::numeric_limits<double>::quiet_NaN())));
  const ByteCounts bytes = TotalBytes(status);
  say("bytes", absl::StrCat("pushed ", FormatBytes(static_cast<double>(bytes.pushed)), ", pulled ",
                            FormatBytes(static_cast<double>(bytes.pulled)), " (all workers)"));
  say("replicas", absl::StrCat(ReplicasLine(status), status.repairs > 0 ? ", repaired " : "",
                               status.repairs > 0 ? absl::StrCat(status.repairs) : ""));
  for (const std::string& line : TroubleLines(status)) say("trouble", line, Hue::kBad);
  if (status.secured) say("security", absl::StrCat("on, refused ", RefusalsLine(status)));
  PrintTable(WorkerLines(status, StyleOf(stdout)));
  PrintTable(ShardLines(status, StyleOf(stdout)));
}

}  // namespace

std::string FormatStatusJson(const RunConfig& config, const RunStatus& status) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  const ByteCounts bytes = TotalBytes(status);
  uint64_t tokens = 0;
  Json workers = Json::array(), shards = Json::array(), refusals = Json::object();
  for (const MemberStatus& member : status.members) {
    const WorkerState& state = member.state;
    tokens += state.tokens;
    workers.push_back({{"name", member.member.name},
                       {"index", member.member.worker},
                       {"state", Name(state.phase)},
                       {"ranks", std::max(1u, state.ranks)},
                       {"step", state.step},
                       {"rounds", RoundsDone(state)},
                       {"train_loss", state.step > 0 ? Json(state.train_loss) : Json()},
                       {"tokens", state.tokens},
                       {"bytes_pushed", state.bytes.pushed},
                       {"bytes_pulled", state.bytes.pulled},
                       {"heard_seconds_ago", member.heartbeat_age_s}});
  }
  for (const ShardStatus& shard : status.shards) {
    shards.push_back({{"index", shard.shard.shard},
                      {"state", Name(shard)},
                      {"open_round", shard.state.open_round},
                      {"pushes_accepted", shard.state.pushes_accepted},
                      {"pushes_late", shard.state.pushes_late},
                      {"pushes_rejected", shard.state.pushes_rejected},
                      {"bytes_received", shard.state.bytes_received},
                      {"bytes_sent", shard.state.bytes_sent},
                      {"heard_seconds_ago", shard.heartbeat_age_s}});
  }
  for (const RefusalCount& refusal : status.refusals) refusals[refusal.reason] = refusal.count;
  return JsonText({{"phase", Name(status.phase)},
                   {"failure", status.failure},
                   {"trouble", TroubleLines(status)},
                   {"preset", config.run.preset},
                   {"params", status.parameters},
                   {"rounds", RoundsDone(status)},
                   {"rounds_of", RoundCount(config)},
                   {"steps", StepsDone(status)},
                   {"steps_of", config.run.steps},
                   {"seconds", status.seconds},
                   {"seconds_left", SecondsLeft(config, status)},
                   {"train_loss", TrainLoss(status)},
                   {"val_loss", number(status.validation_loss)},
                   {"tokens", tokens},
                   {"tokens_per_second", TokensPerSecond(status)},
                   {"bytes_pushed", bytes.pushed},
                   {"bytes_pulled", bytes.pulled},
                   {"payload_bytes_pushed", bytes.payload_pushed},
                   {"payload_bytes_pulled", bytes.payload_pulled},
                   {"epoch", status.epoch},
                   {"replicas_equal", status.replicas_equal && status.record_count > 0},
                   {"state_hash", FormatHash(status.state_hash)},
                   {"repairs", status.repairs},
                   {"model_file", status.model_file},
                   {"secured", status.secured},
                   {"refusals", refusals},
                   {"workers_wanted", status.workers_wanted},
                   {"workers", workers},
                   {"shards_wanted", status.shards_wanted},
                   {"shards", shards}});
}

int RunStatusCommand(const Target& target, bool json) {
  const absl::StatusOr<Known> known = Ask(target);
  if (!known.ok()) return ExitStatus("longwave status: failed", known.status());
  if (json) {
    std::fputs(FormatStatusJson(known->config, known->status).c_str(), stdout);
  } else {
    Print(known->config, known->status);
  }
  return 0;
}

}  // namespace longwave

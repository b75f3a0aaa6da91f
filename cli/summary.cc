#include "cli/summary.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/json_text.h"
#include "cli/run_folder.h"
#include "common/base/enum_name.h"
#include "common/base/figures.h"
#include "common/base/print.h"

namespace longwave {

std::string_view Name(RunOutcome outcome) {
  return EnumName(outcome, {"finished", "failed", "stopped", "parked"});
}

uint64_t StepsDone(const RunStatus& status) {
  std::optional<uint64_t> steps;
  for (const MemberStatus& member : status.members) {
    const WorkerPhase phase = member.state.phase;
    if (phase == WorkerPhase::kLost || phase == WorkerPhase::kExpelled) continue;
    steps = std::min(steps.value_or(member.state.step), member.state.step);
  }
  // A worker's heartbeat may be briefly behind the records.
  const uint64_t recorded = status.records.empty() ? 0 : status.records.back().step;
  return std::max(steps.value_or(0), recorded);
}

uint64_t RoundsDone(const RunStatus& status) {
  return status.records.empty() ? 0 : uint64_t{status.records.back().round} + 1;
}

uint64_t RoundsOf(const RunConfig& config, const RunStatus& status) {
  if (status.interval.has_value()) return status.interval->rounds;
  return ExpectedRounds(config, RoundsDone(status), StepsDone(status));
}

ByteCounts TotalBytes(const RunStatus& status) {
  ByteCounts total;
  for (const MemberStatus& member : status.members) total = total + member.state.bytes;
  return total;
}

double TrainLoss(const RunStatus& status) {
  double sum = 0;
  size_t count = 0;
  for (const MemberStatus& member : status.members) {
    // The mean leaves out a worker that ended with a loss that is not finite.
    if (!member.state.train_loss || !std::isfinite(*member.state.train_loss)) continue;
    sum += *member.state.train_loss;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

double TokensPerSecond(const RunStatus& status) {
  if (!status.records.empty() && !IsOver(status.phase))
    return status.records.back().tokens_per_second;
  double tokens = 0;
  for (const MemberStatus& member : status.members)
    tokens += static_cast<double>(member.state.tokens);
  return status.seconds > 0 ? tokens / status.seconds : 0;
}

std::string_view Name(const ShardStatus& shard) {
  if (shard.silent) return "silent";
  return shard.trouble.empty() ? "up" : "trouble";
}

uint32_t RoundsDone(const WorkerState& state) {
  const bool after_round =
      state.phase == WorkerPhase::kValidating || state.phase == WorkerPhase::kDone;
  return state.round + (after_round ? 1 : 0);
}

double SecondsLeft(const RunConfig& config, const RunStatus& status) {
  const uint64_t done = StepsDone(status);
  if (done == 0 || status.seconds <= 0) return std::numeric_limits<double>::quiet_NaN();
  const uint64_t left = config.run.steps - std::min(done, config.run.steps);
  return status.seconds * static_cast<double>(left) / static_cast<double>(done);
}

Summary Summarize(const RunConfig& config, const RunStatus& status, RunOutcome outcome,
                  std::string failure, double total_seconds) {
  Summary summary;
  summary.outcome = outcome;
  summary.failure = std::move(failure);
  summary.preset = config.run.preset;
  summary.workers = config.run.workers;
  summary.shards = config.run.shards;
  summary.params = status.parameters;
  summary.steps = StepsDone(status);
  summary.rounds = RoundsDone(status);
  for (const MemberStatus& member : status.members) {
    summary.tokens += member.state.tokens;
    if (member.state.phase == WorkerPhase::kExpelled)
      summary.expelled.push_back(member.member.name);
    if (HasLeft(member.state.phase)) continue;
    for (const Alike& each : member.alike) {
      if (std::ranges::count(summary.alike, each.name) == 0) summary.alike.push_back(each.name);
    }
  }
  for (const Warning& warning : status.warnings) summary.warnings.push_back(SentenceOf(warning));
  if (!status.records.empty()) summary.train_loss = status.records.back().train_loss;
  summary.val_loss = status.validation_loss.value_or(summary.val_loss);
  summary.wall_seconds = status.seconds;
  summary.total_seconds = total_seconds;
  summary.bytes = TotalBytes(status);
  summary.replicas_equal = status.replicas_equal && status.record_count > 0;
  summary.replicas_may_differ = !PromisesEqualReplicas(config);
  summary.state_hash = status.state_hash;
  summary.model_file = status.model_file;
  summary.repairs = status.repairs;
  if (outcome == RunOutcome::kFinished && PromisesEqualReplicas(config) &&
      !summary.replicas_equal) {
    summary.outcome = RunOutcome::kFailed;
    summary.failure = absl::StrCat("replicas differ: ", status.inequality);
  }
  return summary;
}

std::string ReplicasText(const Summary& summary) {
  if (summary.replicas_equal) {
    if (summary.alike.empty()) return "equal";
    return absl::StrCat("equal, ", absl::StrJoin(summary.alike, " and "), " too");
  }
  return summary.replicas_may_differ ? "differ, as sync.update: local has it" : "not equal";
}

std::string ClosingLine(const Summary& summary, const std::string& run_folder) {
  switch (summary.outcome) {
    case RunOutcome::kFailed:
      return absl::StrCat("longwave up: failed: ", summary.failure);
    case RunOutcome::kStopped:
      return absl::StrCat("longwave up: stopped: ", summary.steps, " steps, ", summary.rounds,
                          " rounds, ", run_folder);
    case RunOutcome::kParked:
      return absl::StrCat("longwave up: parked: ", summary.steps, " steps, ", summary.rounds,
                          " rounds; it goes on with: longwave up --resume ", ForShell(run_folder));
    case RunOutcome::kFinished:
      break;
  }
  return absl::StrCat("longwave up: finished: ", summary.steps, " steps, ", summary.rounds,
                      " rounds, validation loss ", FormatLoss(summary.val_loss), ", replicas ",
                      ReplicasText(summary), ", ", run_folder);
}

nlohmann::ordered_json FiguresJson(const Summary& summary) {
  return {
      {"failure", summary.failure},
      {"preset", summary.preset},
      {"params", summary.params},
      {"steps", summary.steps},
      {"rounds", summary.rounds},
      {"tokens", summary.tokens},
      {"train_loss", NumberOrNull(summary.train_loss)},
      {"val_loss", summary.val_loss},
      {"tokens_per_second", summary.tokens_per_second()},
      {"bytes_pushed", summary.bytes.pushed},
      {"bytes_pulled", summary.bytes.pulled},
      {"payload_bytes_pushed", summary.bytes.payload_pushed},
      {"payload_bytes_pulled", summary.bytes.payload_pulled},
      {"replicas_equal", summary.replicas_equal},
      {"state_hash", FormatHash(summary.state_hash)},
      {"model_file", summary.model_file},
      {"repairs", summary.repairs},
      {"warnings", summary.warnings},
  };
}

std::string FormatSummaryJson(const Summary& summary) {
  nlohmann::ordered_json json = FiguresJson(summary);
  json.update({{"outcome", Name(summary.outcome)},
               {"workers", summary.workers},
               {"shards", summary.shards},
               {"wall_seconds", summary.wall_seconds},
               {"total_seconds", summary.total_seconds},
               {"bytes_ddp_fp32", summary.bytes_ddp_fp32()},
               {"bytes_diloco_fp32", summary.bytes_diloco_fp32()},
               {"restarts", summary.restarts},
               {"expelled", summary.expelled}});
  return JsonText(json);
}

}  // namespace longwave

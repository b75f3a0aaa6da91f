#include "cli/summary.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/json_text.h"
#include "cli/run_folder.h"
#include "common/base/enum_name.h"
#include "common/base/figures.h"

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

ByteCounts TotalBytes(const RunStatus& status) {
  ByteCounts total;
  for (const MemberStatus& member : status.members) total = total + member.state.bytes;
  return total;
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
  }
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

std::string FormatSummaryJson(const Summary& summary) {
  return JsonText({
      {"outcome", Name(summary.outcome)},
      {"failure", summary.failure},
      {"preset", summary.preset},
      {"workers", summary.workers},
      {"shards", summary.shards},
      {"params", summary.params},
      {"steps", summary.steps},
      {"rounds", summary.rounds},
      {"tokens", summary.tokens},
      {"train_loss", summary.train_loss},
      {"val_loss", summary.val_loss},
      {"wall_seconds", summary.wall_seconds},
      {"total_seconds", summary.total_seconds},
      {"tokens_per_second", summary.tokens_per_second()},
      {"bytes_pushed", summary.bytes.pushed},
      {"bytes_pulled", summary.bytes.pulled},
      {"payload_bytes_pushed", summary.bytes.payload_pushed},
      {"payload_bytes_pulled", summary.bytes.payload_pulled},
      {"bytes_ddp_fp32", summary.bytes_ddp_fp32()},
      {"bytes_diloco_fp32", summary.bytes_diloco_fp32()},
      {"replicas_equal", summary.replicas_equal},
      {"state_hash", FormatHash(summary.state_hash)},
      {"model_file", summary.model_file},
      {"repairs", summary.repairs},
      {"restarts", summary.restarts},
      {"expelled", summary.expelled},
  });
}

}  // namespace longwave

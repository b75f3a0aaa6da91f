#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/view.h"
#include "common/base/figures.h"
#include "common/base/print.h"

namespace longwave {
namespace {

constexpr uint64_t kLogLinesMax = 100;

absl::string_view ReplicasText(const Summary& summary) {
  if (summary.replicas_equal) return "equal";
  return summary.replicas_may_differ ? "differ, as sync.update: local has it" : "not equal";
}

}  // namespace

bool ShowsRound(const RunConfig& config, uint32_t round_count_done) {
  const uint64_t rounds = RoundCount(config);
  const uint64_t every = std::max<uint64_t>(1, (rounds + kLogLinesMax - 1) / kLogLinesMax);
  return round_count_done % every == 0 || round_count_done == rounds || round_count_done == 1;
}

std::string RoundLine(const RunConfig& config, const RoundRecord& record,
                      const std::optional<double>& validation_loss) {
  const double members = std::max<uint32_t>(1, record.members);
  std::string line =
      absl::StrFormat("%s  validation %s  %8s tokens/s  pushed %8s  pulled %8s a worker  %s",
                      FormatRound({.rounds_done = uint64_t{record.round} + 1,
                                   .rounds = RoundCount(config),
                                   .step = record.step,
                                   .steps = config.run.steps,
                                   .train_loss = record.train_loss}),
                      validation_loss ? FormatLoss(*validation_loss) : "-    ",
                      FormatCount(record.tokens_per_second),
                      FormatBytes(static_cast<double>(record.bytes.pushed) / members),
                      FormatBytes(static_cast<double>(record.bytes.pulled) / members),
                      FormatDuration(record.seconds));
  if (!record.replicas_equal && PromisesEqualReplicas(config)) {
    absl::StrAppend(&line, "  REPLICAS DIFFER");
  }
  return line;
}

std::vector<std::string> TrafficLines(const Summary& summary, size_t width) {
  const double workers = std::max<uint32_t>(1, summary.workers);
  const double pushed = static_cast<double>(summary.bytes.pushed) / workers;
  const double pulled = static_cast<double>(summary.bytes.pulled) / workers;
  TextTable table, narrow;
  table.AddRow({"bytes a worker", "pushed", "", "pulled", ""});
  table.AddRow({"this run", FormatBytes(pushed), "", FormatBytes(pulled), ""});
  narrow.AddRow({"bytes a worker", "pushed", "pulled"});
  narrow.AddRow({"this run", FormatBytes(pushed), FormatBytes(pulled)});
  const auto add = [&](absl::string_view method, uint64_t total) {
    const double bytes = static_cast<double>(total) / workers;
    table.AddRow({absl::StrCat(method, " would have"), FormatBytes(bytes),
                  FormatRatio(bytes, pushed), FormatBytes(bytes), FormatRatio(bytes, pulled)});
    narrow.AddRow({std::string(method), FormatRatio(bytes, pushed), FormatRatio(bytes, pulled)});
  };
  add("DiLoCo (fp32)", summary.bytes_diloco_fp32());
  add("DDP (fp32)", summary.bytes_ddp_fp32());
  std::vector<std::string> lines = table.Lines();
  const bool fits = std::all_of(lines.begin(), lines.end(), [width](const std::string& line) {
    return DisplayWidth(line) <= width;
  });
  return fits ? lines : narrow.Lines();
}

std::vector<std::string> FinalLines(const Summary& summary, const std::string& run_folder) {
  const ByteCounts& bytes = summary.bytes;
  std::vector<std::string> lines;
  const auto row = [&lines](std::string_view name, const std::string& value) {
    lines.push_back(absl::StrFormat("%-*s%s", int{kFinalNameColumns}, name, value));
  };
  const auto sent = [&](uint64_t total) {
    return absl::StrCat(
        FormatBytes(static_cast<double>(total)),
        " each way: ", FormatRatio(static_cast<double>(total), static_cast<double>(bytes.pushed)),
        " the push, ", FormatRatio(static_cast<double>(total), static_cast<double>(bytes.pulled)),
        " the pull");
  };
  row("preset", absl::StrCat(summary.preset, ", ", summary.workers, " workers, ", summary.shards,
                             " shards, ", summary.params, " parameters"));
  row("trained", absl::StrCat(summary.steps, " steps, ", summary.rounds, " rounds, ",
                              FormatCount(static_cast<double>(summary.tokens)), " tokens in ",
                              FormatDuration(summary.wall_seconds), " (",
                              FormatCount(summary.tokens_per_second()), " tokens/s)"));
  row("training loss", FormatLoss(summary.train_loss));
  row("validation loss", FormatLoss(summary.val_loss));
  row("pushed", absl::StrCat(FormatBytes(static_cast<double>(bytes.pushed)), " at the sockets, ",
                             FormatBytes(static_cast<double>(bytes.payload_pushed)),
                             " of them payload (all workers)"));
  row("pulled", absl::StrCat(FormatBytes(static_cast<double>(bytes.pulled)), " at the sockets, ",
                             FormatBytes(static_cast<double>(bytes.payload_pulled)),
                             " of them payload (all workers)"));
  row("DiLoCo, fp32", sent(summary.bytes_diloco_fp32()));
  row("DDP, fp32", sent(summary.bytes_ddp_fp32()));
  row("replicas", absl::StrCat(ReplicasText(summary), ", state ", FormatHash(summary.state_hash)));
  if (summary.restarts > 0 || summary.repairs > 0) {
    row("mended", absl::StrCat("processes started again: ", summary.restarts,
                               ", replicas repaired: ", summary.repairs));
  }
  if (!summary.expelled.empty()) row("expelled", absl::StrJoin(summary.expelled, ", "));
  if (!summary.model_file.empty()) row("weights", summary.model_file);
  row("files", absl::StrCat(run_folder, "/: config.yaml, metrics.jsonl, summary.json, logs/"));
  return lines;
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

}  // namespace longwave

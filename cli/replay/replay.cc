#include "cli/replay/replay.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/initial_weights.h"
#include "cli/replay/run_replay.h"
#include "cli/run_folder.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/control/control.h"
#include "server/store/coordinator_store.h"
#include "server/store/posix_file_system.h"
#include "worker/member/sync_options.h"
#include "worker/weights/safetensors.h"
#include "worker/weights/write_model.h"

namespace longwave {
namespace {

void Row(absl::string_view name, const auto&... value) {
  PrintLine(stdout, absl::StrFormat("%-11s", name), value...);
}

// The run's own record of its end.
struct Recorded {
  uint64_t rounds = 0;
  bool is_whole = false;  // the run finished, so that no shard has later rounds
  std::string state_hash;
};

// nullopt without a summary: the run goes on, or was started process by process.
std::optional<Recorded> ReadSummary(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("state_hash") || !json.contains("rounds") ||
      !json["state_hash"].is_string() || !json["rounds"].is_number_unsigned()) {
    return std::nullopt;
  }
  return Recorded{json["rounds"].get<uint64_t>(),
                  json.value("outcome", nlohmann::json()) == "finished",
                  json["state_hash"].get<std::string>()};
}

// The finished rounds of metrics.jsonl. Torn and foreign lines are skipped.
std::vector<RecordedRound> ReadRecordedRounds(const std::string& path) {
  std::vector<RecordedRound> rounds;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("round") || !json["round"].is_number_unsigned() ||
        json["round"].get<uint64_t>() >= kRoundNever) {
      continue;
    }
    RecordedRound& round = rounds.emplace_back();
    round.round = json["round"].get<uint32_t>();
    const bool is_equal = json.value("replicas_equal", nlohmann::json()) == true;
    const auto hash = json.value("state_hash", nlohmann::json());
    uint64_t value = 0;
    if (is_equal && hash.is_string() && absl::SimpleHexAtoi(hash.get<std::string>(), &value) &&
        value != 0) {
      round.state_hash = value;
    }
  }
  return rounds;
}

uint64_t Sum(const RunReplayReport& report, uint64_t ShardFindings::*figure) {
  uint64_t sum = 0;
  for (const RunReplayReport::Shard& shard : report.shards) sum += shard.findings.*figure;
  return sum;
}

void PrintAudit(const RunReplayReport& report) {
  uint64_t records = 0, tail = 0;
  bool from_the_start = true;
  for (const RunReplayReport::Shard& shard : report.shards) {
    records += shard.records;
    tail += shard.tail_bytes;
    from_the_start = from_the_start && shard.first_sequence == 1;
  }
  Row("log",

      records, " records of ", report.shards.size(), " shards, ",
      from_the_start ? "from the run's beginning" : "of which the oldest have been dropped",
      tail > 0 ? absl::StrCat("; ", tail, " bytes that were never synced") : "");
  const uint64_t open = Sum(report, &ShardFindings::pushes_open);
  Row("pushes", Sum(report, &ShardFindings::pushes), " accepted",
      report.problem_count() == 0 ? ", each in exactly one merge" : "",
      open > 0 ? absl::StrCat(" (", open, " in rounds still open)") : "");
  const uint64_t unproved = Sum(report, &ShardFindings::merges_unproved);
  Row("merges",

      Sum(report, &ShardFindings::merges), ", ", Sum(report, &ShardFindings::merges_recomputed),
      " of them made again from their pushes, bit for bit",
      unproved > 0 ? absl::StrCat(" (", unproved, " lack the pushes that they were made of)") : "");
  Row("snapshots", Sum(report, &ShardFindings::states_compared), " of what shards held back and ",
      report.models_compared, " of parameters compared");
  if (report.rounds_compared > 0) {
    Row("rounds", report.rounds_compared, " compared with what was recorded of them");
  }
  if (const uint64_t restored = Sum(report, &ShardFindings::segments_restored); restored > 0) {
    Row("restored", restored, " segments begin with a replica's parameters");
  }
}

// Writes the model as a worker does at the end.
absl::Status WriteReplayed(const std::string& path, const RunReplayReport& report,
                           const RunConfig& config, const Manifest& manifest, const Layout& layout,
                           const Intervals& intervals) {
  if (!report.state_hash.has_value()) {
    return FailedPrecondition("no weights for ", path, ": ", report.why_no_state);
  }
  RoundPlan rounds = RoundPlanOf(config);
  if (FitsInterval(config)) LONGWAVE_RETURN_IF_ERROR(rounds.Extend(intervals));
  const uint64_t steps = rounds.FirstStep(report.rounds);
  LONGWAVE_RETURN_IF_ERROR(
      WriteModel(path, config, manifest, layout, report.parameters.data(), steps));
  Row("weights", path);
  return absl::OkStatus();
}

absl::StatusOr<CoordinatorRecord> RecordOf(const std::string& run_folder, const char* why) {
  const std::string folder = run_folder + "/state/coordinator";
  absl::StatusOr<CoordinatorFile> file = ReadCoordinatorFolder(*MakePosixFileSystem(), folder);
  if (absl::IsNotFound(file.status())) {
    return NotFound("got no coordinator's record in ", folder, ", wanted it there: ", why);
  }
  LONGWAVE_RETURN_IF_ERROR(file.status());
  return std::move(file->record);
}

// Names and shapes of the run's parameters. Only the coordinator knows those of a model that the
// workers bring.
absl::StatusOr<Manifest> ManifestOf(const RunConfig& config, const std::string& run_folder) {
  if (config.model.kind == "gpt") return GptManifest(config.model);
  LONGWAVE_ASSIGN_OR_RETURN(
      const CoordinatorRecord record,
      RecordOf(run_folder,
               "the model is the workers' (model.kind: external), and its names and "
               "shapes are in that record"));
  if (record.manifest.has_value()) return *record.manifest;
  return NotFound("got a coordinator's record without a model in ", run_folder,
                  ", wanted one of a run that has begun");
}

}  // namespace

absl::Status Replay(const ReplayOptions& options) {
  const std::string config_file =
      options.config.empty() ? options.run_folder + "/config.yaml" : options.config;
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(config_file));
  if (!options.weights.empty()) LONGWAVE_RETURN_IF_ERROR(CheckPlace(options.weights, config));
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, ManifestOf(config, options.run_folder));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  RunReplayInput input{.config = &config, .layout = &layout, .threads = DefaultThreads()};
  for (const char* const record : {"/metrics.jsonl", "/summary.json"})
    LONGWAVE_RETURN_IF_ERROR(CheckReadable(options.run_folder + record));
  // Read before the logs, which then have all these rounds even if the run goes on.
  input.recorded = ReadRecordedRounds(options.run_folder + "/metrics.jsonl");
  if (FitsInterval(config)) {
    LONGWAVE_ASSIGN_OR_RETURN(
        CoordinatorRecord record,
        RecordOf(options.run_folder,
                 "with sync.inner_steps auto the inner steps of the rounds are in that record"));
    input.intervals = std::move(record.intervals);
  }
  for (uint32_t shard = 0; shard < config.run.shards; ++shard) {
    const std::string folder = absl::StrCat(options.run_folder, "/state/shard-", shard);
    std::error_code error;
    LONGWAVE_RETURN_IF_ERROR(CheckReadable(folder));
    if (!std::filesystem::is_directory(folder, error)) {
      return NotFound("got no folder ", folder,
                      "; wanted a run that keeps its state (not up --no-state)");
    }
    input.shard_folders.push_back(folder);
  }
  const bool is_drawn = config.run.start == "seed" && config.model.kind != "external";
  if (CanCatchUp(config) && (is_drawn || !options.initial.empty())) {
    LONGWAVE_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
    std::string file = options.initial;
    if (file.empty()) {
      LONGWAVE_ASSIGN_OR_RETURN(file, MakeInitialWeights(config_file, folder.path()));
    }
    LONGWAVE_ASSIGN_OR_RETURN(input.initial, ReadWeights(file, manifest, layout));
  }
  LONGWAVE_ASSIGN_OR_RETURN(const RunReplayReport report, ReplayRun(input));

  Row("run", options.run_folder, ", preset ", config.run.preset, ", ", FormatHash(report.run));
  PrintAudit(report);
  for (const std::string& problem : report.problems()) Row("problem", problem);
  const std::optional<Recorded> recorded = ReadSummary(options.run_folder + "/summary.json");
  bool is_the_runs = true;
  if (report.state_hash.has_value()) {
    std::string verdict = "the run has no summary to compare with";
    if (recorded.has_value() && !recorded->is_whole && recorded->rounds < report.rounds) {
      // The rounds' own records were compared.
      verdict = absl::StrCat("of which the run's summary has ", recorded->rounds);
    } else if (recorded.has_value()) {
      is_the_runs = recorded->rounds == report.rounds &&
                    recorded->state_hash == FormatHash(*report.state_hash);
      verdict = is_the_runs ? "as the run's summary has it"
                            : absl::StrCat("NOT the run's, which is ", recorded->state_hash,
                                           " after ", recorded->rounds, " rounds");
    }
    Row("model", "after ", report.rounds, " rounds",
        report.ends_within_round ? " (some segments have more) " : " ",
        FormatHash(*report.state_hash), ", ", verdict);
  } else {
    Row("model", "not made again: ", report.why_no_state);
  }
  if (!options.weights.empty()) {
    LONGWAVE_RETURN_IF_ERROR(
        WriteReplayed(options.weights, report, config, manifest, layout, input.intervals));
  }
  if (report.problem_count() > 0) return DataLoss(report.problem_count(), " promises were broken");
  if (!is_the_runs) return DataLoss("the model is not the run's");
  return absl::OkStatus();
}

}  // namespace longwave

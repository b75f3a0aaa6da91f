#include "cli/plan/from_run.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/report/run_logs.h"
#include "cli/report/run_records.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"

namespace longwave {
namespace {

// Below this sum the hundredths of a log's lines say little.
constexpr double kSecondsMin = 0.5;

double Rate(double amount, double seconds) { return seconds < kSecondsMin ? 0 : amount / seconds; }

}  // namespace

absl::StatusOr<RunFigures> FiguresOf(const std::string& run_folder) {
  const std::string config_file = run_folder + "/config.yaml";
  std::error_code error;
  if (!std::filesystem::exists(config_file, error)) {
    return NotFound("--from: ", run_folder,
                    " has no config.yaml, wanted the folder or the name of a run of `longwave up`");
  }
  RunFigures figures;
  LONGWAVE_ASSIGN_OR_RETURN(figures.config, LoadConfig(config_file));
  const auto rounds = RoundsOf(run_folder + "/metrics.jsonl");
  std::map<std::string, double> sums;
  double worker_rounds = 0;
  for (const auto& worker : WorkersOf(ReadLogs(run_folder + "/logs"))) {
    if (worker["round"].empty() || !worker["round"].back().is_number()) continue;
    worker_rounds += worker["round"].back().get<double>();
    for (const auto& [part, seconds] : worker["seconds"].items())
      sums[part] += seconds.template get<double>();
  }
  if (worker_rounds == 0 || sums["computing"] == 0 || rounds["bytes_pushed"].empty()) {
    return FailedPrecondition("--from: ", run_folder, " has no round of a worker yet");
  }
  const auto last = [&](const char* key) {
    return rounds[key].back().is_number() ? rounds[key].back().get<double>() : 0;
  };
  const double inner_steps = last("step") / (last("round") + 1);  // the mean, with auto
  if (inner_steps <= 0) return DataLoss("--from: ", run_folder, " has no steps in its rounds");
  figures.step_s = sums["computing"] / worker_rounds / inner_steps;
  if (const auto manifest = GptManifest(figures.config.model); manifest.ok()) {
    LONGWAVE_ASSIGN_OR_RETURN(
        const Layout layout,
        Layout::Create(*manifest, LayoutOptionsFor(figures.config, *manifest)));
    const double elements = static_cast<double>(layout.coefficient_count()) * worker_rounds;
    figures.encode = Rate(elements, sums["encoding"]);
    figures.decode = Rate(elements, sums["decoding"]);
  }
  figures.link = Rate(last("bytes_pushed") + last("bytes_pulled"), sums["waiting"]);
  figures.seconds = absl::StrJoin(sums, ", ", [&](std::string* out, const auto& part) {
    absl::StrAppendFormat(out, "%s %.2f", part.first, part.second / worker_rounds);
  });
  return figures;
}

}  // namespace longwave

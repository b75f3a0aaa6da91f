// The configuration that `longwave up` makes of its options.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/doctor/examine.h"
#include "cli/doctor/report.h"
#include "cli/run_folder.h"
#include "cli/up.h"
#include "common/base/errors.h"
#include "common/base/figures.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/config/key_types.h"
#include "common/layout/layout.h"
#include "worker/data/corpus.h"
#include "worker/data/data_files.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

// A table of tiles for more parameters takes long. The worker, which needs the table anyway and
// checks its memory first, reports the error.
constexpr double kParametersLaidOutMax = 1e9;

}  // namespace

absl::Status CheckRun(const RunConfig& config, DataReport* data) {
  LONGWAVE_RETURN_IF_ERROR(CheckModel(config));
  LONGWAVE_ASSIGN_OR_RETURN(const Corpus corpus, Corpus::Load(config.data, config.model));
  *data = corpus.report();
  return absl::OkStatus();
}

absl::Status CheckModel(const RunConfig& config) {
  if (GptParameterCount(config.model) > kParametersLaidOutMax) return absl::OkStatus();
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  // Nobody has chosen the default, which is for models of any size.
  const uint64_t segments = layout.segments().size();
  if (config.run.shards <= std::max<uint64_t>(segments, DefaultConfig().run.shards))
    return absl::OkStatus();
  return InvalidArgument("run.shards: got ", config.run.shards, " for a model of ", segments,
                         " segments, wanted at most as many: the others would have nothing to do");
}

absl::Status CheckStart(const std::string& start_from, const RunConfig& config) {
  std::string warning;
  LONGWAVE_RETURN_IF_ERROR(CheckGpt2Config(start_from, config.model, &warning));
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  // The place of tensors in the flat array does not depend on the tiling.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(manifest, LayoutOptions{}));
  LONGWAVE_RETURN_IF_ERROR(ReadWeights(start_from, manifest, layout).status());
  if (!warning.empty()) PrintLine(stderr, "warning: ", warning);
  return absl::OkStatus();
}

absl::StatusOr<RunConfig> ResolveConfig(const UpOptions& options, DataReport* data) {
  if (options.config_file.empty() && !options.worker_command.has_value()) {
    return InvalidArgument(
        "got no configuration, wanted a file such as configs/presets/longwave.yaml, or "
        "--worker-command");
  }
  Overrides overrides;
  // In front, so that --set takes precedence.
  if (options.worker_command.has_value()) {
    overrides = {"model.kind=external", "run.start=member"};
  }
  if (!options.start_from.empty()) {
    if (options.worker_command.has_value()) {
      return InvalidArgument(
          "--start-from: got one beside --worker-command, whose workers bring their weights; "
          "wanted the command to load them");
    }
    overrides.push_back("run.start=member");
  }
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  if (!options.name.empty()) overrides.push_back(absl::StrCat("run.name=", options.name));
  if (options.data.has_value() && options.data->empty()) {
    return InvalidArgument("--data: got an empty path, wanted a file, a folder or ",
                           kCompilerHeaders);
  }
  // Before the keys are tested against each other: data.kind may be one that the file's path lacks.
  if (options.data.has_value() && IsPath(*options.data))
    overrides.push_back(absl::StrCat("data.path=", *options.data));
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, options.config_file.empty()
                                                  ? ParseConfig("{}", "the command line", overrides)
                                                  : LoadConfig(options.config_file, overrides));
  if (options.no_state && config.run.start == "member") {
    return InvalidArgument(
        "--no-state: got one with run.start: member, whose shards keep the first weights on the "
        "disk; wanted none, or --set run.start=seed");
  }
  if (options.worker_command.has_value()) {
    if (!options.data.has_value()) return config;
    return InvalidArgument(
        "--data: got one beside --worker-command, whose workers have data of their own; wanted the "
        "path in the command");
  }
  if (config.model.kind == "external") {
    return InvalidArgument(
        "model.kind: got external, which longwave-worker does not train; wanted --worker-command "
        "beside it");
  }
  if (options.data.has_value()) {
    config.data.path = *options.data;
  }
  LONGWAVE_RETURN_IF_ERROR(CheckRun(config, data));
  if (!options.start_from.empty()) LONGWAVE_RETURN_IF_ERROR(CheckStart(options.start_from, config));
  for (std::string* path : {&config.data.path, &config.data.validation_path}) {
    if (path->empty() || *path == kCompilerHeaders) continue;
    *path = std::filesystem::absolute(*path).lexically_normal().string();
    if (!IsPathOrNone(*path)) {
      return InvalidArgument("got the path ", Quotable(*path),
                             ", wanted one of UTF-8 text without control characters");
    }
  }
  return config;
}

absl::Status CheckMachine(const RunConfig& config, const std::string& folder,
                          const std::string& binaries) {
  const std::vector<Finding> findings = ExamineForUp(config, folder, binaries);
  for (const auto& [part, verdict, what, remedy] : findings) {
    if (verdict == Finding::Verdict::kFailed)
      return FailedPrecondition("this machine's ", part, ": ", what, "; remedy: ", remedy);
  }
  for (const std::string& line : ReportLines(findings)) PrintLine(stdout, line);
  return absl::OkStatus();
}

absl::Status TellData(const RunFolder& folder, const DataReport& data) {
  for (const std::string& line : data.lines) PrintLine(stdout, line);
  std::ifstream file(folder.data_hash_file());
  std::string had;
  const std::string hash = FormatHash(data.hash);
  if (file >> had && had != hash) {
    PrintLine(stderr, "warning: the data are not those that the run had before (hash ", hash,
              ", before ", had, "); it goes on with the new ones");
  }
  return WriteFile(folder.data_hash_file(), hash + "\n");
}

std::string ListenAddress(const RunConfig& config) {
  static constexpr std::string_view kAnyFreePort = "127.0.0.1:0";
  return config.cluster.coordinator == DefaultConfig().cluster.coordinator
             ? std::string(kAnyFreePort)
             : config.cluster.coordinator;
}

}  // namespace longwave

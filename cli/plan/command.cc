#include "cli/plan/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/doctor/measure.h"
#include "cli/plan/arguments.h"
#include "cli/plan/from_run.h"
#include "cli/plan/measure_kernels.h"
#include "cli/plan/methods.h"
#include "cli/plan/plan.h"
#include "cli/plan/report.h"
#include "cli/plan/transfers.h"
#include "cli/run_folder.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/command_line/command_line.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

// Of a larger model the table of tiles alone has gigabytes.
constexpr double kParametersMax = 1e11;

struct PlanOptions {
  std::string config_file;
  Overrides overrides;
  std::string parameters, tokens;
  uint32_t workers = 0, shards = 0;
  std::string up, down, rtt, step, shard_up, shard_down, kernels, disk;
  std::vector<std::string> worker, shard, methods;
  std::string from, runs_dir = "runs";
  PlanPrices prices;
  bool no_state = false, json = false;
};

class PlanCommand {
 public:
  explicit PlanCommand(const PlanOptions& options) : options_(options) {}

  absl::StatusOr<PlanReport> Make() {
    LONGWAVE_ASSIGN_OR_RETURN(PlanInputs inputs, Inputs());
    LONGWAVE_ASSIGN_OR_RETURN(std::vector<PlannedMethod> planned, Methods(inputs));
    for (const PlannedMethod& each : planned) {
      MethodReport method{
          .plan = each.plan, .binds = BindingOf(each), .loss = EvidenceOf(each.plan.method)};
      LONGWAVE_ASSIGN_OR_RETURN(method.change, ChangeFor(each, planned));
      report_.methods.push_back(std::move(method));
    }
    return std::move(report_);
  }

 private:
  // All but the method and its kernels' rates.
  absl::StatusOr<PlanInputs> Inputs() {
    if (!options_.from.empty()) {
      LONGWAVE_ASSIGN_OR_RETURN(run_, FiguresOf(FindRunFolder(options_.from, options_.runs_dir)));
      report_.run_seconds = run_->seconds;
    }
    PlanInputs inputs{.keeps_state = !options_.no_state, .prices = options_.prices};
    LONGWAVE_RETURN_IF_ERROR(SetWorkersAndShards(&inputs));
    LONGWAVE_RETURN_IF_ERROR(SetConfig(&inputs));
    LONGWAVE_RETURN_IF_ERROR(SetModel(&inputs));
    if (!options_.tokens.empty() &&
        (!ParseNumber(options_.tokens, &inputs.tokens) || inputs.tokens < 1)) {
      return InvalidArgument("--tokens: got ", options_.tokens, ", wanted a number such as 2.5e9");
    }
    report_.target_share = inputs.config.sync.target_share;
    report_.disk_from = "given";
    if (!inputs.keeps_state) {
      report_.disk_from = "not used";
    } else if (!options_.disk.empty()) {
      LONGWAVE_RETURN_IF_ERROR(ParseDisk(options_.disk, &inputs.rates));
    } else {
      LONGWAVE_ASSIGN_OR_RETURN(const DiskReading disk, MeasureDisk("."));
      inputs.rates.disk = disk.bytes_per_second;
      inputs.rates.disk_sync_s = absl::ToDoubleSeconds(disk.sync);
      report_.disk_from = "measured here";
    }
    return inputs;
  }

  absl::Status SetWorkersAndShards(PlanInputs* inputs) {
    PlanWorkers like{.step_s = run_ ? run_->step_s : 0};
    if (run_ && run_->link > 0) like.link = {.up = run_->link, .down = run_->link};
    report_.steps_from = options_.step.empty() && run_ ? "of the run" : "given";
    report_.links_from = options_.up.empty() && run_ && run_->link > 0 ? "of the run" : "given";
    const auto set = [](const char* option, const std::string& text, double* value, auto parse) {
      if (text.empty()) return absl::OkStatus();
      const absl::StatusOr<double> parsed = parse(option, text);
      if (parsed.ok()) *value = *parsed;
      return parsed.status();
    };
    PlanLink shard;
    LONGWAVE_RETURN_IF_ERROR(set("--up", options_.up, &like.link.up, ParseRate));
    LONGWAVE_RETURN_IF_ERROR(set("--down", options_.down, &like.link.down, ParseRate));
    LONGWAVE_RETURN_IF_ERROR(set("--rtt", options_.rtt, &like.round_trip_s, ParseSeconds));
    LONGWAVE_RETURN_IF_ERROR(set("--step", options_.step, &like.step_s, ParseSeconds));
    LONGWAVE_RETURN_IF_ERROR(set("--shard-up", options_.shard_up, &shard.up, ParseRate));
    LONGWAVE_RETURN_IF_ERROR(set("--shard-down", options_.shard_down, &shard.down, ParseRate));
    for (const std::string& text : options_.worker) {
      LONGWAVE_ASSIGN_OR_RETURN(const PlanWorkers workers, ParseWorkers(text, like));
      inputs->workers.push_back(workers);
    }
    for (const std::string& text : options_.shard) {
      LONGWAVE_ASSIGN_OR_RETURN(const std::vector<PlanLink> links, ParseShards(text, shard));
      inputs->shards.insert(inputs->shards.end(), links.begin(), links.end());
    }
    like_ = like;
    shard_like_ = shard;
    return absl::OkStatus();
  }

  absl::Status SetConfig(PlanInputs* inputs) {
    Overrides own;
    if (!options_.parameters.empty()) own.emplace_back("model.kind=external");
    uint64_t workers = options_.workers;
    for (const PlanWorkers& each : inputs->workers) workers += each.count;
    const uint64_t shards = inputs->shards.empty() ? options_.shards : inputs->shards.size();
    own.insert(own.end(), options_.overrides.begin(), options_.overrides.end());
    if (workers > 0) own.push_back(absl::StrCat("run.workers=", workers));
    if (shards > 0) own.push_back(absl::StrCat("run.shards=", shards));
    const std::string file = options_.config_file.empty() && run_
                                 ? FindRunFolder(options_.from, options_.runs_dir) + "/config.yaml"
                                 : options_.config_file;
    LONGWAVE_ASSIGN_OR_RETURN(inputs->config, file.empty()
                                                  ? ParseConfig("{}", "the command line", own)
                                                  : LoadConfig(file, own));
    if (inputs->workers.empty()) {
      inputs->workers.push_back(like_);
      inputs->workers.back().count = inputs->config.run.workers;
    }
    if (inputs->shards.empty()) inputs->shards.assign(inputs->config.run.shards, shard_like_);
    const auto limit = [](double mbit, double* rate) {
      if (mbit > 0) *rate = std::min(*rate, mbit * 1e6 / 8 / kDataShare);
    };
    for (PlanWorkers& each : inputs->workers) {
      limit(inputs->config.cluster.max_upload_mbit, &each.link.up);
      limit(inputs->config.cluster.max_download_mbit, &each.link.down);
      if (each.step_s <= 0)
        return InvalidArgument(
            "got no time of an inner step, wanted --step, step= in --worker, or --from RUN");
      if (each.link.up == kUnlimited || each.link.down == kUnlimited) {
        return InvalidArgument(
            "got no rate of a worker's link, wanted --up and --down, both in --worker, or "
            "--from a RUN whose workers waited for its links long enough to show them");
      }
    }
    return absl::OkStatus();
  }

  absl::Status SetModel(PlanInputs* inputs) {
    const ModelSection& model = inputs->config.model;
    if (options_.parameters.empty()) {
      if (model.kind != "gpt") {
        return InvalidArgument("model.kind: got ", model.kind,
                               ", whose shapes are not known; wanted --parameters N beside it");
      }
      if (GptParameterCount(model) > kParametersMax) return TooLarge(GptParameterCount(model));
      LONGWAVE_ASSIGN_OR_RETURN(inputs->manifest, GptManifest(model));
      return absl::OkStatus();
    }
    double count = 0;
    if (!ParseNumber(options_.parameters, &count) || count < 1) {
      return InvalidArgument("--parameters: got ", options_.parameters,
                             ", wanted a number such as 124e6");
    }
    if (count > kParametersMax) return TooLarge(count);
    // The matrix has full tiles, but for its last.
    const auto whole = static_cast<int64_t>(count);
    constexpr int64_t kSide = kLayoutBlockMax;
    if (whole >= kSide) inputs->manifest.tensors.push_back({"matrix", {kSide, whole / kSide}});
    if (whole % kSide > 0) inputs->manifest.tensors.push_back({"rest", {whole % kSide}});
    report_.has_activations = false;
    return absl::OkStatus();
  }

  static absl::Status TooLarge(double count) {
    return InvalidArgument("the model: got ", count, " parameters, wanted at most ",
                           kParametersMax);
  }

  // Of each method that was asked for or, of all presets, that fits.
  absl::StatusOr<std::vector<PlannedMethod>> Methods(const PlanInputs& inputs) {
    std::vector<std::string> names = options_.methods;
    if (names.empty()) {
      names = PresetNames();
      const auto own = std::ranges::find(names, inputs.config.run.preset);
      if (own != names.end()) std::rotate(names.begin(), own, own + 1);
    }
    std::vector<PlannedMethod> planned;
    for (const std::string& name : names) {
      absl::StatusOr<PlannedMethod> method = Planned(inputs, name);
      if (method.ok()) {
        planned.push_back(*std::move(method));
      } else if (options_.methods.empty() && name != inputs.config.run.preset) {
        report_.left_out.push_back(absl::StrCat(name, ": ", method.status().message()));
      } else {
        return method.status();
      }
    }
    return planned;
  }

  absl::StatusOr<PlannedMethod> Planned(const PlanInputs& inputs, const std::string& name) {
    PlannedMethod method{.inputs = inputs};
    LONGWAVE_ASSIGN_OR_RETURN(method.inputs.config,
                              WithMethod(inputs.config, name, options_.overrides));
    if (!report_.has_activations) {
      ModelSection& model = method.inputs.config.model;
      model.d_model = model.layers = model.vocabulary = 0;
    }
    PlanRates& rates = method.inputs.rates;
    if (!options_.kernels.empty()) {
      LONGWAVE_RETURN_IF_ERROR(ParseKernels(options_.kernels, &rates));
      report_.kernels_from = "given";
    } else {
      const uint32_t threads = inputs.config.train.threads;
      LONGWAVE_ASSIGN_OR_RETURN(
          const PlanRates measured,
          MeasureKernels(method.inputs.config,
                         static_cast<int>(threads > 0 ? threads : DefaultThreads())));
      rates.encode = measured.encode;
      rates.decode = measured.decode;
      rates.merge = measured.merge;
      if (report_.kernels_from.empty()) report_.kernels_from = "measured on this machine's CPU";
      if (run_ && name == run_->config.run.preset) {
        if (run_->encode > 0) rates.encode = run_->encode;
        if (run_->decode > 0) rates.decode = run_->decode;
        if (run_->encode > 0 || run_->decode > 0)
          report_.kernels_from += absl::StrCat(" (encoding and decoding of ", name, ": the run's)");
      }
    }
    LONGWAVE_ASSIGN_OR_RETURN(method.plan, MakePlan(method.inputs));
    return method;
  }

  const PlanOptions& options_;
  std::optional<RunFigures> run_;
  PlanWorkers like_;
  PlanLink shard_like_;
  PlanReport report_;
};

absl::Status RunPlan(const PlanOptions& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const PlanReport report, PlanCommand(options).Make());
  std::fputs((options.json ? PlanJson(report) : PlanText(report)).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App* app, Commands* commands) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const plan = app->add_subcommand(
      "plan", "Say before a run what it would send, how long its syncs would take, and its price.");
  plan->add_option("config", options->config_file,
                   "Configuration file, as in configs/; none: the defaults");
  plan->add_option("--set", options->overrides, "A setting, key=value; may be repeated")
      ->allow_extra_args(false);
  plan->add_option("--parameters", options->parameters,
                   "Parameters of a model whose layers are not known, in full tiles");
  plan->add_option("--workers", options->workers, "How many workers [run.workers]");
  plan->add_option("--up", options->up, "A worker's link to the shards: 100Mbit");
  plan->add_option("--down", options->down, "And back");
  plan->add_option("--rtt", options->rtt, "Round-trip time between a worker and a shard: 40ms [0]");
  plan->add_option("--step", options->step, "An inner step of a worker: 0.5s");
  plan->add_option("--worker", options->worker,
                   "Workers that differ: count=2,up=…,down=…,rtt=…,step=…; may be repeated, for "
                   "all workers")
      ->allow_extra_args(false)
      ->excludes("--workers");
  plan->add_option("--shards", options->shards, "How many shards [run.shards]");
  plan->add_option("--shard-up", options->shard_up, "A shard's link, from it [no limit]");
  plan->add_option("--shard-down", options->shard_down, "And to it");
  plan->add_option("--shard", options->shard,
                   "Shards that differ: count=3,up=…,down=…; may be repeated, for all shards")
      ->allow_extra_args(false)
      ->excludes("--shards");
  plan->add_option("--methods", options->methods,
                   "Presets, separated by commas [the configuration's and all others that fit]")
      ->delimiter(',');
  plan->add_option("--tokens", options->tokens, "Tokens of all workers [run.steps]");
  plan->add_option("--kernels", options->kernels,
                   "encode=…,decode=…,merge=… in 10⁶ elements a second [measured on this "
                   "machine's CPU]");
  plan->add_option("--disk", options->disk,
                   "rate=…,sync=…: 10⁶ bytes a second, and the time of a small write [measured "
                   "here]");
  plan->add_flag("--no-state", options->no_state, "As of `up`: nothing is kept on disks");
  plan->add_option("--from", options->from,
                   "A run of `up` whose configuration, step, kernels and links are taken: its "
                   "folder, or its name in --runs-dir")
      ->check(NotEmpty());
  plan->add_option("--runs-dir", options->runs_dir, "Folder of the runs' folders")
      ->capture_default_str()
      ->check(NotEmpty());
  plan->add_option("--worker-hour", options->prices.worker_hour, "Price of a worker's hour")
      ->check(CLI::NonNegativeNumber);
  plan->add_option("--sent-gb", options->prices.sent_gigabyte,
                   "Price of 10⁹ bytes that a worker or a shard sends")
      ->check(CLI::NonNegativeNumber);
  plan->add_flag("--json", options->json, "For programs");
  commands->emplace_back(plan,
                         [options] { return ExitStatus("longwave plan", RunPlan(*options)); });
}

}  // namespace longwave

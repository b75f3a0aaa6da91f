#include "common/config/config.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "cli/cluster.h"
#include "cli/up.h"
#include "common/base/status_macros.h"
#include "tests/bench/link/bench.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

// 9,966,720 parameters, and 1,032,576. All updates leave by the shards' links: in the whole bench
// they are as many as the workers'.
const char* const kWhole[] = {
    "run.shards=4",          "model.d_model=320",         "model.layers=8",
    "model.heads=8",         "train.learning_rate=0.001", "train.batch=8",
    "train.warmup_steps=30", "sync.inner_steps=30",       "run.validation_batches=8"};
const char* const kQuick[] = {
    "run.shards=2",          "model.d_model=128",         "model.layers=5",
    "model.heads=4",         "train.learning_rate=0.003", "train.batch=4",
    "train.warmup_steps=10", "sync.inner_steps=10",       "run.validation_batches=8"};

}  // namespace

absl::StatusOr<RunConfig> LinkBenchConfig(const BenchLinkOptions& options) {
  if (options.rounds == 0) {
    return absl::InvalidArgumentError("--rounds: got 0, wanted at least 1");
  }
  // A short run would have some or no snapshots, depending on its model's size.
  Overrides overrides = {"run.workers=4", "model.context=64", "cluster.snapshot_rounds=1000000",
                         "train.final_learning_rate_share=1"};
  const auto& size = options.quick ? kQuick : kWhole;
  overrides.insert(overrides.end(), std::begin(size), std::end(size));
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  if (!options.data.empty()) overrides.push_back(absl::StrCat("data.path=", options.data));
  // The configuration's minimum; the runs' numbers follow from H.
  overrides.push_back("run.steps=1000000");
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, ParseConfig("{}", "bench_link", overrides));
  if (FitsInterval(config)) {
    return absl::InvalidArgumentError(
        "--set sync.inner_steps: got auto, wanted a number; auto is one of --intervals");
  }
  config.run.steps = uint64_t{options.rounds} * config.sync.inner_steps;
  // Times and bytes are of training alone, since every run validates at its end.
  config.run.validate_every = options.rounds;
  if (config.train.warmup_steps >= config.run.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("a run has ", config.run.steps, " steps; wanted more than the ",
                     config.train.warmup_steps, " of train.warmup_steps"));
  }
  config.train.threads = WorkerThreads(config);
  DataReport data;
  LONGWAVE_RETURN_IF_ERROR(CheckRun(config, &data));
  if (config.data.path != kCompilerHeaders) {
    config.data.path = std::filesystem::absolute(config.data.path).lexically_normal().string();
  }
  return config;
}

absl::StatusOr<RunConfig> WithPreset(const RunConfig& config, const std::string& preset) {
  LONGWAVE_ASSIGN_OR_RETURN(
      const RunConfig own,
      ParseConfig("{}", "bench_link", {absl::StrCat("run.preset=", preset), "run.steps=1000000"}));
  RunConfig result = config;
  result.run.preset = preset;
  result.sync = own.sync;
  if (own.sync.signal == SignalKind::kPseudoGradient) {
    result.sync.inner_steps = config.sync.inner_steps;
  }
  return result;
}

}  // namespace longwave

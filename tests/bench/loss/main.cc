// bench_loss: what a configuration's sync costs in loss and in bytes, without processes.
//
//   bench_loss CONFIG --data PATH [--energy] [--set key=value]…
//
// Trains the run's workers, each in a thread of this process, with the product's trainer, model,
// optimizer, pipeline and aggregator; only the network, the coordinator and the disk are missing.
// All workers compute on the device of train.device. On the CPU the loss is to the last digit that
// of `longwave up CONFIG --set run.shards=1` with one thread a worker (test_loss.py holds them
// against each other). Prints one line: the validation loss after
// the last round, payload bytes a parameter, worker and round up and down, and the settings of
// model, training and sync that differ from the preset's. --energy adds the shares of the signal's
// momentum and of a gradient that the 64 largest of a tile's values and DCT coefficients hold, by
// tensor. docs/benchmarks.md, section Loss against bytes.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/log/log.h"
#include "kernels/ops.h"
#include "tests/bench/in_process/in_process.h"
#include "tests/bench/loss/energy.h"
#include "worker/data/corpus.h"
#include "worker/models/device.h"
#include "worker/models/replica.h"

namespace longwave {
namespace {

struct Options {
  std::string config;
  Overrides overrides = {"run.shards=1", "run.validate_every=1000000", "train.threads=1"};
  bool energy = false;
};

// "train.optimizer=muon sync.up.k=128": the settings that decide the loss and are not the preset's.
absl::StatusOr<std::string> Differences(const RunConfig& config) {
  LONGWAVE_ASSIGN_OR_RETURN(
      const RunConfig preset,
      ParseConfig("{}", "bench_loss", {absl::StrCat("run.preset=", config.run.preset)}));
  std::string text;
  for (const ConfigKey& key : ConfigKeys()) {
    const bool counts = absl::StartsWith(key.name, "model.") ||
                        absl::StartsWith(key.name, "sync.") ||
                        (absl::StartsWith(key.name, "train.") && key.name != "train.threads" &&
                         key.name != "train.device");
    if (counts && key.get(config) != key.get(preset)) {
      absl::StrAppend(&text, " ", key.name, "=", key.get(config));
    }
  }
  return text;
}

absl::Status Run(const Options& options) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(options.config, options.overrides));
  LONGWAVE_ASSIGN_OR_RETURN(const std::string differences, Differences(config));
  LONGWAVE_ASSIGN_OR_RETURN(const Corpus data, Corpus::Load(config.data, config.model));
  // Before LibTorch is used otherwise (OpenDevice).
  LONGWAVE_ASSIGN_OR_RETURN(const Device device, OpenDevice(config.train.device));
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<ShardInProcess> shard,
                            ShardInProcess::Create(config));
  std::optional<EnergyMeter> meter;
  if (options.energy) {
    LONGWAVE_RETURN_IF_ERROR(EnergyMeter::Check(config, device.ops));
    meter.emplace();
  }
  std::vector<absl::StatusOr<TrainedInProcess>> outcomes(config.run.workers);
  std::vector<std::thread> workers;
  for (uint32_t worker = 0; worker < config.run.workers; ++worker) {
    workers.emplace_back([&, worker] {
      const bool watched = worker == 0 && meter.has_value();
      outcomes[worker] = TrainInProcess(config, device, data, worker, /*validates=*/worker == 0,
                                        shard.get(), [&](const KernelOps* ops, Replica& replica) {
                                          return watched ? meter->Watch(ops, replica) : ops;
                                        });
      if (!outcomes[worker].ok()) shard->Fail(outcomes[worker].status());
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const absl::StatusOr<TrainedInProcess>& outcome : outcomes) {
    LONGWAVE_RETURN_IF_ERROR(outcome.status());
  }
  const TrainedInProcess& first = *outcomes.front();
  const double shares =
      static_cast<double>(first.parameters) * (first.last.round + 1) * config.run.workers;
  const ByteCounts bytes = shard->bytes();
  absl::PrintF("loss %.4f  up %.4f  down %.4f  %s seed %d workers %d steps %d:%s\n",
               first.last.validation_loss.value_or(0),
               static_cast<double>(bytes.payload_pushed) / shares,
               static_cast<double>(bytes.payload_pulled) / shares, config.run.preset,
               config.run.seed, config.run.workers, config.run.steps, differences);
  if (meter.has_value()) meter->Print();
  return absl::OkStatus();
}

absl::StatusOr<Options> ParseArguments(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--energy") {
      options.energy = true;
    } else if ((argument == "--set" || argument == "--data") && i + 1 < argc) {
      const std::string value = argv[++i];
      options.overrides.push_back(argument == "--data" ? absl::StrCat("data.path=", value) : value);
    } else if (options.config.empty() && !absl::StartsWith(argument, "-")) {
      options.config = argument;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "got ", argument, ", wanted CONFIG --data PATH [--energy] [--set key=value]…"));
    }
  }
  if (options.config.empty()) return absl::InvalidArgumentError("wanted a configuration's file");
  return options;
}

int Main(int argc, char** argv) {
  SetLogLevel(LogLevel::kWarning);
  const absl::StatusOr<Options> options = ParseArguments(argc, argv);
  const absl::Status status = options.ok() ? Run(*options) : options.status();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "error: bench_loss: %s\n", status.message());
  return options.ok() ? 1 : 2;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }

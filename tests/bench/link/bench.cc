#include "tests/bench/link/bench.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/interrupts.h"
#include "cli/programs/programs.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "tests/bench/link/figures.h"
#include "tests/bench/link/network.h"
#include "tests/bench/link/report.h"
#include "tests/bench/link/run.h"
#include "tests/bench/link/torch.h"
#include "worker/data/data_files.h"

namespace longwave {
namespace {

constexpr char kTorchDdp[] = "torch-ddp";
constexpr char kNone[] = "none";
// Measured steps or rounds of a baseline at a shaped link; PyTorch's first step is not counted.
constexpr uint32_t kTimedSteps = 2;
constexpr uint32_t kTimedRounds = 1;
constexpr uint64_t kTorchStepsPerValidation = 5;  // far from the target; near it, every one
// An unshaped baseline ends where it has lost already by this factor at the lowest rate.
constexpr double kLostBy = 1.5;
constexpr double kTorchLostBy = 21;
constexpr uint64_t kUnitsMax = 2000;
constexpr double kTorchTimeoutSeconds = 120;  // and as long as its own traffic takes, twice

void Say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

class LinkBench {
 public:
  LinkBench(const BenchLinkOptions& options, RunConfig config, std::string binaries,
            std::string folder, int interrupt_fd)
      : options_(options),
        binaries_(std::move(binaries)),
        folder_(std::move(folder)),
        interrupt_fd_(interrupt_fd) {
    figures_.config = std::move(config);
    figures_.mtu = options.mtu;
    figures_.loss_probes = !options.no_loss_probes;
    figures_.keeps_state = options.keep_state;
    figures_.begun = absl::Now();
  }

  // Results found before a failure are reported all the same.
  absl::Status Run() {
    if (!options_.json_file.empty()) LONGWAVE_RETURN_IF_ERROR(NewFile(options_.json_file).status());
    const absl::Status status = Measure();
    if (figures_.runs.empty()) return status;
    figures_.failure = std::string(status.message());
    Say(DescribeEnd(figures_));
    if (options_.json_file.empty()) return status;
    const absl::Status written = WriteFile(options_.json_file, LinkJson(figures_));
    return status.ok() ? written : status;
  }

 private:
  absl::Status Measure() {
    LONGWAVE_ASSIGN_OR_RETURN(
        network_,
        LinkNetwork::Create(LinkNodes(figures_.config),
                            {.mtu = figures_.mtu, .loss_probes = figures_.loss_probes}, folder_));
    // From here on this process and its direct children are at the coordinator's place.
    LONGWAVE_RETURN_IF_ERROR(network_->NamespaceOf(LinkNetwork::kCoordinator).Enter());
    Say(Header());
    if (!options_.intervals.empty()) return RunIntervals();
    LONGWAVE_RETURN_IF_ERROR(RunPreset());
    absl::Status failed;
    for (const std::string& name : options_.baselines) {
      if (name == kNone) continue;
      LinkBaseline baseline{.name = name, .unit = "step"};
      const absl::Status status =
          name == kTorchDdp ? MeasureTorch(&baseline) : MeasurePreset(name, &baseline);
      if (absl::IsCancelled(status)) return status;
      // A baseline that fails is no reason to lose the rest; the end says that it did. Without a
      // torch there is none to fail.
      if (!status.ok()) {
        baseline.why_not_measured = std::string(status.message());
        if (name != kTorchDdp || !options_.torch_python.empty()) {
          failed.Update(absl::Status(status.code(), absl::StrCat(name, ": ", status.message())));
        }
      }
      Say(DescribeBaseline(baseline));
      figures_.baselines.push_back(std::move(baseline));
    }
    return failed;
  }

  std::string Header() const {
    const RunConfig& config = figures_.config;
    return absl::StrFormat(
        "%u workers and %u shards, each in a network namespace with a data link of its own, shaped "
        "by tbf both ways;\ncontrol (gRPC) has links of its own that are not shaped: data "
        "interfaces carry payload frames alone.\nInterfaces count packets as they are: MTU %u, but "
        "up to %u bytes with one header (segmentation offload).\nPreset %s, GPT d %u, %u layers, "
        "H %u, batch %u x %u, %s. Logs: %s\n\n",
        config.run.workers, config.run.shards, figures_.mtu, LinkNetwork::kOffloadBytesMax,
        config.run.preset, config.model.d_model, config.model.layers, config.sync.inner_steps,
        config.train.batch, config.model.context,
        figures_.keeps_state ? "state kept" : "no state kept", folder_);
  }

  absl::StatusOr<LinkRun> Train(const RunConfig& config, double mbit,
                                std::function<bool(const RunStatus&)> stop_when = nullptr) {
    LONGWAVE_RETURN_IF_ERROR(network_->Shape(mbit));
    LONGWAVE_ASSIGN_OR_RETURN(
        LinkRun run, RunOverLinks({.network = network_.get(),
                                   .config = config,
                                   .name = absl::StrFormat("%s-%g", config.run.preset, mbit),
                                   .binaries = binaries_,
                                   .runs_dir = absl::StrCat(folder_, "/", ++run_count_),
                                   .mbit = mbit,
                                   .keep_state = figures_.keeps_state,
                                   .interrupt_fd = interrupt_fd_,
                                   .stop_when = std::move(stop_when)}));
    // The measurement would be of a run that went wrong.
    if (PromisesEqualReplicas(config) && !run.status.replicas_equal) {
      return absl::DataLossError(
          absl::StrCat(config.run.preset, ": replicas differ: ", run.status.inequality));
    }
    return run;
  }

  absl::Status RunPreset() {
    std::vector<double> rates = options_.rates;
    std::sort(rates.begin(), rates.end(), std::greater<>());
    // The extra work of a first run must not fall on the run that is the reference of the others.
    rates.insert(rates.empty() ? rates.begin() : rates.begin() + 1, 0);
    for (const double rate : rates) {
      LONGWAVE_ASSIGN_OR_RETURN(LinkRun run, Train(figures_.config, rate));
      figures_.parameters = run.status.parameters;
      figures_.runs.push_back(std::move(run));
      Say(DescribeRun(figures_.runs.back(), figures_.config.sync, figures_.RunAt(0)));
      if (figures_.runs.size() > 1) continue;
      // The loss at the end, which is the same in all runs.
      figures_.target_loss = LossAtEnd(figures_.runs.back().status);
      figures_.rounds_to_target = options_.rounds;
    }
    seconds_to_target_ = figures_.SecondsToTargetAt(figures_.SlowestRate()).value_or(0);
    return absl::OkStatus();
  }

  // Runs of equal steps over links that go from the highest rate to the lowest and back.
  absl::Status RunIntervals() {
    const auto [low, high] = std::ranges::minmax(options_.rates);
    std::vector<RunConfig> configs;  // all are checked before the first run
    for (const std::string& interval : options_.intervals) {
      LONGWAVE_ASSIGN_OR_RETURN(configs.emplace_back(),
                                ParseConfig(FormatConfig(figures_.config), "bench_link",
                                            {absl::StrCat("sync.inner_steps=", interval)}));
    }
    for (size_t i = 0; i < configs.size(); ++i) {
      RunConfig& config = configs[i];
      config.run.validate_every = static_cast<uint32_t>(RoundCount(config));  // at the end alone
      const LinkRates rates{.first = high, .second = low, .seconds = options_.alternate_s};
      double present = high;
      absl::Status shaped;
      const auto alternate = [&](const RunStatus& status) {
        const double wanted = rates.At(status.seconds);
        if (std::exchange(present, wanted) != wanted) shaped = network_->Shape(wanted);
        return !shaped.ok();
      };
      LONGWAVE_ASSIGN_OR_RETURN(const LinkRun run, Train(config, high, alternate));
      LONGWAVE_RETURN_IF_ERROR(shaped);
      Say(DescribeInterval(options_.intervals[i], run, rates));
    }
    return absl::OkStatus();
  }

  // Seconds of an all-reduce of 32 bit gradients around a ring.
  double TorchTraffic(double mbit) const {
    const double workers = figures_.config.run.workers;
    const double megabits = 8e-6 * 4 * static_cast<double>(figures_.parameters);
    return mbit > 0 ? megabits * 2 * (workers - 1) / workers / mbit : 0;
  }

  // How many units an unshaped baseline may take before it has lost anyhow.
  uint64_t UnitsAllowed(const LinkBaseline& baseline, double lost_by) const {
    double slowest_unit = 0;
    for (const LinkBaseline::Rate& rate : baseline.rates) {
      slowest_unit = std::max(slowest_unit, rate.seconds_per_unit);
    }
    if (slowest_unit <= 0) return kUnitsMax;
    const double units = std::ceil(lost_by * seconds_to_target_ / slowest_unit);
    return static_cast<uint64_t>(std::clamp<double>(units, 1, kUnitsMax));
  }

  absl::Status MeasurePreset(const std::string& preset, LinkBaseline* baseline) {
    LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, WithPreset(figures_.config, preset));
    const uint64_t inner_steps = config.sync.inner_steps;
    baseline->unit = inner_steps > 1 ? "round" : "step";
    const uint32_t warmup = std::exchange(config.train.warmup_steps, 0);  // too short for one
    const uint32_t timed = inner_steps > 1 ? kTimedRounds : kTimedSteps;
    config.run.steps = timed * inner_steps;
    config.run.validate_every = timed;
    const uint32_t batches = std::exchange(config.run.validation_batches, 1);
    for (const double rate : options_.rates) {
      LONGWAVE_ASSIGN_OR_RETURN(const LinkRun run, Train(config, rate));
      baseline->rates.push_back(RateOf(run));
    }
    if (seconds_to_target_ <= 0) return absl::OkStatus();  // there is nothing to compare with
    const uint64_t allowed = UnitsAllowed(*baseline, kLostBy);
    config.train.warmup_steps = warmup;
    config.run.steps = std::max<uint64_t>(allowed * inner_steps, warmup + 1);
    config.run.validate_every = 1;
    config.run.validation_batches = batches;
    const double target = *figures_.target_loss;
    const auto stop = [target, allowed](const RunStatus& status) {
      return FirstAtTarget(status, target) != nullptr || status.records.size() >= allowed;
    };
    LONGWAVE_ASSIGN_OR_RETURN(const LinkRun run, Train(config, 0, stop));
    const RoundRecord* reached = FirstAtTarget(run.status, target);
    baseline->at_least = reached == nullptr;
    baseline->units = reached != nullptr ? reached->round + 1 : run.status.records.size();
    return absl::OkStatus();
  }

  static LinkBaseline::Rate RateOf(const LinkRun& run) {
    LinkBaseline::Rate rate{.mbit = run.mbit};
    if (run.status.records.empty()) return rate;
    rate.seconds_per_unit = run.SecondsUnvalidated() / run.rounds();
    InterfaceBytes all;
    for (const LinkWorker& worker : run.workers) {
      all.sent += worker.data.sent;
      all.received += worker.data.received;
    }
    const double shares = run.rounds() * static_cast<double>(run.workers.size());
    rate.bytes_up_per_unit = static_cast<double>(all.sent) / shares;
    rate.bytes_down_per_unit = static_cast<double>(all.received) / shares;
    return rate;
  }

  absl::Status MeasureTorch(LinkBaseline* baseline) {
    if (options_.torch_python.empty()) {
      return absl::FailedPreconditionError("no --torch-python, a Python that has torch, was given");
    }
    if (figures_.config.data.path == kCompilerHeaders) {
      return absl::FailedPreconditionError("PyTorch's script wants a text, by --data");
    }
    TorchRunOptions torch{.network = network_.get(),
                          .config = figures_.config,
                          .parameters = figures_.parameters,
                          .python = options_.torch_python,
                          .folder = folder_,
                          .interrupt_fd = interrupt_fd_};
    const auto run_at = [&](double rate) -> absl::StatusOr<TorchRun> {
      torch.name = absl::StrFormat("%s-%g", baseline->name, rate);
      torch.timeout_s = kTorchTimeoutSeconds + 2 * TorchTraffic(rate);
      LONGWAVE_RETURN_IF_ERROR(network_->Shape(rate));
      LONGWAVE_ASSIGN_OR_RETURN(TorchRun run, RunTorch(torch));
      baseline->rates.push_back({.mbit = rate,
                                 .seconds_per_unit = run.SecondsPerStep(),
                                 .bytes_up_per_unit = run.BytesUpPerStep(),
                                 .bytes_down_per_unit = run.BytesDownPerStep()});
      return run;
    };
    torch.steps = kTimedSteps;
    for (const double rate : options_.rates) LONGWAVE_RETURN_IF_ERROR(run_at(rate).status());
    if (seconds_to_target_ <= 0) return absl::OkStatus();
    torch.steps = UnitsAllowed(*baseline, kTorchLostBy);
    torch.validate_every = kTorchStepsPerValidation;
    torch.target = *figures_.target_loss;
    LONGWAVE_ASSIGN_OR_RETURN(const TorchRun run, run_at(0));
    std::rotate(baseline->rates.begin(), baseline->rates.end() - 1, baseline->rates.end());
    baseline->units = run.steps;
    baseline->at_least = !run.reached;
    return absl::OkStatus();
  }

  const BenchLinkOptions& options_;
  const std::string binaries_, folder_;
  const int interrupt_fd_;
  std::unique_ptr<LinkNetwork> network_;
  LinkFigures figures_;
  double seconds_to_target_ = 0;  // ours, at the lowest rate
  uint32_t run_count_ = 0;
};

absl::Status CheckOptions(const BenchLinkOptions& options) {
  for (const double rate : options.rates) {
    if (rate >= 0.1 && rate <= 100'000) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--rates: got ", rate, ", wanted 0.1 to 100000 Mbit/s"));
  }
  const std::vector<std::string> presets = PresetNames();
  for (const std::string& name : options.baselines) {
    if (name == kNone || name == kTorchDdp || std::count(presets.begin(), presets.end(), name) > 0)
      continue;
    return absl::InvalidArgumentError(absl::StrCat("--baselines: got ", name, ", wanted ",
                                                   kTorchDdp, " or a preset (ddp, diloco, …)"));
  }
  return absl::OkStatus();
}

absl::Status Execute(const BenchLinkOptions& options, int interrupt_fd) {
  LONGWAVE_RETURN_IF_ERROR(CheckOptions(options));
  LONGWAVE_ASSIGN_OR_RETURN(std::string binaries, OwnFolder());
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, LinkBenchConfig(options));
  LONGWAVE_RETURN_IF_ERROR(LinkNetwork::Check());
  const std::string folder = absl::StrCat(
      std::filesystem::absolute(options.runs_dir).string(), "/bench-link-",
      absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()), "-", getpid());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  return LinkBench(options, std::move(config), std::move(binaries), folder, interrupt_fd).Run();
}

}  // namespace

int RunBenchLink(const BenchLinkOptions& options) {
  absl::StatusOr<Interrupts> interrupts = Interrupts::Block();
  const absl::Status status =
      interrupts.ok() ? Execute(options, interrupts->fd()) : interrupts.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_link: %s: %s\n", absl::IsCancelled(status) ? "stopped" : "failed",
               std::string(status.message()).c_str());
  const std::optional<int> signal =
      absl::IsCancelled(status) && interrupts.ok() ? interrupts->Take() : std::nullopt;
  return signal.has_value() ? 128 + *signal : 1;
}

}  // namespace longwave

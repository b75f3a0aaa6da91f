// bench_round_hold: the time that a round keeps a worker's loop from its inner steps.
//
// A coordinator, shards and one worker, each a process. The worker's inner step is a pause of 80
// ms, its model has 124 M parameters and AdamW's state (--optimizer-arrays 1: Muon's), and the disk
// of its state folder takes 200 MB/s: tests/support/slow_disk.c, which is preloaded, models it,
// syncs included. Prints each round and the mean over the rounds, less the kernels' own time. The
// bar is 50 ms a round; --hang-s has the disk hang for so long from the middle of the run on.
// docs/benchmarks.md, section A round's hold.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/process.h"
#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/command_line/command_line.h"
#include "common/config/config.h"
#include "common/log/log.h"
#include "tests/bench/hold/worker.h"
#include "tests/bench/verdict.h"

namespace longwave {
namespace {

constexpr double kHeldSecondsMax = 0.050;  // a round, without the kernels
constexpr absl::Duration kReadyTimeout = absl::Seconds(120);

struct Options {
  uint64_t parameters = 124'000'000;
  uint32_t optimizer_arrays = 2;
  uint32_t rounds = 40;
  uint32_t inner_steps = 30;
  uint32_t shards = 4;
  double step_ms = 80;
  double disk_mb_per_s = 200;  // 0: the real disk alone
  double hang_s = 0;
  std::string folder;
  Overrides settings;
  bool no_bars = false;
  bool no_state = false;
  bool is_worker = false;
  std::string config_file, coordinator;
};

std::string ThisProgram() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

absl::StatusOr<RunConfig> MakeConfig(const Options& options) {
  Overrides settings = {"run.preset=longwave_adamw",
                        "run.workers=1",
                        absl::StrCat("run.shards=", options.shards),
                        "model.kind=external",
                        absl::StrCat("sync.inner_steps=", options.inner_steps),
                        absl::StrCat("run.steps=", uint64_t{options.rounds} * options.inner_steps),
                        "train.warmup_steps=0",
                        "cluster.start_timeout_s=120"};
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  return ParseConfig("{}", "bench_round_hold", settings);
}

// The next line of the process's output; nullopt: it has ended.
std::optional<std::string> NextLine(Process& process) {
  for (;;) {
    const bool running = process.Running();
    if (auto line = process.ReadLine()) return line;
    if (!running) return std::nullopt;
    pollfd fd = {process.output_fd(), POLLIN, 0};
    (void)poll(&fd, process.output_fd() >= 0 ? 1 : 0, 100);
  }
}

absl::StatusOr<std::unique_ptr<Process>> StartServer(const std::string& name,
                                                     std::vector<std::string> argv,
                                                     const std::string& folder,
                                                     std::string* address) {
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Process> process,
                            Process::Start({.name = name,
                                            .argv = std::move(argv),
                                            .log_file = absl::StrCat(folder, "/", name, ".log")}));
  const absl::Time deadline = MonotonicNow() + kReadyTimeout;
  while (MonotonicNow() < deadline) {
    const std::optional<std::string> line = NextLine(*process);
    if (!line.has_value()) break;
    if (!absl::StartsWith(*line, "ready ")) continue;
    *address = line->substr(6);
    return process;
  }
  return absl::AbortedError(absl::StrCat(name, ": ", process->FailureSentence()));
}

struct Held {
  double seconds = 0, kernels = 0, longest = 0;
};

absl::StatusOr<std::vector<Held>> RunOnce(const Options& options, const std::string& folder) {
  LONGWAVE_ASSIGN_OR_RETURN(RunConfig config, MakeConfig(options));
  const std::string file = folder + "/config.yaml";
  LONGWAVE_RETURN_IF_ERROR(WriteFile(file, FormatConfig(config)));
  const std::string server =
      (std::filesystem::path(ThisProgram()).parent_path() / "longwave-server").string();
  std::string address, ignored;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Process> coordinator,
      StartServer("coordinator",
                  {server, "--role=coordinator", "--config", file, "--listen", "127.0.0.1:0"},
                  folder, &address));
  std::vector<std::unique_ptr<Process>> shards;
  for (uint32_t s = 0; s < options.shards; ++s) {
    LONGWAVE_ASSIGN_OR_RETURN(
        std::unique_ptr<Process> shard,
        StartServer(absl::StrCat("shard-", s),
                    {server, "--role=shard", "--shard", absl::StrCat(s), "--config", file,
                     "--coordinator", address, "--listen", "tcp://127.0.0.1:0"},
                    folder, &ignored));
    shards.push_back(std::move(shard));
  }
  const std::string state = folder + "/worker";
  ProcessOptions worker{
      .name = "worker",
      .argv = {ThisProgram(), "--worker", "--config", file, "--coordinator", address, "--params",
               absl::StrCat(options.parameters), "--optimizer-arrays",
               absl::StrCat(options.optimizer_arrays), "--step-ms", absl::StrCat(options.step_ms),
               "--hang-s", absl::StrCat(options.hang_s), "--folder",
               options.no_state ? std::string() : folder},
      .log_file = folder + "/worker.log"};
  if (options.disk_mb_per_s > 0) {
    worker.environment = {{"LD_PRELOAD", SLOW_DISK_LIBRARY},
                          {"SLOW_DISK", state},
                          {"SLOW_DISK_HANGS", folder + "/hangs"},
                          {"SLOW_DISK_BYTES_PER_S", absl::StrCat(options.disk_mb_per_s * 1e6)}};
  }
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Process> process, Process::Start(worker));
  std::vector<Held> rounds;
  while (const std::optional<std::string> line = NextLine(*process)) {
    unsigned long long round = 0;
    Held held;
    if (std::sscanf(line->c_str(), "round %llu held %lf kernels %lf longest %lf", &round,
                    &held.seconds, &held.kernels, &held.longest) != 4) {
      continue;
    }
    rounds.push_back(held);
    std::printf("round %3llu: held %7.3f s, kernels %7.3f s, the rest %7.3f s\n", round,
                held.seconds, held.kernels, held.seconds - held.kernels);
    std::fflush(stdout);
  }
  if (!process->succeeded()) return absl::AbortedError(process->FailureSentence());
  if (rounds.size() != options.rounds) {
    return absl::AbortedError(
        absl::StrCat("got ", rounds.size(), " rounds, wanted ", options.rounds));
  }
  return rounds;
}

absl::Status Run(const Options& options) {
  const std::string folder = options.folder.empty()
                                 ? absl::StrCat("/dev/shm/bench_round_hold.", getpid())
                                 : options.folder;
  std::filesystem::create_directories(folder);
  const absl::StatusOr<std::vector<Held>> rounds = RunOnce(options, folder);
  // The logs of a run that failed remain.
  if (rounds.ok() && options.folder.empty()) std::filesystem::remove_all(folder);
  if (!rounds.ok()) {
    return absl::Status(rounds.status().code(),
                        absl::StrCat(rounds.status().message(), "; see the logs in ", folder));
  }
  Held sum;
  double most = 0;
  for (const Held& held : *rounds) {
    sum.seconds += held.seconds;
    sum.kernels += held.kernels;
    most = std::max(most, held.longest);
  }
  const auto count = static_cast<double>(rounds->size());
  const double rest = (sum.seconds - sum.kernels) / count;
  const bool is_met = rest <= kHeldSecondsMax;
  std::printf(
      "%llu parameters, %u optimizer arrays, H %u, steps of %.0f ms, %u shards, disk of %.0f "
      "MB/s%s\n"
      "a round keeps the loop from its steps for %.4f s, of which kernels take %.4f s; the rest: "
      "%.1f ms a round (bar: at most %.0f ms: %s), the longest wait between two steps %.3f s\n",
      static_cast<unsigned long long>(options.parameters), options.optimizer_arrays,
      options.inner_steps, options.step_ms, options.shards, options.disk_mb_per_s,
      options.hang_s > 0 ? absl::StrFormat(", which hangs for %.0f s", options.hang_s).c_str() : "",
      sum.seconds / count, sum.kernels / count, 1e3 * rest, 1e3 * kHeldSecondsMax,
      std::string(Name(is_met ? Verdict::kMet : Verdict::kNotMet)).c_str(), most);
  if (!is_met && !options.no_bars) return absl::OutOfRangeError("the bar is not met");
  return absl::OkStatus();
}

absl::Status RunWorker(const Options& options) {
  LONGWAVE_ASSIGN_OR_RETURN(
      RunConfig config,
      LoadConfig(options.config_file, {absl::StrCat("cluster.coordinator=", options.coordinator)}));
  return RunHeldWorker({.config = std::move(config),
                        .state_dir = options.folder.empty() ? "" : options.folder + "/worker",
                        .parameters = options.parameters,
                        .optimizer_arrays = options.optimizer_arrays,
                        .step_seconds = options.step_ms / 1e3,
                        .hang_seconds = options.hang_s,
                        .hang_file = options.folder + "/hangs"});
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  Options options;
  CLI::App app("How long a round keeps a worker's loop from its inner steps.", "bench_round_hold");
  app.add_option("--params", options.parameters, "Parameters of the model")->capture_default_str();
  app.add_option("--optimizer-arrays", options.optimizer_arrays,
                 "Arrays of the optimizer's state: 2 of AdamW, 1 of Muon")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds")->capture_default_str();
  app.add_option("--inner-steps", options.inner_steps, "H")->capture_default_str();
  app.add_option("--shards", options.shards, "Shard processes")->capture_default_str();
  app.add_option("--step-ms", options.step_ms, "Time of an inner step")->capture_default_str();
  app.add_option("--disk", options.disk_mb_per_s,
                 "MB/s of the disk of the worker's folder; 0: as fast as it is")
      ->capture_default_str();
  app.add_option("--hang-s", options.hang_s,
                 "The disk hangs for so long, from the middle of the run on")
      ->capture_default_str();
  app.add_option("--folder", options.folder,
                 "Folder of logs and state, which is kept; otherwise a new one in /dev/shm");
  app.add_option("--set", options.settings, "A setting, key=value; may be given again")
      ->allow_extra_args(false);
  app.add_flag("--no-state", options.no_state, "The worker has no state folder");
  app.add_flag("--no-bars", options.no_bars, "Exit with 0 where the bar is missed");
  app.add_flag("--worker", options.is_worker, "Internal: the worker's process")->group("");
  app.add_option("--config", options.config_file)->group("");
  app.add_option("--coordinator", options.coordinator)->group("");
  if (const auto status = ParseCommandLine(&app, argc, argv, "bench_round_hold: ")) return *status;
  if (!options.is_worker) SetLogLevel(LogLevel::kError);
  const absl::Status status = options.is_worker ? RunWorker(options) : Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: bench_round_hold: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }

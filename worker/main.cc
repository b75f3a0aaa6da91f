// longwave-worker: one replica of the model, trained on this machine and kept in step with the
// other replicas.

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/descriptor.h"
#include "common/base/errors.h"
#include "common/base/memory.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/termination.h"
#include "common/base/threads.h"
#include "common/command_line/command_line.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "common/config/run_metrics.h"
#include "common/layout/layout.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/metrics/metrics_server.h"
#include "kernels/ops.h"
#include "worker/data/corpus.h"
#include "worker/member/fetch_config.h"
#include "worker/member/member_place.h"
#include "worker/member/stop_signal.h"
#include "worker/models/device.h"
#include "worker/models/memory.h"
#include "worker/models/optimizers.h"
#include "worker/models/replica.h"
#include "worker/trainer/trainer.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"
#include "worker/weights/write_model.h"
#include "worker/write_text.h"

namespace longwave {
namespace {

// Time until the process exits after a signal. A worker may finish its step and write a checkpoint
// or, without a folder, the weights, within the 30 s of systemd and of a spot notice.
constexpr absl::Duration kWritingGrace = absl::Seconds(25);
// The limit of parameters up to which a model that does not fit into memory is still laid out,
// since the coordinator hears of failures only from workers with a known layout. Beyond it the
// table of tiles alone takes gigabytes.
constexpr int64_t kParametersLaidOutMax = int64_t{1} << 34;

struct Flags {
  std::string config_path;
  Overrides overrides;
  std::string name;
  std::string coordinator;
  std::string run_dir;
  std::string state_dir;
  std::string write_initial;
  std::string start_from;
  std::string check_device;
  std::string device;
  TextOptions text;
  uint32_t threads = 0;
  std::optional<std::string> metrics;  // absent: metrics.listen
  bool stay_when_done = false;
  bool fail_when_told_to_end = false;
};

absl::StatusOr<RunConfig> LoadRunConfig(const Flags& flags, const StopSignal& stop) {
  absl::StatusOr<RunConfig> loaded =
      flags.config_path.empty()
          ? FetchRunConfig(flags.coordinator, flags.overrides, flags.state_dir, stop)
          : LoadConfig(flags.config_path, flags.overrides);
  if (!loaded.ok()) return loaded.status();
  RunConfig& config = *loaded;
  if (!flags.coordinator.empty()) config.cluster.coordinator = flags.coordinator;
  if (flags.threads > 0) config.train.threads = flags.threads;
  if (config.train.threads == 0) config.train.threads = DefaultThreads();
  if (!flags.device.empty()) config.train.device = flags.device;
  return loaded;
}

// Resources of a worker, prepared before it registers.
struct Prepared {
  Corpus data;
  std::unique_ptr<Replica> replica;
  std::unique_ptr<InnerOptimizer> optimizer;
  const KernelOps* ops;
  Exec exec;
};

absl::StatusOr<Prepared> Prepare(const RunConfig& config, const Flags& flags, const Layout& layout,
                                 const Device& device) {
  LONGWAVE_ASSIGN_OR_RETURN(Corpus data, Corpus::Load(config.data, config.model));
  for (const std::string& line : data.report().lines) Log(LogLevel::kInfo, line);
  const Exec exec{.stream = device.stream, .threads = static_cast<int>(config.train.threads)};
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Replica> replica,
                            Replica::Create(config.model, config.train, config.run.seed,
                                            static_cast<int>(config.train.threads), device.kind));
  if (!flags.start_from.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> theta,
                              ReadWeights(flags.start_from, replica->manifest(), layout));
    std::string warning;
    LONGWAVE_RETURN_IF_ERROR(CheckGpt2Config(flags.start_from, config.model, &warning));
    if (!warning.empty()) Log(LogLevel::kWarning, warning);
    LONGWAVE_RETURN_IF_ERROR(
        device.ops->copy(exec, replica->theta(), theta.data(), theta.size() * sizeof(float)));
    LONGWAVE_RETURN_IF_ERROR(device.ops->wait(exec));
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<InnerOptimizer> optimizer,
                            MakeOptimizer(config.train, replica->manifest(), device.ops, exec));
  return Prepared{std::move(data), std::move(replica), std::move(optimizer), device.ops, exec};
}

// The replica's first weights, flat as the layout orders them.
absl::StatusOr<std::vector<float>> InitialWeights(const RunConfig& config, const Flags& flags,
                                                  const Manifest& manifest, const Layout& layout) {
  if (!flags.start_from.empty()) return ReadWeights(flags.start_from, manifest, layout);
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                            Replica::Create(config.model, config.train, config.run.seed,
                                            static_cast<int>(config.train.threads)));
  return std::vector<float>(replica->theta(), replica->theta() + replica->parameter_count());
}

// Weights on a device are generated again on the host, with the same bits.
absl::StatusOr<uint32_t> Join(const RunConfig& config, const Flags& flags, const Prepared& prepared,
                              MemberPlace& place) {
  Replica& replica = *prepared.replica;
  if (!prepared.ops->on_device) return place.Join({replica.theta(), replica.parameter_count()});
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> start,
                            InitialWeights(config, flags, replica.manifest(), place.layout()));
  return place.Join(start);
}

// Writes the first weights to a file, from which the run's updates can be followed.
absl::Status WriteInitial(const Flags& flags) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags, StopSignal()));
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(manifest, LayoutOptionsFor(config, manifest)));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<float> theta,
                            InitialWeights(config, flags, manifest, layout));
  return WriteModel(flags.write_initial, config, manifest, layout, theta.data(), /*steps=*/0);
}

absl::Status Train(const RunConfig& config, const Flags& flags, Prepared& prepared,
                   MemberPlace& place) {
  Replica& replica = *prepared.replica;
  LONGWAVE_ASSIGN_OR_RETURN(MemberParts parts, place.Begin({.theta = replica.theta(),
                                                            .gradient = replica.gradient(),
                                                            .ops = prepared.ops,
                                                            .exec = prepared.exec,
                                                            .initial_weights = [&] {
                                                              return InitialWeights(
                                                                  config, flags, replica.manifest(),
                                                                  place.layout());
                                                            }}));
  Log(LogLevel::kInfo, "training ", replica.parameter_count(), " parameters on ",
      prepared.data.Size(), ", backend ", prepared.ops->name, ", ", config.train.threads,
      " threads");
  Trainer trainer({.data = &prepared.data,
                   .replica = &replica,
                   .optimizer = prepared.optimizer.get(),
                   .run_dir = flags.run_dir,
                   .keeps_state = !flags.state_dir.empty(),
                   .member = std::move(parts)});
  return trainer.Run().status();
}

// The weights are written here at the end, so a folder that is not writable is an error now.
absl::Status PrepareRunDir(const std::string& run_dir) {
  if (run_dir.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  if (!error && access(run_dir.c_str(), W_OK) != 0) error.assign(errno, std::generic_category());
  if (!error) return absl::OkStatus();
  return InvalidArgument("--run-dir: got ", run_dir,
                         ", wanted a folder to write to: ", error.message());
}

// For --stay-when-done: waits for a signal.
void Stay(const std::stop_token& told_to_end) {
  if (told_to_end.stop_requested()) return;
  Log(LogLevel::kInfo, "stays until it is told to end");
  while (!told_to_end.stop_requested()) WaitFor(absl::Hours(1), told_to_end);
}

// Cancelled: a signal came before the end of the run.
absl::Status RunWorker(const Flags& flags, StopSignal* stop, const std::stop_token& told_to_end) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags, *stop));
  LONGWAVE_RETURN_IF_ERROR(PrepareRunDir(flags.run_dir));
  LONGWAVE_ASSIGN_OR_RETURN(const Device device, OpenDevice(config.train.device));
  if (!device.why_not_cuda.empty()) {
    Log(LogLevel::kInfo, "train.device auto: computing on the CPU: ", device.why_not_cuda);
  }
  Metrics metrics(MetricPart::kWorker, device.ops->on_device ? "cuda" : "cpu");
  ShowRun(config, &metrics);
  metrics.SetLabel("worker", flags.name);
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> metrics_server,
                            ServeMetrics(flags.metrics, config.metrics.listen, &metrics));
  LONGWAVE_ASSIGN_OR_RETURN(const Manifest manifest, GptManifest(config.model));
  const absl::Status fits = CheckFit(config, !flags.state_dir.empty(), manifest, *device.ops);
  if (!fits.ok() && ParameterCount(manifest) > kParametersLaidOutMax) return fits;
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<MemberPlace> place,
                            MemberPlace::Open({.config = config,
                                               .name = flags.name,
                                               .state_dir = flags.state_dir,
                                               .manifest = manifest,
                                               .metrics = &metrics},
                                              stop));
  absl::StatusOr<Prepared> prepared =
      fits.ok() ? Prepare(config, flags, place->layout(), device) : fits;
  if (!prepared.ok()) {
    place->FailToJoin(std::string(prepared.status().message()));
    return prepared.status();
  }
  const absl::StatusOr<uint32_t> worker = Join(config, flags, *prepared, *place);
  if (absl::IsCancelled(worker.status())) {
    return told_to_end.stop_requested() ? worker.status() : absl::OkStatus();
  }
  if (absl::IsFailedPrecondition(worker.status())) {
    const std::optional<RunPhase> end = place->EndOfRun();
    if (end == RunPhase::kFinished || (end.has_value() && flags.stay_when_done)) {
      Log(LogLevel::kInfo, worker.status().message());
      if (flags.stay_when_done) Stay(told_to_end);
      return absl::OkStatus();
    }
  }
  LONGWAVE_RETURN_IF_ERROR(worker.status());
  PrintLine(stdout, "ready ", *worker);
  SayMetrics(metrics_server.get());
  const absl::Status trained = Train(config, flags, *prepared, *place);
  const absl::Status ended = place->End(trained);
  const bool cut_short = absl::IsCancelled(trained) && told_to_end.stop_requested();
  if (ended.ok() && flags.stay_when_done) Stay(told_to_end);
  return cut_short ? trained : ended;
}

// For `longwave doctor`: shows that all libraries load, and prints the device that a worker would
// use, `device cuda` for example. `why not cuda` begins a line with a reason. Returns the exit
// status.
int CheckDevice(const std::string& asked) {
  const absl::StatusOr<Device> device = OpenDevice(asked);
  if (!device.ok()) return ExitStatus("error: longwave-worker", device.status());
  PrintLine(stdout, "device ", device->ops->on_device ? "cuda" : "cpu");
  if (!device->why_not_cuda.empty()) PrintLine(stdout, "why not cuda ", device->why_not_cuda);
  return 0;
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a reader of the first lines may close the pipe
  Flags flags;
  CLI::App app("Longwave's worker: trains one replica of the model", "longwave-worker");
  auto* const config = app.add_option("--config", flags.config_path,
                                      "Configuration of the run, the same for every process");
  app.add_option("--set", flags.overrides, "key=value, over the configuration")
      ->allow_extra_args(false);
  auto* const name =
      app.add_option("--name", flags.name, "Name of this worker, which no other live worker has");
  auto* const coordinator =
      app.add_option("--coordinator", flags.coordinator,
                     "host:port of the coordinator, instead of cluster.coordinator; without "
                     "--config the coordinator gives the run's configuration");
  app.add_option("--run-dir", flags.run_dir, "Folder that model.safetensors is written to [.]");
  app.add_option("--state-dir", flags.state_dir,
                 "Folder of this worker's identity and checkpoints, with which it comes back");
  app.add_option("--start-from", flags.start_from,
                 "Begin with the weights of this safetensors file or folder of transformers, "
                 "instead of those of run.seed: see run.start");
  auto* const write_initial = app.add_option(
      "--write-initial", flags.write_initial,
      "Only write the weights that the run begins with, as safetensors, to this file");
  auto* const check_device =
      app.add_option(
             "--check-device", flags.check_device,
             "Only say where the worker would compute with this train.device: auto, cpu or cuda")
          ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  auto* const generate = app.add_option("--generate", flags.text.folder,
                                        "Only write text with the weights in this folder");
  app.add_option("--prompt", flags.text.prompt, "Text to begin with")->needs(generate);
  app.add_option("--length", flags.text.length, "Bytes or tokens of it")->needs(generate);
  app.add_option("--tokenizer", flags.text.tokenizer, "tokenizer.json, for a model of tokens")
      ->needs(generate);
  app.add_option("--temperature", flags.text.sampling.temperature)->needs(generate);
  app.add_option("--top-k", flags.text.sampling.top_k)->needs(generate);
  app.add_option("--seed", flags.text.sampling.seed)->needs(generate);
  app.add_flag("--stay-when-done", flags.stay_when_done,
               "Stay when the run is over, until told to end");
  app.add_flag(
      "--fail-when-told-to-end", flags.fail_when_told_to_end,
      "Exit with status 143 instead of 0 if a signal ends the worker before the run is over, "
      "so that a Kubernetes Job, for instance, starts another");
  app.add_option("--metrics", flags.metrics,
                 "host:port of its metrics for Prometheus, instead of metrics.listen; \"\": none");
  app.add_option("--threads", flags.threads, "Instead of train.threads");
  app.add_option("--device", flags.device, "Instead of train.device")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.callback([&] {
    const bool checks = check_device->count() > 0 || generate->count() > 0;
    const bool may_ask = coordinator->count() > 0 && write_initial->count() == 0;
    if (!checks && config->count() == 0 && !may_ask) throw CLI::RequiredError("--config");
    if (!checks && name->count() == 0 && write_initial->count() == 0)
      throw CLI::RequiredError("--name");
  });
  if (const auto status = ParseCommandLine(&app, argc, argv, "error: longwave-worker: "))
    return *status;
  if (!flags.check_device.empty()) return CheckDevice(flags.check_device);
  if (!flags.write_initial.empty() || generate->count() > 0) {
    return ExitStatus("error: longwave-worker",
                      generate->count() > 0 ? WriteText(flags.text) : WriteInitial(flags));
  }
  SetLogProcess(flags.name);
  StopSignal stop;
  std::stop_source told_to_end;  // set by a signal only; the run's end sets `stop`, too
  const int told_to_end_status = flags.fail_when_told_to_end ? 128 + SIGTERM : 0;
  const Termination termination(
      {.grace = kWritingGrace,
       .on_signal =
           [&stop, &told_to_end] {
             Log(LogLevel::kInfo, "stopping: a signal asked for it");
             stop.Request();
             told_to_end.request_stop();
           },
       .on_overdue = [] { Log(LogLevel::kWarning, "still busy: leaving without tidying up"); },
       .overdue_status = told_to_end_status});
  const absl::Status status = RunWorker(flags, &stop, told_to_end.get_token());
  if (status.ok()) return 0;
  if (absl::IsCancelled(status)) return told_to_end_status;
  const std::string message(status.message());
  const std::string prefix = absl::StrCat(flags.name, ": ");
  // The coordinator's sentences already name the worker.
  const bool named = absl::StartsWith(message, prefix) || absl::IsAborted(status);
  PrintLine(stderr, "error: ", named ? "" : prefix, message);
  return 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  longwave::KeepFreedMemory();
  longwave::RaiseFileLimit();
  return longwave::Main(argc, argv);
}

// longwave-server: the coordinator of a run, or one of its shards (aggregation servers).
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

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
#include "common/command_line/command_line.h"
#include "common/config/config.h"
#include "common/config/run_metrics.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/metrics/metrics_server.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"

namespace longwave {
namespace {

// Time within which a server ends after a signal, tidied up or not.
constexpr absl::Duration kTerminationGrace = absl::Seconds(2);

struct Flags {
  std::string role;
  uint32_t shard = 0;
  bool has_shard = false;
  std::string config_path;
  Overrides overrides;
  std::string coordinator;
  std::string listen;
  std::string advertise;
  std::string control_listen;
  std::string control_advertise;
  std::string health;
  std::optional<std::string> metrics;  // absent: metrics.listen
  bool stay_when_done = false;
  std::string run_dir;
  std::string state_dir;
  bool exit_when_done = false;
  bool continues_failed = false;
  bool takes_as_newest = false;
};

// The process that started this one waits for this line.
void SayReady(const std::string& address) { PrintLine(stdout, "ready ", address); }

void SayHealth(const std::string& address) {
  if (!address.empty()) Log(LogLevel::kInfo, "health ", address);
}

// An option of the other role is a mistake. The descriptions begin with the role where there is
// one.
absl::Status CheckRole(const CLI::App& app, const std::string& role) {
  const std::string other = role == "shard" ? "coordinator" : "shard";
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && absl::StartsWith(option->get_description(), other + ": "))
      return InvalidArgument(option->get_name(), " is an option of --role=", other, " alone");
  }
  return absl::OkStatus();
}

absl::Status RunCoordinator(const Flags& flags, const RunConfig& config, std::stop_token stop) {
  SetLogProcess("coordinator");
  if (const std::string few = FewRoundsSentence(config); !few.empty())
    Log(LogLevel::kWarning, "rounds: ", few);
  Metrics metrics(MetricPart::kCoordinator);
  ShowRun(config, &metrics);
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> metrics_server,
                            ServeMetrics(flags.metrics, config.metrics.listen, &metrics));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<CoordinatorService> service,
      CoordinatorService::Start(
          {.config = config,
           .address = flags.listen.empty() ? config.cluster.coordinator : flags.listen,
           .run_dir = flags.run_dir,
           .state_dir = flags.state_dir,
           .health_address = flags.health,
           .metrics = &metrics,
           .exit_when_done = flags.exit_when_done,
           .continues_failed = flags.continues_failed,
           .takes_as_newest = flags.takes_as_newest}));
  SayHealth(service->health_address());
  SayReady(service->address());
  SayMetrics(metrics_server.get());
  return service->Run(std::move(stop));
}

absl::Status RunShard(const Flags& flags, const RunConfig& config, std::stop_token stop) {
  if (!flags.has_shard) return InvalidArgument("a shard needs its index: --shard N");
  if (flags.shard >= config.run.shards) {
    return InvalidArgument("--shard ", flags.shard, ": the run has ", config.run.shards,
                           " shards, numbered from 0");
  }
  SetLogProcess(absl::StrCat("shard-", flags.shard));
  Metrics metrics(MetricPart::kShard);
  ShowRun(config, &metrics);
  LONGWAVE_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> metrics_server,
                            ServeMetrics(flags.metrics, config.metrics.listen, &metrics));
  const std::string& host = config.cluster.shard_host;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardService> service,
      ShardService::Start(
          {.config = config,
           .shard = flags.shard,
           .coordinator =
               flags.coordinator.empty() ? config.cluster.coordinator : flags.coordinator,
           .data_endpoint =
               flags.listen.empty() ? absl::StrCat("tcp://", host, ":0") : flags.listen,
           .control_address =
               flags.control_listen.empty() ? absl::StrCat(host, ":0") : flags.control_listen,
           .advertised_data = flags.advertise,
           .advertised_control = flags.control_advertise,
           .health_address = flags.health,
           .stay_when_done = flags.stay_when_done,
           .state_dir = flags.state_dir,
           .metrics = &metrics}));
  SayHealth(service->health_address());
  return service->Run(std::move(stop), [&] {
    SayReady(service->data_endpoint());
    SayMetrics(metrics_server.get());
  });
}

absl::Status Run(const Flags& flags, std::stop_token stop) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(flags.config_path, flags.overrides));
  return flags.role == "shard" ? RunShard(flags, config, std::move(stop))
                               : RunCoordinator(flags, config, std::move(stop));
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a reader of the first lines may close the pipe
  signal(SIGXFSZ, SIG_IGN);  // a file size limit becomes an error of the write, like a full disk
  Flags flags;
  CLI::App app("A run's coordinator, or one of its shards (aggregation servers).",
               "longwave-server");
  app.add_option("--role", flags.role, "coordinator or shard")
      ->required()
      ->check(CLI::IsMember({"coordinator", "shard"}));
  app.add_option("--config", flags.config_path, "the run's configuration, the same for all")
      ->required();
  app.add_option("--set", flags.overrides, "key=value, over the configuration; may be repeated")
      ->allow_extra_args(false);
  app.add_option(
      "--listen", flags.listen,
      "where to listen, instead of cluster.coordinator (coordinator: host:port) or any free "
      "port of cluster.shard_host (shard: tcp://host:port)");
  app.add_option("--advertise", flags.advertise,
                 "shard: where workers reach its data port, host:port, if not where it listens; or "
                 "those of all shards, separated by commas");
  app.add_option("--control-listen", flags.control_listen,
                 "shard: host:port of its gRPC service, instead of any free port of "
                 "cluster.shard_host");
  app.add_option("--control-advertise", flags.control_advertise,
                 "shard: where that service is reached, host:port, if not where it listens");
  app.add_option(
      "--health", flags.health,
      "host:port of a gRPC health service for probes, without TLS: service \"\" is alive, "
      "service \"ready\" does its work");
  app.add_option("--metrics", flags.metrics,
                 "host:port of its metrics for Prometheus, instead of metrics.listen; \"\": none");
  app.add_option("--run-dir", flags.run_dir, "coordinator: the folder that gets metrics.jsonl");
  app.add_option("--state-dir", flags.state_dir,
                 "Folder of this process's state, which a process that is started again with it "
                 "resumes; without one nothing is kept");
  app.add_flag("--exit-when-done", flags.exit_when_done,
               "coordinator: end with the run, with status 1 if it failed");
  app.add_flag("--continue-failed", flags.continues_failed,
               "coordinator: go on with the run in --state-dir if it has failed");
  app.add_flag("--take-as-newest", flags.takes_as_newest,
               "coordinator: go on from the record in --state-dir although the run was further");
  app.add_flag("--stay-when-done", flags.stay_when_done,
               "shard: stay when the run is over, until told to end");
  const CLI::Option* const shard =
      app.add_option("--shard", flags.shard, "shard: its index, from 0");
  app.add_option("--coordinator", flags.coordinator,
                 "shard: host:port, instead of cluster.coordinator");
  if (const auto status = ParseCommandLine(&app, argc, argv, "error: ")) return *status;
  flags.has_shard = shard->count() > 0;
  if (const absl::Status status = CheckRole(app, flags.role); !status.ok())
    return ExitStatus("error", status);

  std::stop_source stop;
  const Termination termination(
      {.grace = kTerminationGrace,
       .on_signal = [&stop] { stop.request_stop(); },
       .on_overdue = [] { Log(LogLevel::kWarning, "still busy: leaving without tidying up"); }});
  return ExitStatus("error", Run(flags, stop.get_token()));
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  longwave::KeepFreedMemory();
  longwave::RaiseFileLimit();
  return longwave::Main(argc, argv);
}

// longwave-server: the coordinator of a run, or one of its shards (aggregation servers).
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/log/log.h"
#include "server/service/coordinator_service.h"
#include "server/service/shard_service.h"
#include "server/service/stop_signals.h"

namespace longwave {
namespace {

struct Flags {
  std::string role;
  uint32_t shard = 0;
  bool has_shard = false;
  std::string config_path;
  Overrides overrides;
  std::string coordinator;
  std::string listen;
  std::string run_dir;
  bool exit_when_done = false;
};

// The line that whoever started this process waits for.
void SayReady(const std::string& address) { std::cout << "ready " << address << std::endl; }

absl::Status RunCoordinator(const Flags& flags, const RunConfig& config,
                            const StopSignals& signals) {
  SetLogProcess("coordinator");
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<CoordinatorService> service,
      CoordinatorService::Start(
          {.config = config,
           .address = flags.listen.empty() ? config.cluster.coordinator : flags.listen,
           .run_dir = flags.run_dir,
           .exit_when_done = flags.exit_when_done}));
  SayReady(service->address());
  return service->Run(signals.token());
}

absl::Status RunShard(const Flags& flags, const RunConfig& config, const StopSignals& signals) {
  if (!flags.has_shard) return absl::InvalidArgumentError("a shard needs its index: --shard N");
  if (flags.shard >= config.run.shards) {
    return absl::InvalidArgumentError(absl::StrCat("--shard ", flags.shard, ": the run has ",
                                                   config.run.shards, " shards, numbered from 0"));
  }
  SetLogProcess(absl::StrCat("shard-", flags.shard));
  const std::string& host = config.cluster.shard_host;
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardService> service,
      ShardService::Start({.config = config,
                           .shard = flags.shard,
                           .coordinator = flags.coordinator.empty() ? config.cluster.coordinator
                                                                    : flags.coordinator,
                           .data_endpoint = flags.listen.empty()
                                                ? absl::StrCat("tcp://", host, ":0")
                                                : flags.listen,
                           .control_address = absl::StrCat(host, ":0")}));
  return service->Run(signals.token(), [&] { SayReady(service->data_endpoint()); });
}

absl::Status Run(const Flags& flags, const StopSignals& signals) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(flags.config_path, flags.overrides));
  return flags.role == "shard" ? RunShard(flags, config, signals)
                               : RunCoordinator(flags, config, signals);
}

int Main(int argc, char** argv) {
  const StopSignals signals;  // before there are other threads
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
  app.add_option("--run-dir", flags.run_dir, "coordinator: the folder that gets metrics.jsonl");
  app.add_flag("--exit-when-done", flags.exit_when_done,
               "coordinator: end with the run, with status 1 if it failed");
  const CLI::Option* const shard =
      app.add_option("--shard", flags.shard, "the shard's index, from 0");
  app.add_option("--coordinator", flags.coordinator,
                 "shard: host:port, instead of cluster.coordinator");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
  flags.has_shard = shard->count() > 0;

  const absl::Status status = Run(flags, signals);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.message() << std::endl;
  return 1;
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) { return longwave::Main(argc, argv); }

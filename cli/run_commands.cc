#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/logs.h"
#include "cli/status.h"
#include "cli/top.h"
#include "cli/weights.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/key_types.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

// The coordinator ends the run where it is, and the designated worker writes the weights.
absl::Status Stop(const std::string& address, const std::string& security) {
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(address, kCommandDeadline, security);
  LONGWAVE_ASSIGN_OR_RETURN(const RunStatus run,
                            client->GetStatus(std::numeric_limits<uint64_t>::max()));
  if (IsOver(run.phase)) {
    return FailedPrecondition("the run is over already (", Name(run.phase), ")");
  }
  LONGWAVE_RETURN_IF_ERROR(client->StopRun("stopped by an operator"));
  PrintLine(stdout,
            "stopped; the worker that validates writes the weights of now into its run folder");
  return absl::OkStatus();
}

}  // namespace

void AddRunCommands(CLI::App* app, Commands* commands) {
  struct Options {
    StatusOptions status;  // all commands but logs use its address and credentials
    TopOptions top;
    LogsOptions logs;
    WeightsOptions weights;
  };
  const auto options = std::make_shared<Options>();
  // A command that takes a coordinator's address; run() is what it does with a good one.
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    CLI::App* const command = app->add_subcommand(name, what);
    command->add_option("address", options->status.address, "host:port of the coordinator")
        ->required();
    command->add_option("--security", options->status.security,
                        "Folder of credentials, where the run is secured");
    commands->emplace_back(command, [options, name, run = std::move(run)] {
      const std::string& address = options->status.address;
      if (IsHostPort(address)) return run();
      PrintLine(stderr,
                absl::StrCat("longwave ", name, ": got ", Quotable(address), ", wanted host:port"));
      return 1;
    });
    return command;
  };
  add("status", "Show what a coordinator knows.", [options] {
    return RunStatusCommand(options->status);
  })->add_flag("--json", options->status.json, "For programs (docs/running.md has the fields)");
  add("top", "Watch a run, wherever its coordinator is.", [options] {
    return RunTop({options->status.address, options->status.security, options->top.plain});
  })->add_flag("--plain", options->top.plain, "A line a round, also in a terminal");
  add("stop", "End a run where it is; its weights are written (an operator's).", [options] {
    return ExitStatus("longwave stop: failed",
                      Stop(options->status.address, options->status.security));
  });
  add("weights", "Write the weights that a run has now (an operator's, where it is secured).",
      [options] {
        return RunWeights(
            {options->status.address, options->status.security, options->weights.out});
      })
      ->add_option("--out", options->weights.out, "Safetensors file that gets them")
      ->capture_default_str();

  CLI::App* const logs = app->add_subcommand("logs", "Print the logs of a run of `up` by time.");
  logs->add_option("run", options->logs.run, "The run's folder, or its name in --runs-dir")
      ->required();
  logs->add_option("process", options->logs.processes,
                   "coordinator, shard-0, worker-2, …; none: all");
  logs->add_option("--runs-dir", options->logs.runs_dir, "Folder of the runs' folders")
      ->capture_default_str();
  logs->add_flag("--follow", options->logs.follow, "Go on with what is logged, until Ctrl-C");
  commands->emplace_back(logs, [options] { return RunLogs(options->logs); });
}

}  // namespace longwave

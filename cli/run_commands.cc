#include "cli/run_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
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

RunCommands::RunCommands(CLI::App* app) {
  const auto add = [&](const char* name, const char* what) {
    CLI::App* const command = app->add_subcommand(name, what);
    command->add_option("address", status_.address, "host:port of the coordinator")->required();
    command->add_option("--security", status_.security,
                        "Folder of credentials, where the run is secured");
    return command;
  };
  CLI::App* const status = add("status", "Show what a coordinator knows.");
  status->add_flag("--json", status_.json, "For programs (docs/running.md has the fields)");
  status_command_ = status;
  CLI::App* const top = add("top", "Watch a run, wherever its coordinator is.");
  top->add_flag("--plain", top_.plain, "A line a round, also in a terminal");
  top_command_ = top;
  stop_command_ = add("stop", "End a run where it is; its weights are written (an operator's).");
  CLI::App* const weights =
      add("weights", "Write the weights that a run has now (an operator's, where it is secured).");
  weights->add_option("--out", weights_.out, "Safetensors file that gets them")
      ->capture_default_str();
  weights_command_ = weights;

  CLI::App* const logs = app->add_subcommand("logs", "Print the logs of a run of `up` by time.");
  logs->add_option("run", logs_.run, "The run's folder, or its name in --runs-dir")->required();
  logs->add_option("process", logs_.processes, "coordinator, shard-0, worker-2, …; none: all");
  logs->add_option("--runs-dir", logs_.runs_dir, "Folder of the runs' folders")
      ->capture_default_str();
  logs->add_flag("--follow", logs_.follow, "Go on with what is logged, until Ctrl-C");
  logs_command_ = logs;
}

std::optional<int> RunCommands::Run() const {
  for (const CLI::App* command : {status_command_, top_command_, stop_command_, weights_command_}) {
    if (!command->parsed() || IsHostPort(status_.address)) continue;
    PrintLine(stderr, absl::StrCat("longwave ", command->get_name(), ": got ",
                                   Quotable(status_.address), ", wanted host:port"));
    return 1;
  }
  if (status_command_->parsed()) return RunStatusCommand(status_);
  if (top_command_->parsed()) return RunTop({status_.address, status_.security, top_.plain});
  if (stop_command_->parsed())
    return ExitStatus("longwave stop: failed", Stop(status_.address, status_.security));
  if (weights_command_->parsed())
    return RunWeights({status_.address, status_.security, weights_.out});
  if (logs_command_->parsed()) return RunLogs(logs_);
  return std::nullopt;
}

}  // namespace longwave

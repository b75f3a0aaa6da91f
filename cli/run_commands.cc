#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/live_page.h"
#include "cli/logs.h"
#include "cli/run_folder.h"
#include "cli/runs.h"
#include "cli/status.h"
#include "cli/weights.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/command_line/command_line.h"
#include "common/rpc/coordinator_client.h"

namespace longwave {
namespace {

// The coordinator ends the run where it is, and the designated worker writes the weights.
absl::Status Stop(const Target& target) {
  const std::unique_ptr<CoordinatorClient> client =
      CoordinatorClient::Connect(target.address, kCommandDeadline, target.security);
  LONGWAVE_ASSIGN_OR_RETURN(const RunStatus run, client->GetStatus());
  if (IsOver(run.phase)) {
    return FailedPrecondition("the run is over already (", Name(run.phase), ")");
  }
  LONGWAVE_RETURN_IF_ERROR(client->StopRun("stopped by an operator"));
  PrintLine(stdout, "stopped",
            run.phase == RunPhase::kTraining
                ? "; the worker that validates writes the present weights into its run folder"
                : " before the run had begun");
  return absl::OkStatus();
}

absl::Status AddNote(const Target& target, const std::string& note) {
  return CoordinatorClient::Connect(target.address, kCommandDeadline, target.security)
      ->AddNote(note);
}

}  // namespace

void AddRunCommands(CLI::App* app, Commands* commands) {
  struct Options {
    Target target;
    bool json = false;
    bool plain = false;
    WebOptions web;
    std::string file = "model.safetensors";
    std::string note;
    LogsOptions logs;
    std::string runs_dir = "runs";
    std::string run;
  };
  const auto options = std::make_shared<Options>();
  const auto add_runs_dir = [&](CLI::App* command) {
    command->add_option("--runs-dir", options->runs_dir, "Folder of the runs' folders")
        ->capture_default_str()
        ->check(NotEmpty());
  };
  // A command about a coordinator; run() is what it does with a known one.
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    CLI::App* const command = app->add_subcommand(name, what);
    command
        ->add_option("address", options->target.address,
                     "host:port of the coordinator; for a run of `up` on this machine also its "
                     "folder, or its name in --runs-dir")
        ->required();
    add_runs_dir(command);
    command->add_option("--security", options->target.security,
                        "Folder of credentials, where the run is secured");
    commands->emplace_back(command, [options, name, run = std::move(run)] {
      absl::StatusOr<Target> target = FindTarget(options->target, options->runs_dir);
      if (!target.ok()) return ExitStatus(absl::StrCat("longwave ", name).c_str(), target.status());
      options->target = *std::move(target);
      return run();
    });
    return command;
  };
  add("status", "Show what a coordinator knows.",
      [options] { return RunStatusCommand(options->target, options->json); })
      ->add_flag("--json", options->json,
                 "Print JSON for programs (docs/reference/commands.md has the fields)");
  CLI::App* const top = add("top", "Watch a run, wherever its coordinator is.", [options] {
    return RunTop(options->target, options->web, options->plain);
  });
  top->add_flag("--plain", options->plain, "Print a line for each round, also in a terminal");
  AddWebOptions(top, &options->web);
  add("stop", "End a run for good; its weights are written (as an operator).",
      [options] { return ExitStatus("longwave stop: failed", Stop(options->target)); });
  add("note", "Write a note into the coordinator's log (as an operator).",
      [options] {
        return ExitStatus("longwave note: failed", AddNote(options->target, options->note));
      })
      ->add_option("note", options->note, "A sentence")
      ->required();
  add("weights", "Write the present weights of a run (as an operator, if it is secured).",
      [options] {
        return ExitStatus("longwave weights: failed", WriteWeights(options->target, options->file));
      })
      ->add_option("--out", options->file, "Safetensors file that gets them")
      ->capture_default_str()
      ->check(NotEmpty());

  CLI::App* const logs = app->add_subcommand("logs", "Print the logs of a run of `up` by time.");
  logs->add_option("run", options->logs.run, "The run's folder, or its name in --runs-dir")
      ->required()
      ->check(NotEmpty());
  logs->add_option("process", options->logs.processes,
                   "coordinator, shard-0, worker-2, …; none: all");
  add_runs_dir(logs);
  logs->add_flag("--follow", options->logs.follow, "Continue with new lines, until Ctrl-C");
  commands->emplace_back(logs, [options] {
    options->logs.runs_dir = options->runs_dir;
    return ExitStatus("longwave logs", PrintLogs(options->logs));
  });

  CLI::App* const runs = app->add_subcommand("runs", "List the runs of `up` on this machine.");
  add_runs_dir(runs);
  commands->emplace_back(runs, [options] {
    const auto lines = RunLines(options->runs_dir);
    for (const std::string& line : lines.value_or(std::vector<std::string>()))
      PrintLine(stdout, line);
    return ExitStatus("longwave runs", lines.status());
  });

  CLI::App* const metrics =
      app->add_subcommand("metrics", "Print the records of a run's rounds as CSV.");
  metrics->add_option("run", options->run, "The run's folder, or its name in --runs-dir")
      ->required()
      ->check(NotEmpty());
  add_runs_dir(metrics);
  commands->emplace_back(metrics, [options] {
    return ExitStatus("longwave metrics",
                      PrintMetrics(FindRunFolder(options->run, options->runs_dir)));
  });
}

}  // namespace longwave

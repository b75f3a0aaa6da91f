#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/generate.h"
#include "cli/live_page.h"
#include "cli/plan/command.h"
#include "cli/replay/replay.h"
#include "cli/report/report.h"
#include "cli/run_folder.h"
#include "cli/up.h"
#include "common/base/descriptor.h"
#include "common/base/memory.h"
#include "common/base/print.h"
#include "common/command_line/command_line.h"
#include "common/config/config_keys.h"
#include "common/log/log.h"

int main(int argc, char** argv) {
  longwave::OpenStandardStreams();
  // A parent may have it ignored, and the ends of processes could not be waited for.
  std::signal(SIGCHLD, SIG_DFL);
  longwave::KeepFreedMemory();
  // A command ends with its own error sentence, which gRPC's lines would only repeat.
  longwave::SetLogLevel(longwave::LogLevel::kError);
  CLI::App app("Longwave trains one model on machines that are far apart.", "longwave");
  app.require_subcommand(1);

  longwave::UpOptions up;
  CLI::App* up_command = app.add_subcommand(
      "up", "Run a whole cluster on this machine: coordinator, shards and workers.");
  up_command->add_option("config", up.config_file, "Configuration file, as in configs/");
  up_command->add_option("--set", up.overrides, "A setting, key=value; may be repeated")
      ->allow_extra_args(false);
  std::string data;
  const CLI::Option* data_option =
      up_command->add_option("--data", data, "Data to train on: a file, a folder or a pattern");
  std::string worker_command;
  const CLI::Option* worker_command_option =
      up_command->add_option("--worker-command", worker_command,
                             "Command of a worker with a model and data of its own: 'python "
                             "train.py' (docs/how-to/python.md)");
  up_command
      ->add_option("--start-from", up.start_from,
                   "Begin with the weights of a safetensors file or a folder of transformers")
      ->check(longwave::NotEmpty());
  up_command->add_option("--name", up.name, "Name of the run and its folder");
  up_command->add_option("--runs-dir", up.runs_dir, "Folder of the runs' folders")
      ->capture_default_str()
      ->check(longwave::NotEmpty());
  up_command->add_flag("--plain", up.plain, "Print a line for each round, also in a terminal");
  longwave::AddWebOptions(up_command, &up.web);
  up_command->add_flag("--no-state", up.no_state,
                       "Keep no state on the disk: a process that is killed ends the run");
  up_command
      ->add_option(
          "--resume", up.resume,
          "Continue a run that was parked or has failed: its folder, or its name in --runs-dir")
      ->excludes("config", "--name", "--no-state", "--start-from")
      ->check(longwave::NotEmpty());

  longwave::Commands commands;
  commands.emplace_back(up_command, [&] {
    // An empty path that was given is an error.
    if (data_option->count() > 0) up.data = data;
    if (worker_command_option->count() > 0) up.worker_command = worker_command;
    return longwave::RunUp(up);
  });
  longwave::AddRunCommands(&app, &commands);
  longwave::AddConfigCommands(&app, &commands);
  longwave::AddSecurityCommands(&app, &commands);
  longwave::AddJoinCommands(&app, &commands);
  longwave::AddPlanCommand(&app, &commands);

  longwave::GenerateOptions generate;
  CLI::App* generate_command = app.add_subcommand(
      "generate", "Write text with a run's model: its weights, or those of its last round so far.");
  std::string runs_dir = "runs";
  const auto add_run = [&](CLI::App* command, auto* run) {
    command->add_option("run", *run, "The run's folder, or its name in --runs-dir")
        ->required()
        ->check(longwave::NotEmpty());
    command->add_option("--runs-dir", runs_dir, "Folder of the runs' folders")
        ->capture_default_str()
        ->check(longwave::NotEmpty());
  };
  add_run(generate_command, &generate.folder);
  generate_command->add_option("--prompt", generate.prompt,
                               "Text to begin with [the end of a line]");
  generate_command->add_option("--length", generate.length, "Bytes or tokens to write")
      ->capture_default_str();
  generate_command->add_option("--tokenizer", generate.tokenizer,
                               "tokenizer.json of a model of tokens [the file beside its data]");
  generate_command
      ->add_option("--temperature", generate.temperature,
                   "Below 1: likelier bytes more often; 0: the likeliest one each time")
      ->capture_default_str();
  generate_command
      ->add_option("--top-k", generate.top_k,
                   "How many of the likeliest bytes to draw from; 0: all 256")
      ->capture_default_str();
  generate_command->add_option("--seed", generate.seed, "One seed, one text")
      ->capture_default_str();
  commands.emplace_back(generate_command, [&] {
    generate.folder = longwave::FindRunFolder(generate.folder, runs_dir);
    return longwave::RunGenerate(generate);
  });

  longwave::ReplayOptions replay;
  CLI::App* replay_command = app.add_subcommand(
      "replay", "Audit what a run's shards have kept, and make its model again from it.");
  add_run(replay_command, &replay.run_folder);
  replay_command->add_option("--config", replay.config,
                             "The run's configuration [config.yaml of its folder]");
  replay_command->add_option("--initial", replay.initial,
                             "The weights before round 0, as safetensors, instead of having "
                             "longwave-worker make them");
  replay_command->add_option("--weights", replay.weights, "Safetensors file to write the model to");
  commands.emplace_back(replay_command, [&] {
    replay.run_folder = longwave::FindRunFolder(replay.run_folder, runs_dir);
    return longwave::ExitStatus("longwave replay: failed", longwave::Replay(replay));
  });

  std::vector<std::string> reported;
  std::string report_file;
  CLI::App* report_command = app.add_subcommand(
      "report", "Write a page about runs of `up`, alive or over: one HTML file.");
  add_run(report_command, &reported);
  report_command
      ->add_option("--out", report_file, "The file [report.html in the first run's folder]")
      ->check(longwave::NotEmpty());
  commands.emplace_back(report_command, [&] {
    for (std::string& run : reported) run = longwave::FindRunFolder(run, runs_dir);
    if (report_file.empty()) report_file = reported.front() + longwave::kReportFile;
    const absl::Status written = longwave::WriteReport(reported, report_file);
    if (written.ok()) longwave::PrintLine(stdout, report_file);
    return longwave::ExitStatus("longwave report: failed", written);
  });

  CLI::App* completion_command = app.add_subcommand(
      "completion", "Print a script that completes longwave's commands in a shell.");
  std::string shell;
  completion_command->add_option("shell", shell, "bash")
      ->required()
      ->check(CLI::IsMember({"bash"}));
  commands.emplace_back(completion_command, [&] {
    std::vector<std::string> keys;
    for (const longwave::ConfigKey& key : longwave::ConfigKeys()) keys.push_back(key.name);
    std::fputs(longwave::BashCompletion(app, keys).c_str(), stdout);
    return 0;
  });

  if (const auto status = longwave::ParseCommandLine(&app, argc, argv, "longwave: "))
    return *status;
  const auto& [command, run] =
      *std::ranges::find_if(commands, [](const auto& each) { return each.first->parsed(); });
  const int status = run();
  // The result of `up` is its run, whoever reads of it.
  return command == up_command ? status : longwave::CheckOutput("longwave", status);
}

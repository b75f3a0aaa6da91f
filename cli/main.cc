#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "cli/status.h"
#include "cli/up.h"

int main(int argc, char** argv) {
  CLI::App app("Longwave trains one model on machines that are far apart.", "longwave");
  app.require_subcommand(1);

  longwave::UpOptions up;
  CLI::App* up_command = app.add_subcommand(
      "up", "Run a whole cluster on this machine: coordinator, shards and workers.");
  up_command->add_option("config", up.config_file, "Configuration file, as in configs/")
      ->required();
  up_command->add_option("--set", up.overrides, "A setting, key=value; may be given again")
      ->allow_extra_args(false);
  up_command->add_option("--data", up.data, "Text to train on: a file or a folder");
  up_command->add_option("--name", up.name, "Name of the run and its folder");
  up_command->add_option("--runs-dir", up.runs_dir, "Folder of the runs' folders")
      ->capture_default_str();
  up_command->add_flag("--plain", up.plain, "A line a round, also in a terminal");

  std::string address;
  CLI::App* status_command = app.add_subcommand("status", "Show what a coordinator knows.");
  status_command->add_option("address", address, "host:port of the coordinator")->required();

  CLI11_PARSE(app, argc, argv);
  if (up_command->parsed()) return longwave::RunUp(up);
  return longwave::RunStatusCommand(address);
}

#include "cli/config_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/config_schema.h"
#include "cli/preflight.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"

namespace longwave {
namespace {

absl::StatusOr<RunConfig> Load(const std::string& file, const Overrides& overrides) {
  return file.empty() ? ParseConfig("{}", "the command line", overrides)
                      : LoadConfig(file, overrides);
}

absl::Status Check(const std::string& file, const Overrides& overrides) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, Load(file, overrides));
  // For a model of the workers' own the configuration has neither shape nor data.
  if (config.model.kind != "external") LONGWAVE_RETURN_IF_ERROR(CheckRun(config));
  PrintLine(stdout, absl::StrCat("good: preset ", config.run.preset, ", ", config.run.steps,
                                 " steps in ", RoundCount(config), " rounds"));
  const std::string few = FewRoundsSentence(config);
  if (!few.empty()) PrintLine(stdout, few);
  return absl::OkStatus();
}

absl::Status Print(const std::string& file, const Overrides& overrides) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, Load(file, overrides));
  std::fputs(FormatConfig(config).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

ConfigCommands::ConfigCommands(CLI::App* app) {
  CLI::App* const config = app->add_subcommand("config", "Look at a run's configuration.");
  config->require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    CLI::App* const command = config->add_subcommand(name, what);
    command->add_option("config", file_, "Configuration file, as in configs/; none: the defaults");
    command->add_option("--set", overrides_, "A setting, key=value; may be given again")
        ->allow_extra_args(false);
    return command;
  };
  check_ = add("check", "Say what `up` would refuse: keys, values, data, model.");
  print_ = add("print", "Print every key with its value: defaults, preset, file and --set.");
  schema_ = config->add_subcommand("schema", "Print a JSON Schema of all keys, for editors.");
}

std::optional<int> ConfigCommands::Run() const {
  if (schema_->parsed()) return std::fputs(ConfigSchema().c_str(), stdout) < 0 ? 1 : 0;
  if (!check_->parsed() && !print_->parsed()) return std::nullopt;
  return check_->parsed() ? ExitStatus("longwave config check", Check(file_, overrides_))
                          : ExitStatus("longwave config print", Print(file_, overrides_));
}

}  // namespace longwave

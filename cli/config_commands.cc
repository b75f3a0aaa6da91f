#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/up.h"
#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "worker/data/corpus.h"

namespace longwave {
namespace {

absl::StatusOr<RunConfig> Load(const std::string& file, const Overrides& overrides) {
  return file.empty() ? ParseConfig("{}", "the command line", overrides)
                      : LoadConfig(file, overrides);
}

// elsewhere: the run's workers are on other machines, which have its data.
absl::Status Check(const std::string& file, const Overrides& overrides, bool elsewhere) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, Load(file, overrides));
  DataReport data;
  // For a model of the workers' own the configuration has neither shape nor data.
  if (config.model.kind != "external") {
    const absl::Status status = elsewhere ? CheckModel(config) : CheckRun(config, &data);
    if (absl::IsNotFound(status)) {
      return NotFound(status.message(),
                      "; --elsewhere checks a configuration without its data, for other machines");
    }
    LONGWAVE_RETURN_IF_ERROR(status);
  }
  PrintLine(stdout, "good: preset ", config.run.preset, ", ", config.run.steps, " steps in ",
            FitsInterval(config) ? "at most " : "", RoundCount(config), " rounds",
            elsewhere ? absl::StrCat("; not looked at: the data, ", config.data.path) : "");
  const std::string few = FewRoundsSentence(config);
  if (!few.empty()) PrintLine(stdout, few);
  return absl::OkStatus();
}

// Shows what a run reads of a path, without one.
absl::Status ShowData(const std::string& path, const std::string& file, Overrides overrides) {
  // Without a configuration, any token is one; the largest is shown.
  if (file.empty()) overrides.insert(overrides.begin(), "model.vocabulary=1000000");
  if (!path.empty()) overrides.push_back(absl::StrCat("data.path=", path));
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, Load(file, overrides));
  LONGWAVE_ASSIGN_OR_RETURN(const Corpus corpus, Corpus::Load(config.data, config.model));
  for (const std::string& line : corpus.report().lines) PrintLine(stdout, line);
  return absl::OkStatus();
}

absl::Status Print(const std::string& file, const Overrides& overrides) {
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig config, Load(file, overrides));
  std::fputs(FormatConfig(config).c_str(), stdout);
  return absl::OkStatus();
}

using Json = nlohmann::ordered_json;

Json ReferenceTo(const std::string& name) {
  return {{"$ref", absl::StrCat("#/definitions/", name)}};
}

Json SchemaOf(const ConfigKey& key) {
  Json schema = Json::parse(key.schema);
  schema["default"] = key.is_text || schema.contains("enum") ? Json(key.default_value)
                                                             : Json::parse(key.default_value);
  schema["description"] = absl::StrCat(key.meaning, " (", key.documented, ")");
  return schema;
}

// The keys as a JSON Schema (draft 07), for editors and other programs: names, types, ranges,
// defaults and meanings, from the parser's table. Relations between keys are left out.
std::string ConfigSchema() {
  // By section; "" is the whole. Sections may nest or be written with dots, so each accepts every
  // suffix of its keys.
  std::map<std::string, Json> sections;
  Json definitions = Json::object();
  for (const ConfigKey& key : ConfigKeys()) {
    definitions[key.name] = SchemaOf(key);
    for (std::string section = key.name; !section.empty();) {
      const size_t dot = section.rfind('.');
      section.resize(dot == std::string::npos ? 0 : dot);
      Json& properties = sections[section];
      const size_t begin = section.empty() ? 0 : section.size() + 1;
      properties[key.name.substr(begin)] = ReferenceTo(key.name);
      for (size_t end = key.name.find('.', begin); end != std::string::npos;
           end = key.name.find('.', end + 1)) {
        properties[key.name.substr(begin, end - begin)] = ReferenceTo(key.name.substr(0, end));
      }
    }
  }
  const auto object = [](const Json& properties) -> Json {
    return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  };
  for (const auto& [section, properties] : sections) {
    if (!section.empty()) definitions[section] = object(properties);
  }
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "A run's configuration of Longwave"}};
  schema.update(object(sections[""]));
  schema["definitions"] = definitions;
  return schema.dump(2) + "\n";
}

}  // namespace

void AddConfigCommands(CLI::App* app, Commands* commands) {
  struct Options {
    std::string path;
    std::string file;
    Overrides overrides;
    bool elsewhere = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const config = app->add_subcommand("config", "Look at a run's configuration.");
  config->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    CLI::App* const command = config->add_subcommand(name, what);
    command->add_option("config", options->file,
                        "Configuration file, as in configs/; none: the defaults");
    command->add_option("--set", options->overrides, "A setting, key=value; may be repeated")
        ->allow_extra_args(false);
    commands->emplace_back(command, std::move(run));
    return command;
  };
  add("check", "Say what `up` would refuse: keys, values, data, model.",
      [options] {
        return ExitStatus("longwave config check",
                          Check(options->file, options->overrides, options->elsewhere));
      })
      ->add_flag("--elsewhere", options->elsewhere,
                 "For a run on other machines: do not look for its data");
  add("print", "Print every key with its value: defaults, preset, file and --set.", [options] {
    return ExitStatus("longwave config print", Print(options->file, options->overrides));
  });
  commands->emplace_back(
      config->add_subcommand("schema", "Print a JSON Schema of all keys, for editors."), [] {
        std::fputs(ConfigSchema().c_str(), stdout);
        return 0;
      });

  CLI::App* const data = app->add_subcommand("data", "Show what a run would read of a path.");
  data->add_option("path", options->path, "Data: a file, a folder or a pattern [data.path]");
  data->add_option("--config", options->file, "Configuration file of a run");
  data->add_option("--set", options->overrides, "A setting, key=value; may be repeated")
      ->allow_extra_args(false);
  commands->emplace_back(data, [options] {
    return ExitStatus("longwave data", ShowData(options->path, options->file, options->overrides));
  });
}

}  // namespace longwave

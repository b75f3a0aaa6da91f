#ifndef LONGWAVE_COMMON_CONFIG_CONFIG_H_
#define LONGWAVE_COMMON_CONFIG_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

// A setting given on the command line: "sync.up.k=32".
using Overrides = std::vector<std::string>;

// The built-in defaults, which are those of the preset longwave.
RunConfig DefaultConfig();

// Reads a configuration in layers, later ones win: the built-in defaults; the preset that the text
// (or an override) names by `run.preset`; the sizes of `model.size`; the text; the overrides in
// order. Presets are files of configs/, compiled in. The override preset=NAME stands for
// run.preset=NAME.
// Errors: InvalidArgument, one sentence with file and line: unknown key, wrong type, a value out of
// range (got, wanted), a contradiction between keys.
absl::StatusOr<RunConfig> ParseConfig(std::string_view text, std::string_view file_name,
                                      const Overrides& overrides = {});

// As ParseConfig, from a file. Errors: also NotFound and PermissionDenied.
absl::StatusOr<RunConfig> LoadConfig(const std::string& path, const Overrides& overrides = {});

// Every key with its value, as YAML that ParseConfig reads back to the same configuration.
std::string FormatConfig(const RunConfig& config);

// The configuration for other processes: without the folders of this process's credentials and of
// the authority.
RunConfig ShownToOthers(RunConfig config);

// The settings on which all processes of a run must agree, one line "key: value" each: everything
// that decides the run's results, kArithmeticVersion included. Places of computation, data and
// addresses are left out.
std::string BindingSettings(const RunConfig& config);

// The subset of BindingSettings in which a worker may have less than the run.
std::vector<std::string> SettingsAtMost();

// The table of keys as Markdown: name, default, range, meaning. docs/reference/configuration.md is
// this text.
std::string ConfigReference();

// Names of the presets that are compiled in.
std::vector<std::string> PresetNames();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_H_

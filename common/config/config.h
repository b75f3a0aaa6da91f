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

// Reads a configuration: the built-in defaults, then the preset that the text (or an override)
// names by `run.preset`, then the text, then the overrides, of which later ones win. Presets are
// files of configs/, compiled in. The override preset=NAME stands for run.preset=NAME.
// InvalidArgument, one sentence with file and line: unknown key, wrong type, a value out of range
// (what was got, what is wanted), a combination that makes no sense.
absl::StatusOr<RunConfig> ParseConfig(std::string_view text, std::string_view file_name,
                                      const Overrides& overrides = {});

// As ParseConfig, from a file. NotFound, PermissionDenied: the file.
absl::StatusOr<RunConfig> LoadConfig(const std::string& path, const Overrides& overrides = {});

// Every key with its value, as YAML that ParseConfig reads back to the same configuration.
std::string FormatConfig(const RunConfig& config);

// The configuration as processes elsewhere are shown it: where this one keeps its credentials and
// the authority's is nobody else's business.
RunConfig ShownToOthers(RunConfig config);

// The settings on which all processes of a run must agree, a line "key: value" each: what the run
// computes, kArithmeticVersion of it included, and nothing of where a process computes it, reads
// its data or is reached.
std::string BindingSettings(const RunConfig& config);

// Of them those in which a worker may have less than the run.
std::vector<std::string> SettingsAtMost();

// The table of keys, as Markdown: name, default, range, meaning. docs/configuration.md is this
// text.
std::string ConfigReference();

// Names of the presets that are compiled in.
std::vector<std::string> PresetNames();

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_H_

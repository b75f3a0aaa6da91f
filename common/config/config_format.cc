// The texts for people: a configuration as YAML, and the reference of its keys.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/enum_name.h"
#include "common/base/wrapped.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

constexpr std::string_view kReferenceHead = R"(# Configuration

For whoever writes a configuration: every key. `build/bin/longwave-config-reference` writes this page from the table in
`common/config/config_keys.cc`; a test holds the two together.

One YAML file describes a run to every process of it. Sections nest (`sync: {up: {k: 64}}`) or are written with dots
(`sync.up.k: 64`). A value comes from the last of these that gives one:

1. the defaults below,
2. the preset that `run.preset` names (`longwave`, if nothing does), and the sizes that `model.size` names,
3. the file,
4. `--set key=value` on the command line, in order; `--set preset=NAME` chooses the preset.

The programs refuse unknown keys, values out of range and combinations that make no sense, with file and line. Lists,
aliases and tags have no place in a configuration. `runs/<name>/` keeps the resolved one. [Methods](methods.md) has the
presets, and `longwave config print --set preset=NAME` prints all keys of one.

Each key has its default, and in brackets its values. The last word there says which processes need the same value:

- *all*: all processes of a run, as the key decides what the run computes. The coordinator refuses a process that
  differs, with the key and both values.
- *at most*: the coordinator and the shards have the same value, and a worker has the same or a smaller one.
- *all without topk*: as *all*, unless `sync.up.selection` is `topk`.
- *all with auto*: as *all*, if `sync.inner_steps` is `auto`.
- no word: each process may have its own value, and may come back with another.
)";

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::string Written(const ConfigKey& key, const std::string& value) {
  return key.is_text ? Quoted(value) : value;
}

// The values of a key, without the words that a page of keys repeats on each line.
std::string ShortValues(const std::string& documented) {
  return absl::StrReplaceAll(
      documented, {{"a whole number from ", "whole, "}, {"a number from ", ""}, {"one of ", ""}});
}

std::string SectionOf(const ConfigKey& key) { return key.name.substr(0, key.name.find('.')); }

std::string SectionTitle(const std::string& section) {
  if (section == "run") return "`run`: the run as a whole";
  if (section == "model") return "`model`: what is trained";
  if (section == "data") return "`data`: what it is trained on";
  if (section == "train") return "`train`: the inner optimizer of each worker";
  if (section == "sync") return "`sync`: the pipeline between workers and shards";
  if (section == "metrics") return "`metrics`: what processes serve to Prometheus";
  if (section == "security") return "`security`: who may take part";
  if (section == "cluster") return "`cluster`: processes and their network";
  return absl::StrCat("`", section, "`");
}

std::string_view BindingWords(Binding binding) {
  return EnumName(binding,
                  {"", "; *all*", "; *all without topk*", "; *at most*", "; *all with auto*"});
}

}  // namespace

std::string FormatConfig(const RunConfig& config) {
  std::string text;
  std::vector<std::string> open;  // the sections of the last line
  for (const ConfigKey& key : ConfigKeys()) {
    const std::vector<std::string> path = absl::StrSplit(key.name, '.');
    const size_t depth = path.size() - 1;
    size_t common = 0;
    while (common < depth && common < open.size() && open[common] == path[common]) ++common;
    open.assign(path.begin(), path.begin() + depth);
    for (size_t level = common; level < depth; ++level) {
      absl::StrAppend(&text, std::string(2 * level, ' '), path[level], ":\n");
    }
    absl::StrAppend(&text, std::string(2 * depth, ' '), path.back(), ": ",
                    Written(key, key.get(config)), "\n");
  }
  return text;
}

RunConfig ShownToOthers(RunConfig config) {
  config.security.folder.clear();
  config.security.authority.clear();
  return config;
}

std::string BindingSettings(const RunConfig& config) {
  // A payload names its codec, and the merge mixes codecs; a shard whose codec is an integer one
  // rejects a float codec. The same holds for the k of topk. Under random and stride the round's
  // draw depends on k.
  const bool own_k = config.sync.up.selection == Selection::kTopK;
  std::string text;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.binding == Binding::kNone || (own_k && key.binding == Binding::kEqualDrawn)) continue;
    // Runs with a fixed interval have the settings that they had before there was another.
    if (key.binding == Binding::kEqualAuto && !FitsInterval(config)) continue;
    absl::StrAppend(&text, key.name, ": ", Written(key, key.get(config)), "\n");
  }
  absl::StrAppend(&text, "arithmetic version: ", kArithmeticVersion, "\n");
  return text;
}

std::vector<std::string> SettingsAtMost() {
  std::vector<std::string> names;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.binding == Binding::kAtMost) names.push_back(key.name);
  }
  return names;
}

std::string ConfigReference() {
  std::string text(kReferenceHead);
  std::string section;
  for (const ConfigKey& key : ConfigKeys()) {
    if (SectionOf(key) != section) {
      section = SectionOf(key);
      absl::StrAppend(&text, "\n## ", SectionTitle(section), "\n\n");
    }
    const std::string item = absl::StrCat(
        "- `", key.name, "`: `", Written(key, key.default_value), "` (",
        ShortValues(key.documented), std::string(BindingWords(key.binding)), "). ", key.meaning);
    absl::StrAppend(&text, Wrapped(item, "  "), "\n");
  }
  return text;
}

}  // namespace longwave

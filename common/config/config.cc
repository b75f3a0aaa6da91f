#include "common/config/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/config/config_checks.h"
#include "common/config/config_keys.h"
#include "common/config/gpt_shape.h"
#include "common/config/presets.h"
#include "common/config/removed_keys.h"
#include "common/config/yaml_reader.h"

namespace longwave {
namespace {

constexpr std::string_view kPresetKey = "run.preset";
constexpr std::string_view kSizeKey = "model.size";

// A value for a key, and its place: "configs/x.yaml:12" or "--set train.batch=abc".
struct Setting {
  const ConfigKey* key;
  std::string value;
  std::string place;
};

absl::Status UnknownKey(const std::string& place, const std::string& name) {
  const std::string_view instead = InsteadOfRemovedKey(name);
  if (!instead.empty()) {
    return InvalidArgument(place, ": ", name, " is no key any more: ", instead);
  }
  const std::string nearest = NearestConfigKey(name);
  return InvalidArgument(place, ": unknown key ", Quotable(name),
                         nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
}

// The setting of an entry; nullopt if the entry only opens a section.
absl::StatusOr<std::optional<Setting>> ToSetting(const YamlEntry& entry, std::string place) {
  const ConfigKey* key = FindConfigKey(entry.key);
  const bool is_section = key == nullptr && IsConfigSection(entry.key);
  if (key == nullptr && !is_section) return UnknownKey(place, entry.key);
  const std::string wanted = is_section ? "a section of keys" : key->wanted;
  const auto refuse = [&](const std::string& got) {
    return InvalidArgument(place, ": ", entry.key, ": got ", got, ", wanted ", wanted);
  };
  switch (entry.kind) {
    case YamlEntry::Kind::kNothing:
      return refuse("nothing");
    case YamlEntry::Kind::kList:
      return refuse("a list");
    case YamlEntry::Kind::kSection:
      if (is_section) return std::nullopt;
      return refuse("a section");
    case YamlEntry::Kind::kScalar:
      if (is_section) return refuse(Quotable(entry.value));
      return Setting{key, entry.value, std::move(place)};
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Setting>> ReadSettings(std::string_view text, const std::string& file) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<YamlEntry> entries, ReadYaml(text, file));
  std::vector<Setting> settings;
  for (const YamlEntry& entry : entries) {
    LONGWAVE_ASSIGN_OR_RETURN(std::optional<Setting> setting,
                              ToSetting(entry, absl::StrCat(file, ":", entry.line)));
    if (setting.has_value()) settings.push_back(*std::move(setting));
  }
  return settings;
}

absl::StatusOr<std::vector<Setting>> ReadOverrides(const Overrides& overrides) {
  std::vector<Setting> settings;
  for (const std::string& override_text : overrides) {
    const std::string place = absl::StrCat("--set ", Quotable(override_text));
    const size_t equals = override_text.find('=');
    if (equals == std::string::npos) {
      return InvalidArgument(place, ": wanted key=value, such as train.batch=8");
    }
    if (equals == 0) return InvalidArgument(place, ": no key before the =; wanted key=value");
    std::string name = override_text.substr(0, equals);
    if (name == "preset") name = kPresetKey;
    const ConfigKey* key = FindConfigKey(name);
    if (key == nullptr && IsConfigSection(name)) {
      return InvalidArgument(place, ": ", name, " is a section, wanted one of its keys");
    }
    if (key == nullptr) return UnknownKey(place, name);
    settings.push_back({key, override_text.substr(equals + 1), place});
  }
  return settings;
}

absl::Status Apply(const std::vector<Setting>& settings, RunConfig& config) {
  for (const Setting& setting : settings) {
    if (setting.key->set(config, setting.value)) continue;
    const std::string got = setting.value.empty() ? "nothing" : Quotable(setting.value);
    const std::string_view instead = InsteadOfRemovedValue(setting.key->name, setting.value);
    return InvalidArgument(setting.place, ": ", setting.key->name, ": got ", got, ", wanted ",
                           setting.key->wanted, instead.empty() ? "" : ": ", instead);
  }
  return absl::OkStatus();
}

absl::Status ApplyPreset(std::string_view name, RunConfig& config) {
  for (const Preset& preset : Presets()) {
    if (preset.name != name) continue;
    LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Setting> settings,
                              ReadSettings(preset.text, preset.file));
    return Apply(settings, config);
  }
  return absl::OkStatus();  // Apply rejects the name, with its place
}

// The place of the likely cause: the last setting of one of `keys`, overrides after the file.
std::string PlaceOf(const std::vector<std::string>& keys, const std::vector<Setting>& from_file,
                    const std::vector<Setting>& from_overrides, const std::string& file_name) {
  for (const auto* settings : {&from_overrides, &from_file}) {
    for (const std::string& key : keys) {
      const auto found = std::find_if(settings->rbegin(), settings->rend(),
                                      [&](const Setting& s) { return s.key->name == key; });
      if (found != settings->rend()) return found->place;
    }
  }
  return file_name;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const auto error = [&](int code) {
    const std::string sentence =
        absl::StrCat(path, ": ", std::strerror(code), ", wanted a configuration file");
    if (code == ENOENT || code == ENOTDIR) return NotFound(sentence);
    if (code == EACCES || code == EPERM) return PermissionDenied(sentence);
    return InvalidArgument(sentence);
  };
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return error(errno);
  // A byte more than is allowed, so that ReadYaml rejects the size.
  std::string text(kConfigBytesMax + 1, '\0');
  errno = 0;
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get())) return error(errno);
  return text;
}

}  // namespace

RunConfig DefaultConfig() {
  RunConfig config;
  for (const ConfigKey& key : ConfigKeys()) key.set(config, key.default_value);
  return config;
}

absl::StatusOr<RunConfig> ParseConfig(std::string_view text, std::string_view file_name,
                                      const Overrides& overrides) {
  const std::string file(file_name);
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Setting> from_file, ReadSettings(text, file));
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<Setting> from_overrides, ReadOverrides(overrides));

  RunConfig config = DefaultConfig();
  std::string preset = config.run.preset, size = config.model.size;
  for (const auto* settings : {&from_file, &from_overrides}) {
    for (const Setting& setting : *settings) {
      if (setting.key->name == kPresetKey) preset = setting.value;
      if (setting.key->name == kSizeKey) size = setting.value;
    }
  }
  LONGWAVE_RETURN_IF_ERROR(ApplyPreset(preset, config));
  SetGptSize(size, &config.model);
  LONGWAVE_RETURN_IF_ERROR(Apply(from_file, config));
  LONGWAVE_RETURN_IF_ERROR(Apply(from_overrides, config));
  if (const std::optional<Contradiction> found = FindContradiction(config)) {
    return InvalidArgument(PlaceOf(found->keys, from_file, from_overrides, file), ": ",
                           found->sentence);
  }
  return config;
}

absl::StatusOr<RunConfig> LoadConfig(const std::string& path, const Overrides& overrides) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseConfig(text, path, overrides);
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace longwave

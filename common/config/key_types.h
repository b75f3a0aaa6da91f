#ifndef LONGWAVE_COMMON_CONFIG_KEY_TYPES_H_
#define LONGWAVE_COMMON_CONFIG_KEY_TYPES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/config_keys.h"

namespace longwave {

// Builders of ConfigKey, one for each type of value. `field` is a generic lambda from a RunConfig,
// const or not, to the member.

// Parses digits, below 2^64, or a decimal number that is whole, as programs write 1e+06, up to
// 2^53. False on any other text.
bool ParseWhole(std::string_view text, uint64_t* value);
// Parses a finite decimal number.
bool ParseNumber(std::string_view text, double* value);
// The shortest decimal that parses to the same double.
std::string FormatNumber(double value);

template <typename Field>
ConfigKey WholeKey(const char* name, Field field, uint64_t default_value, uint64_t min,
                   uint64_t max, const char* meaning) {
  return {.name = name,
          .default_value = absl::StrCat(default_value),
          .wanted = absl::StrCat("a whole number from ", min, " to ", max),
          .meaning = meaning,
          .schema =
              absl::StrCat(R"({"type": "integer", "minimum": )", min, R"(, "maximum": )", max, "}"),
          .get = [field](const RunConfig& config) { return absl::StrCat(field(config)); },
          .set =
              [field, min, max](RunConfig& config, std::string_view text) {
                uint64_t value = 0;
                if (!ParseWhole(text, &value) || value < min || value > max) return false;
                auto& member = field(config);
                member = static_cast<std::decay_t<decltype(member)>>(value);
                return true;
              }};
}

// Likewise, or `auto`, which is 0.
template <typename Field>
ConfigKey WholeOrAutoKey(const char* name, Field field, uint64_t default_value, uint64_t min,
                         uint64_t max, const char* meaning) {
  ConfigKey key = WholeKey(name, field, default_value, min, max, meaning);
  absl::StrAppend(&key.wanted, ", or auto");
  key.schema = absl::StrCat(R"({"type": ["integer", "string"], "minimum": )", min,
                            R"(, "maximum": )", max, R"(, "pattern": "^auto$"})");
  key.get = [get = key.get, field](const RunConfig& config) {
    return field(config) == 0 ? "auto" : get(config);
  };
  key.set = [set = key.set, field](RunConfig& config, std::string_view text) {
    if (text != "auto") return set(config, text);
    field(config) = 0;
    return true;
  };
  return key;
}

template <typename Field>
ConfigKey NumberKey(const char* name, Field field, double default_value, double min, double max,
                    const char* meaning) {
  return {.name = name,
          .default_value = FormatNumber(default_value),
          .wanted = absl::StrCat("a number from ", FormatNumber(min), " to ", FormatNumber(max)),
          .meaning = meaning,
          .schema = absl::StrCat(R"({"type": "number", "minimum": )", FormatNumber(min),
                                 R"(, "maximum": )", FormatNumber(max), "}"),
          .get = [field](const RunConfig& config) { return FormatNumber(field(config)); },
          .set =
              [field, min, max](RunConfig& config, std::string_view text) {
                double value = 0;
                if (!ParseNumber(text, &value) || value < min || value > max) return false;
                field(config) = value;
                return true;
              }};
}

template <typename Field>
ConfigKey FlagKey(const char* name, Field field, bool default_value, const char* meaning) {
  return {.name = name,
          .default_value = default_value ? "true" : "false",
          .wanted = "true or false",
          .meaning = meaning,
          .schema = R"({"type": "boolean"})",
          .get = [field](const RunConfig& config) -> std::string {
            return field(config) ? "true" : "false";
          },
          .set =
              [field](RunConfig& config, std::string_view text) {
                if (text != "true" && text != "false") return false;
                field(config) = text == "true";
                return true;
              }};
}

// The choices of a key: name and value.
template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

// documented: as ConfigKey's, of choices that are files.
template <typename Field, typename Value>
ConfigKey ChoiceKey(const char* name, Field field, const Choices<Value>& choices,
                    std::string default_value, const char* meaning, const char* documented = "") {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  return {.name = name,
          .default_value = std::move(default_value),
          .wanted = absl::StrCat(names.size() > 1 ? "one of " : "", absl::StrJoin(names, ", ")),
          .documented = documented,
          .meaning = meaning,
          .schema = absl::StrCat(R"({"enum": [")", absl::StrJoin(names, R"(", ")"), R"("]})"),
          .get = [field, choices](const RunConfig& config) -> std::string {
            for (const auto& [choice, value] : choices) {
              if (value == field(config)) return choice;
            }
            return "";
          },
          .set =
              [field, choices](RunConfig& config, std::string_view text) {
                for (const auto& [choice, value] : choices) {
                  if (choice != text) continue;
                  field(config) = value;
                  return true;
                }
                return false;
              }};
}

// An enumeration whose values have a Name().
template <typename Value>
Choices<Value> NamedChoices(std::initializer_list<Value> values) {
  Choices<Value> choices;
  for (const Value value : values) choices.emplace_back(std::string(Name(value)), value);
  return choices;
}

// Choices whose name is the value.
inline Choices<std::string> WordChoices(const std::vector<std::string>& words) {
  Choices<std::string> choices;
  for (const std::string& word : words) choices.emplace_back(word, word);
  return choices;
}

// Free text that `accepts` accepts.
template <typename Field>
ConfigKey TextKey(const char* name, Field field, const char* default_value,
                  bool (*accepts)(std::string_view), const char* wanted, const char* meaning) {
  return {.name = name,
          .default_value = default_value,
          .wanted = wanted,
          .meaning = meaning,
          .schema = R"({"type": "string"})",
          .is_text = true,
          .get = [field](const RunConfig& config) { return std::string(field(config)); },
          .set =
              [field, accepts](RunConfig& config, std::string_view text) {
                if (!accepts(text)) return false;
                field(config) = std::string(text);
                return true;
              }};
}

// Checks for text keys. All accept at most 4096 bytes of UTF-8 without control characters.
bool IsFolderName(
    std::string_view text);          // empty, or letters, digits, '.', '_', '-'; no leading dot
bool IsPath(std::string_view text);  // not empty
bool IsPathOrNone(std::string_view text);  // may be empty
bool IsHost(std::string_view text);        // a name, an IPv4 address, or an IPv6 one in brackets
bool IsHostPort(std::string_view text);    // a host, ':' and a port from 0 to 65535
bool IsHostPortOrNone(std::string_view text);  // may be empty

// Of the address that a person gave for the coordinator. Errors: InvalidArgument (not IsHostPort).
absl::Status CheckCoordinatorAddress(std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_KEY_TYPES_H_

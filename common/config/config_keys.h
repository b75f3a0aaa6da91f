#ifndef LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_
#define LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// In whom a key's values have to agree.
enum class Binding : uint8_t {
  kNone,   // nobody: where a process computes, reads and is reached, how it looks, what it holds
  kEqual,  // all processes of a run have the same: it decides what the run computes
  kEqualDrawn,  // likewise where the round's seed draws what is sent, or stride does; else nobody
  kAtMost,      // coordinator and shards have the same, a worker that or less
};

// One key of the configuration. Parser, formatter, overrides and the reference all walk the table
// of these: a new key is one entry of config_keys.cc and one member of RunConfig.
struct ConfigKey {
  std::string name;           // dotted, and the path of the member in RunConfig
  std::string default_value;  // as it would be written
  std::string wanted;         // what values it takes, for errors and the reference
  std::string meaning;        // sentences for the reference, with units
  bool is_text = false;       // free text: quoted when written
  Binding binding = Binding::kEqual;
  std::function<std::string(const RunConfig&)> get;
  // False, and config unchanged: `value` is not what is wanted.
  std::function<bool(RunConfig& config, std::string_view value)> set;
};

// In the order of the reference; sections and subsections are contiguous.
const std::vector<ConfigKey>& ConfigKeys();

// Null if there is none of that name.
const ConfigKey* FindConfigKey(std::string_view name);

// Is `name` the beginning of keys ("sync", "sync.up")?
bool IsConfigSection(std::string_view name);

// The key or section that a person who wrote `name` may have meant; empty if none is near.
std::string NearestConfigKey(std::string_view name);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_

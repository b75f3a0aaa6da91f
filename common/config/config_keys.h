#ifndef LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_
#define LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// The processes whose values of a key must agree.
enum class Binding : uint8_t {
  kNone,        // none: where a process computes, reads and listens, its display, its limits
  kEqual,       // all processes of a run: the key decides the run's results
  kEqualDrawn,  // as kEqual if the round's seed or stride selects what is sent; else none
  kAtMost,      // coordinator and shards agree; a worker has at most their value
  kEqualAuto,   // as kEqual with sync.inner_steps auto; else none
};

// A key of the configuration. Parser, formatter, overrides and the reference all read the table
// of keys: a new key is one entry of config_keys.cc and one member of RunConfig.
struct ConfigKey {
  std::string name;           // dotted, and the path of the member in RunConfig
  std::string default_value;  // as it would be written
  std::string wanted;         // the accepted values, for errors
  std::string documented;     // `wanted` in the reference and the schema, which list no files
  std::string meaning;        // sentences for the reference, with units
  std::string schema;         // `wanted` as a JSON Schema
  bool is_text = false;       // free text: quoted when written
  Binding binding = Binding::kEqual;
  std::function<std::string(const RunConfig&)> get;
  // Returns false, with config unchanged, if `value` is not accepted.
  std::function<bool(RunConfig& config, std::string_view value)> set;
};

// In the order of the reference; sections and subsections are contiguous.
const std::vector<ConfigKey>& ConfigKeys();

// Null if no key has that name.
const ConfigKey* FindConfigKey(std::string_view name);

// Whether `name` is the beginning of keys ("sync", "sync.up").
bool IsConfigSection(std::string_view name);

// The keys that may differ between processes: names, places, memory, timing of reports, and how a
// worker computes and encodes its own contribution. All other keys, new ones included, decide the
// run's results.
Binding BindingOf(std::string_view name);

// The key or section nearest to a misspelt `name`; empty if none is near.
std::string NearestConfigKey(std::string_view name);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_KEYS_H_

#ifndef LONGWAVE_COMMON_CONFIG_YAML_READER_H_
#define LONGWAVE_COMMON_CONFIG_YAML_READER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

// The largest configuration that is read. Typical ones have two kilobytes.
inline constexpr size_t kConfigBytesMax = 1 << 20;

// A statement of a YAML document about a dotted key.
struct YamlEntry {
  enum class Kind {
    kScalar,
    kNothing,  // "key:" without a value, "~" or "null"
    kSection,  // a mapping begins; its entries follow
    kList,     // a sequence; its items are left out
  };

  Kind kind;
  std::string key;    // "sync.up.k", whether written as nested mappings or with dots
  std::string value;  // kScalar only, unquoted
  int line;           // of the key, from 1
};

// Reads one YAML document that is a mapping of mappings of scalars, in the text's order. No aliases
// are expanded, so that the work is linear in the text. Errors: InvalidArgument, as "file:line:
// sentence": too large, not UTF-8, a control character, not YAML, no document or more than one, not
// a mapping, an alias, a tag, a key given twice or that is no word, mappings nested too deep.
absl::StatusOr<std::vector<YamlEntry>> ReadYaml(std::string_view text, std::string_view file_name);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_YAML_READER_H_

#ifndef LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_
#define LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_

#include <string_view>

namespace longwave {

// A sentence, for errors, on what to use instead of a key that earlier versions had. Empty: no
// earlier version had the key, or this one has it, too.
std::string_view InsteadOfRemovedKey(std::string_view key);

// Likewise for a value that earlier versions accepted of a key that remains.
std::string_view InsteadOfRemovedValue(std::string_view key, std::string_view value);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_

#ifndef LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_
#define LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_

#include <string_view>

namespace longwave {

// A sentence that says what to use instead of a key that earlier versions had. Empty: there never
// was such a key, or it exists.
std::string_view InsteadOfRemovedKey(std::string_view key);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_REMOVED_KEYS_H_

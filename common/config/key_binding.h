#ifndef LONGWAVE_COMMON_CONFIG_KEY_BINDING_H_
#define LONGWAVE_COMMON_CONFIG_KEY_BINDING_H_

#include <string_view>

#include "common/config/config_keys.h"

namespace longwave {

// The keys that may differ between processes: names, places, memory, timing of reports, and how a
// worker computes and encodes its own contribution. All other keys, new ones included, decide the
// run's results.
Binding BindingOf(std::string_view name);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_KEY_BINDING_H_

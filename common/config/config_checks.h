#ifndef LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_
#define LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// Values that are in range each, but contradict each other.
struct Contradiction {
  std::vector<std::string> keys;  // the keys at fault, the likeliest first
  std::string sentence;
};

// The first contradiction, if any.
std::optional<Contradiction> FindContradiction(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_

#ifndef LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_
#define LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// Values that are each in range and make no sense together.
struct Contradiction {
  std::vector<std::string> keys;  // those to blame, the likeliest first
  std::string sentence;
};

// The first one, if any.
std::optional<Contradiction> FindContradiction(const RunConfig& config);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_CONFIG_CHECKS_H_

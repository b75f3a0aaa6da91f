#ifndef LONGWAVE_SERVER_SERVICE_INTERVAL_OPTIONS_H_
#define LONGWAVE_SERVER_SERVICE_INTERVAL_OPTIONS_H_

#include <optional>

#include "common/config/run_config.h"
#include "server/coordinator/interval_control.h"

namespace longwave {

// nullopt: the run's interval is fixed.
inline std::optional<IntervalOptions> IntervalOptionsOf(const RunConfig& config) {
  if (!FitsInterval(config)) return std::nullopt;
  return IntervalOptions{.steps = config.run.steps,
                         .least = config.sync.inner_steps_min,
                         .most = config.sync.inner_steps_max,
                         .target_share = config.sync.target_share,
                         .quorum = config.sync.quorum};
}

}  // namespace longwave

#endif  // LONGWAVE_SERVER_SERVICE_INTERVAL_OPTIONS_H_

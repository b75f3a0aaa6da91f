#ifndef LONGWAVE_COMMON_CONFIG_RUN_METRICS_H_
#define LONGWAVE_COMMON_CONFIG_RUN_METRICS_H_

#include "common/config/run_config.h"
#include "common/metrics/metrics.h"

namespace longwave {

// Sets a process's metrics about its run, and the limits of the configuration that alerts compare
// with.
void ShowRun(const RunConfig& config, Metrics* metrics);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_RUN_METRICS_H_

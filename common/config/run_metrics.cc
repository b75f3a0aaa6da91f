#include "common/config/run_metrics.h"

#include <string>

namespace longwave {

void ShowRun(const RunConfig& config, Metrics* metrics) {
  metrics->SetLabel("run", config.run.name);
  metrics->ShowInfo("longwave_run_info",
                    {config.run.preset, config.model.kind, std::string(Name(config.sync.signal)),
                     config.security.mode});
  metrics->gauge("longwave_inner_steps").Set(MostInnerSteps(config.sync));
  metrics->gauge("longwave_round_grace_seconds").Set(config.cluster.grace_max_s);
  metrics->gauge("longwave_heartbeat_interval_seconds").Set(config.cluster.heartbeat_interval_s);
  metrics->gauge("longwave_heartbeat_timeout_seconds").Set(config.cluster.heartbeat_timeout_s);
  metrics->gauge("longwave_snapshot_rounds").Set(config.cluster.snapshot_rounds);
}

}  // namespace longwave

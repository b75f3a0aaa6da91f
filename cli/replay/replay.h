#ifndef LONGWAVE_CLI_REPLAY_REPLAY_H_
#define LONGWAVE_CLI_REPLAY_REPLAY_H_

#include <string>

#include "absl/status/status.h"

namespace longwave {

struct ReplayOptions {
  std::string run_folder;  // runs/NAME: config.yaml, state/shard-0, …
  std::string config;      // the run's configuration; empty: config.yaml of its folder
  // Weights before round 0, a safetensors file. Empty: a worker makes them or, with run.start
  // member, the shards have snapshots of them.
  std::string initial;
  std::string weights;  // safetensors file for the model; empty: none
};

// `longwave replay`: audits the shards' logs of a run and recomputes its model. OK if every promise
// was kept and the model is the run's.
absl::Status Replay(const ReplayOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_REPLAY_H_

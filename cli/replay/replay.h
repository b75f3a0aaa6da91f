#ifndef LONGWAVE_CLI_REPLAY_REPLAY_H_
#define LONGWAVE_CLI_REPLAY_REPLAY_H_

#include <string>

namespace longwave {

struct ReplayOptions {
  std::string run_folder;  // runs/NAME: config.yaml, state/shard-0, …
  std::string config;      // the run's configuration; empty: config.yaml of its folder
  // Weights before round 0, a safetensors file; empty: a worker makes them, or with run.start
  // member they are the shards' snapshots of them.
  std::string initial;
  std::string weights;  // safetensors file that gets the model; empty: none is written
};

// `longwave replay`: audits what the shards of a run have kept and makes its model again. Returns
// the exit status: 0 if every promise was kept and the model is the run's, 1 otherwise.
int RunReplayCommand(const ReplayOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_REPLAY_REPLAY_H_

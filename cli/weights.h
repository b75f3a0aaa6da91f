#ifndef LONGWAVE_CLI_WEIGHTS_H_
#define LONGWAVE_CLI_WEIGHTS_H_

#include <string>

namespace longwave {

struct WeightsOptions {
  std::string address;   // host:port of the coordinator
  std::string security;  // folder of an operator's credentials; empty: the run is not secured
  std::string out = "model.safetensors";
};

// `longwave weights`: writes the current weights of a run, without disturbing it. Returns the exit
// status.
int RunWeights(const WeightsOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_WEIGHTS_H_

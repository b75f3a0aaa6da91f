#ifndef LONGWAVE_CLI_WEIGHTS_H_
#define LONGWAVE_CLI_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"
#include "cli/commands.h"

namespace longwave {

// `longwave weights`: writes the current weights of a run to `file`, a safetensors file, without
// disturbing the run. The target's credentials are an operator's.
absl::Status WriteWeights(const Target& target, const std::string& file);

}  // namespace longwave

#endif  // LONGWAVE_CLI_WEIGHTS_H_

#ifndef LONGWAVE_WORKER_WEIGHTS_WRITE_MODEL_H_
#define LONGWAVE_WORKER_WEIGHTS_WRITE_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

// Whether WriteModel would replace a config.json that is no model's of this configuration, for a
// command that writes where its user says: AlreadyExists, with the path.
absl::Status CheckPlace(const std::string& path, const RunConfig& config);

// Writes the run's model after so many inner steps by WriteSafetensors, with metadata about the
// model. If the file is called model.safetensors and the model is a GPT, config.json beside it
// describes it (Gpt2Config), since transformers want these two names.
absl::Status WriteModel(const std::string& path, const RunConfig& config, const Manifest& manifest,
                        const Layout& layout, const float* theta, uint64_t steps);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_WRITE_MODEL_H_

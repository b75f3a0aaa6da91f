#ifndef LONGWAVE_WORKER_TRAINER_MODEL_METADATA_H_
#define LONGWAVE_WORKER_TRAINER_MODEL_METADATA_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/config/run_config.h"

namespace longwave {

// What a file of the model's weights says of itself (WriteSafetensors' metadata): which model they
// are of, and after how many inner steps.
std::map<std::string, std::string> ModelMetadata(const RunConfig& config, uint64_t steps);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_MODEL_METADATA_H_

#ifndef LONGWAVE_WORKER_TRAINER_GPT2_CONFIG_H_
#define LONGWAVE_WORKER_TRAINER_GPT2_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

// The model as Hugging Face's transformers describe a GPT-2: with this as config.json beside
// model.safetensors, GPT2LMHeadModel.from_pretrained takes a folder of ours.
//   source: transformers' GPT2Config (4.57)
std::string Gpt2Config(const ModelSection& model);

// The model that the config.json of `folder` describes. NotFound and the like: the file.
// InvalidArgument: it is not of a GPT-2 of bytes as ours are; says in what.
absl::StatusOr<ModelSection> ReadGpt2Config(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_GPT2_CONFIG_H_

#ifndef LONGWAVE_WORKER_WEIGHTS_GPT2_CONFIG_H_
#define LONGWAVE_WORKER_WEIGHTS_GPT2_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"

namespace longwave {

// The model in the format of Hugging Face's transformers: with this text as config.json beside
// model.safetensors, GPT2LMHeadModel.from_pretrained loads our folder. Source: transformers'
// GPT2Config (4.57).
std::string Gpt2Config(const ModelSection& model);

// The model in the config.json of `folder`. File errors as NotFound. InvalidArgument: no GPT-2 of
// our kind; the message says why.
absl::StatusOr<ModelSection> ReadGpt2Config(const std::string& folder);

// Whether weights are those of `model` by the config.json beside them, where they have one:
// InvalidArgument if they are of another number of heads, which no tensor's shape shows. Another
// function than ours is a `warning`, since its weights may be begun with.
//   weights  as for StoredWeights::Open
absl::Status CheckGpt2Config(const std::string& weights, const ModelSection& model,
                             std::string* warning);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_GPT2_CONFIG_H_

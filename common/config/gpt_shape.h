#ifndef LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_
#define LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

// The built-in language model. Tokens are bytes or those of the data's files; positions are
// learned. Each block is LayerNorm → causal attention → residual, LayerNorm → GELU network of width
// 4·d → residual. The output head is the token embedding (weight tying). Names and shapes are
// GPT-2's, so that any GPT-2 implementation with that vocabulary and the exact (erf) GELU loads the
// weights. Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
inline constexpr uint32_t kByteVocabulary = 256;

// Numbers of the manifest's tensors: the embeddings first, then those of each block, then two more.
inline constexpr int kGptEmbeddingTensors = 2;
inline constexpr int kGptBlockTensors = 12;

// Sets the sizes of model.size, GPT-2's; "custom" leaves them.
void SetGptSize(std::string_view size, ModelSection* model);

// Trained parameters: (vocabulary + context)·d + layers·(12·d² + 13·d) + 2·d. In double, since a
// wanted model may overflow integers.
double GptParameterCount(const ModelSection& model);

// Floating point operations of the forward and the backward pass for a token: 6 for each weight
// of a matrix, and 12·layers·d·context for the attention of its queries.
// Source: Chowdhery et al. 2022, "PaLM", appendix B.
double GptFlopsPerToken(const ModelSection& model);

// Approximate bytes that a step's forward pass keeps for its backward pass. checkpoints: see
// train.activation_checkpoints.
double GptActivationBytes(const ModelSection& model, uint32_t batch, bool checkpoints = false);

// Errors: InvalidArgument (another model.kind, a size of zero, heads that do not divide d_model).
absl::StatusOr<Manifest> GptManifest(const ModelSection& model);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_

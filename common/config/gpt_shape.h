#ifndef LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_
#define LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

// The built-in language model: tokens are bytes, positions are learned, each block is LayerNorm →
// causal attention → residual, LayerNorm → GELU network of width 4·d → residual; the output head is
// the token embedding again (weight tying). Names and shapes are GPT-2's, so that the weights load
// into any GPT-2 implementation with a vocabulary of 256 and the exact (erf) GELU.
// Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
inline constexpr int64_t kGptVocabulary = 256;

// Places of a block's tensors in the manifest, after the two embeddings; two more close it.
inline constexpr int kGptEmbeddingTensors = 2;
inline constexpr int kGptBlockTensors = 12;

// Trained parameters: (256 + context)·d + layers·(12·d² + 13·d) + 2·d. In double, since a model
// that is asked for may be far too large.
double GptParameterCount(const ModelSection& model);

// Bytes that one step's forward pass keeps for its backward pass, roughly.
double GptActivationBytes(const ModelSection& model, uint32_t batch);

// InvalidArgument: a size that is zero, heads that do not divide d_model.
absl::StatusOr<Manifest> GptManifest(const ModelSection& model);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_GPT_SHAPE_H_

#ifndef LONGWAVE_WORKER_MODELS_GPT_H_
#define LONGWAVE_WORKER_MODELS_GPT_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// Private to worker/models, since it exposes LibTorch's types.

// A Batch on the parameters' device.
struct Tokens {
  at::Tensor inputs;   // [rows, length], 64-bit
  at::Tensor targets;  // as inputs, one place later
};

// Mean cross-entropy of the batch. `parameters`: tensors shaped and ordered as in GptManifest.
// recompute: the backward pass computes a block's activations again. Throws LibTorch's exceptions.
at::Tensor GptLoss(const ModelSection& model, std::span<const at::Tensor> parameters,
                   const Tokens& tokens, bool recompute);

// Keys and values of the earlier tokens, by layer: [2, heads, context, d_head].
using GptMemory = std::vector<at::Tensor>;
// Logits of the token after `token` at `position`: [vocabulary]. memory has the tokens before, from
// position 0 on, and takes in this one.
at::Tensor GptStep(const ModelSection& model, std::span<const at::Tensor> parameters, int64_t token,
                   int64_t position, GptMemory* memory);

// The initial values of tensor `index` of the manifest, by GPT-2's rule: weights normal with
// deviation 0.02, the two projections into the residual stream 0.02/√(2·layers), norms' scales 1,
// everything else 0.
struct GptInit {
  float constant = 0;
  double deviation = 0;
};
GptInit InitOf(const ModelSection& model, int index);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_GPT_H_

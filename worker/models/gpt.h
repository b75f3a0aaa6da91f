#ifndef LONGWAVE_WORKER_MODELS_GPT_H_
#define LONGWAVE_WORKER_MODELS_GPT_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/run_config.h"

namespace longwave {

// Private to worker/models: it shows LibTorch's types.

// A Batch on the parameters' device.
struct Tokens {
  at::Tensor inputs;   // [rows, length], 64-bit
  at::Tensor targets;  // as inputs, one place later
};

// Mean cross-entropy of the batch. `parameters`: tensors shaped and ordered as GptManifest has
// them. Throws what LibTorch throws.
at::Tensor GptLoss(const ModelSection& model, std::span<const at::Tensor> parameters,
                   const Tokens& tokens);

// Keys and values of the tokens before, by layer: [2, heads, context, d_head].
using GptMemory = std::vector<at::Tensor>;
// Logits of the token after `token`, which stands at `position`: [vocabulary]. memory has those
// before, from position 0 on, and gets this one.
at::Tensor GptStep(const ModelSection& model, std::span<const at::Tensor> parameters, int64_t token,
                   int64_t position, GptMemory* memory);

// What tensor `index` of the manifest starts as, by GPT-2's rule: weights normal with deviation
// 0.02, the two projections into the residual stream 0.02/√(2·layers), norms' scales 1, everything
// else 0.
struct GptInit {
  float constant = 0;
  double deviation = 0;
};
GptInit InitOf(const ModelSection& model, int index);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_GPT_H_

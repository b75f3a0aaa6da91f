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
// recompute: see BlockMode. Throws LibTorch's exceptions.
at::Tensor GptLoss(const ModelSection& model, std::span<const at::Tensor> parameters,
                   const Tokens& tokens, bool recompute);

struct BlockMode {
  bool is_causal = false;  // a place attends to itself and the places before
  bool recompute = false;  // the backward pass computes the block's activations again
};
// A block of model.layers, with the tensors `p` of AddBlocks, on x: [rows · length, d].
at::Tensor TransformerBlock(const ModelSection& model, std::span<const at::Tensor> p,
                            const at::Tensor& x, int64_t length, const BlockMode& mode);
// LayerNorm over d.
at::Tensor Norm(const ModelSection& model, const at::Tensor& scale, const at::Tensor& bias,
                const at::Tensor& x);

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
// Likewise, of tensor `index` of AddBlocks.
GptInit InitOfBlocks(const ModelSection& model, int index);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_GPT_H_

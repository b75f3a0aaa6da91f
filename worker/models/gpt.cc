#include "worker/models/gpt.h"

#include <cmath>

#include "common/config/gpt_shape.h"
#include "worker/models/recompute.h"
#include "worker/models/torch_compat.h"

namespace longwave {
namespace {

// A block's tensors in the manifest's order; see GptManifest.
enum BlockTensor {
  kNorm1Scale,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kAttentionOutWeight,
  kAttentionOutBias,
  kNorm2Scale,
  kNorm2Bias,
  kFcWeight,
  kFcBias,
  kNetworkOutWeight,
  kNetworkOutBias,
};

constexpr double kNormEpsilon = 1e-5;
constexpr double kDeviation = 0.02;  // of initial weights

// LayerNorm over d.
at::Tensor Norm(const ModelSection& model, const at::Tensor& scale, const at::Tensor& bias,
                const at::Tensor& x) {
  return at::layer_norm(x, {static_cast<int64_t>(model.d_model)}, scale, bias, kNormEpsilon);
}

// x: [rows · length, d]. Attention of all heads at once.
at::Tensor Attend(const ModelSection& model, std::span<const at::Tensor> p, const at::Tensor& x,
                  int64_t length) {
  const int64_t rows = x.size(0) / length, heads = model.heads, d = model.d_model;
  const at::Tensor qkv = at::addmm(p[kQkvBias], x, p[kQkvWeight])
                             .view({rows, length, 3, heads, d / heads})
                             .permute({2, 0, 3, 1, 4});
  const at::Tensor mixed = CausalAttention(qkv).transpose(1, 2).reshape({rows * length, d});
  return at::addmm(p[kAttentionOutBias], mixed, p[kAttentionOutWeight]);
}

// The block's second half: x plus the network's output.
at::Tensor AddNetwork(const ModelSection& model, std::span<const at::Tensor> p,
                      const at::Tensor& x) {
  const at::Tensor normed = Norm(model, p[kNorm2Scale], p[kNorm2Bias], x);
  const at::Tensor hidden = at::gelu(at::addmm(p[kFcBias], normed, p[kFcWeight]));
  return x + at::addmm(p[kNetworkOutBias], hidden, p[kNetworkOutWeight]);
}

// A block with the tensors `p`, on x: [rows · length, d].
at::Tensor TransformerBlock(const ModelSection& model, std::span<const at::Tensor> p,
                            const at::Tensor& x, int64_t length, bool recompute) {
  if (recompute) {
    const auto block = [model, length](const at::Tensor& input,
                                       std::span<const at::Tensor> parameters) {
      return TransformerBlock(model, parameters, input, length, /*recompute=*/false);
    };
    return Recomputed(block, x, p);
  }
  const at::Tensor normed = Norm(model, p[kNorm1Scale], p[kNorm1Bias], x);
  return AddNetwork(model, p, x + Attend(model, p, normed, length));
}

std::span<const at::Tensor> BlockOf(std::span<const at::Tensor> parameters, uint32_t layer) {
  return parameters.subspan(kGptEmbeddingTensors + layer * kGptBlockTensors, kGptBlockTensors);
}

// Logits, [rows, vocabulary], from x: [rows, d], the last block's output.
at::Tensor Logits(const ModelSection& model, std::span<const at::Tensor> parameters,
                  const at::Tensor& x) {
  const size_t last = parameters.size();
  return at::mm(Norm(model, parameters[last - 2], parameters[last - 1], x), parameters[0].t());
}

}  // namespace

at::Tensor GptLoss(const ModelSection& model, std::span<const at::Tensor> parameters,
                   const Tokens& tokens, bool recompute) {
  const int64_t d = model.d_model, rows = tokens.inputs.size(0), length = tokens.inputs.size(1);
  const at::Tensor& embedding = parameters[0];
  const at::Tensor& positions = parameters[1];
  at::Tensor x = (at::embedding(embedding, tokens.inputs) + positions.narrow(0, 0, length))
                     .view({rows * length, d});
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    x = TransformerBlock(model, BlockOf(parameters, layer), x, length, recompute);
  }
  // In fp32 under any autocast, like the attention's softmax.
  return at::nll_loss(at::log_softmax(Logits(model, parameters, x), 1, at::kFloat),
                      tokens.targets.view({rows * length}));
}

at::Tensor GptStep(const ModelSection& model, std::span<const at::Tensor> parameters, int64_t token,
                   int64_t position, GptMemory* memory) {
  const int64_t heads = model.heads, d = model.d_model, d_head = d / heads;
  memory->resize(model.layers);
  at::Tensor x = (parameters[0].select(0, token) + parameters[1].select(0, position)).view({1, d});
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::span<const at::Tensor> p = BlockOf(parameters, layer);
    at::Tensor& seen = (*memory)[layer];
    if (!seen.defined()) seen = at::empty({2, heads, model.context, d_head}, x.options());
    const at::Tensor normed = Norm(model, p[kNorm1Scale], p[kNorm1Bias], x);
    const at::Tensor qkv = at::addmm(p[kQkvBias], normed, p[kQkvWeight]).view({3, heads, d_head});
    seen.select(2, position).copy_(qkv.narrow(0, 1, 2));
    const at::Tensor upto = seen.narrow(2, 0, position + 1);
    const at::Tensor scores = at::bmm(upto.select(0, 0), qkv.select(0, 0).unsqueeze(2)) /
                              std::sqrt(static_cast<double>(d_head));
    const at::Tensor mixed =
        at::bmm(at::softmax(scores, 1).transpose(1, 2), upto.select(0, 1)).reshape({1, d});
    const at::Tensor attended = at::addmm(p[kAttentionOutBias], mixed, p[kAttentionOutWeight]);
    x = AddNetwork(model, p, x + attended);
  }
  return Logits(model, parameters, x).view({-1});
}

GptInit InitOf(const ModelSection& model, int index) {
  if (index < kGptEmbeddingTensors) return {.deviation = kDeviation};
  index -= kGptEmbeddingTensors;
  const int blocks_end = kGptBlockTensors * static_cast<int>(model.layers);
  if (index >= blocks_end) return {.constant = index == blocks_end ? 1.0f : 0.0f};
  switch (index % kGptBlockTensors) {
    case kNorm1Scale:
    case kNorm2Scale:
      return {.constant = 1};
    case kQkvWeight:
    case kFcWeight:
      return {.deviation = kDeviation};
    case kAttentionOutWeight:
    case kNetworkOutWeight:
      return {.deviation = kDeviation / std::sqrt(2.0 * model.layers)};
    default:
      return {};
  }
}

}  // namespace longwave

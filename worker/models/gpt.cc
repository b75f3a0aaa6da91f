#include "worker/models/gpt.h"

#include <cmath>
#include <limits>

#include "common/config/gpt_shape.h"

namespace longwave {
namespace {

// A block's tensors by their place in the manifest; see GptManifest.
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

// x: [batch · length, d]. Causal attention of all heads at once.
at::Tensor Attention(const ModelSection& model, std::span<const at::Tensor> p, const at::Tensor& x,
                     const at::Tensor& mask) {
  const int64_t length = mask.size(0), rows = x.size(0) / length;
  const int64_t heads = model.heads, d = model.d_model, d_head = d / heads;
  const at::Tensor qkv = at::addmm(p[kQkvBias], x, p[kQkvWeight])
                             .view({rows, length, 3, heads, d_head})
                             .permute({2, 0, 3, 1, 4})
                             .contiguous()
                             .view({3, rows * heads, length, d_head});
  const double scale = 1 / std::sqrt(static_cast<double>(d_head));
  const at::Tensor scores =
      at::baddbmm(mask, qkv.select(0, 0), qkv.select(0, 1).transpose(1, 2), /*beta=*/1, scale);
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1, at::kFloat), qkv.select(0, 2))
                               .view({rows, heads, length, d_head})
                               .transpose(1, 2)
                               .reshape({rows * length, d});
  return at::addmm(p[kAttentionOutBias], mixed, p[kAttentionOutWeight]);
}

at::Tensor Norm(const ModelSection& model, const at::Tensor& scale, const at::Tensor& bias,
                const at::Tensor& x) {
  return at::layer_norm(x, {static_cast<int64_t>(model.d_model)}, scale, bias, kNormEpsilon);
}

// The block's second half: x and what its network makes of it.
at::Tensor AddNetwork(const ModelSection& model, std::span<const at::Tensor> p,
                      const at::Tensor& x) {
  const at::Tensor normed = Norm(model, p[kNorm2Scale], p[kNorm2Bias], x);
  const at::Tensor hidden = at::gelu(at::addmm(p[kFcBias], normed, p[kFcWeight]));
  return x + at::addmm(p[kNetworkOutBias], hidden, p[kNetworkOutWeight]);
}

std::span<const at::Tensor> BlockOf(std::span<const at::Tensor> parameters, uint32_t layer) {
  return parameters.subspan(kGptEmbeddingTensors + layer * kGptBlockTensors, kGptBlockTensors);
}

// x: [rows, d], after the last block. Logits, [rows, vocabulary].
at::Tensor Logits(const ModelSection& model, std::span<const at::Tensor> parameters,
                  const at::Tensor& x) {
  const size_t last = parameters.size();
  return at::mm(Norm(model, parameters[last - 2], parameters[last - 1], x), parameters[0].t());
}

}  // namespace

at::Tensor GptLoss(const ModelSection& model, std::span<const at::Tensor> parameters,
                   const Tokens& tokens) {
  const int64_t d = model.d_model, rows = tokens.inputs.size(0), length = tokens.inputs.size(1);
  const at::Tensor& embedding = parameters[0];
  const at::Tensor& positions = parameters[1];
  // 0 where a token may look, −∞ above the diagonal.
  const at::Tensor mask =
      at::full({length, length}, -std::numeric_limits<float>::infinity(), embedding.options())
          .triu(1);
  at::Tensor x = (at::embedding(embedding, tokens.inputs) + positions.narrow(0, 0, length))
                     .view({rows * length, d});
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::span<const at::Tensor> p = BlockOf(parameters, layer);
    const at::Tensor normed = Norm(model, p[kNorm1Scale], p[kNorm1Bias], x);
    x = AddNetwork(model, p, x + Attention(model, p, normed, mask));
  }
  // In fp32 whatever the product was computed in, as is the softmax of the attention.
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
  constexpr double kDeviation = 0.02;
  if (index < kGptEmbeddingTensors) return {.deviation = kDeviation};
  const int blocks_end = kGptEmbeddingTensors + kGptBlockTensors * static_cast<int>(model.layers);
  if (index >= blocks_end) return {.constant = index == blocks_end ? 1.0f : 0.0f};
  switch ((index - kGptEmbeddingTensors) % kGptBlockTensors) {
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

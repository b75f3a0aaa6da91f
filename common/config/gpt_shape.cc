#include "common/config/gpt_shape.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace longwave {

void SetGptSize(std::string_view size, ModelSection* model) {
  if (size != "gpt2-124m" && size != "gpt2-350m") return;
  const bool is_small = size == "gpt2-124m";
  model->d_model = is_small ? 768 : 1024;
  model->layers = is_small ? 12 : 24;
  model->heads = is_small ? 12 : 16;
  model->context = 1024;
  model->vocabulary = 50257;
}

double GptParameterCount(const ModelSection& model) {
  const double d = model.d_model;
  return (static_cast<double>(model.vocabulary) + model.context) * d +
         model.layers * (12 * d * d + 13 * d) + 2 * d;
}

double GptFlopsPerToken(const ModelSection& model) {
  const double d = model.d_model;
  return 6 * (static_cast<double>(model.vocabulary) * d + model.layers * 12 * d * d) +
         12.0 * model.layers * d * model.context;
}

double GptActivationBytes(const ModelSection& model, uint32_t batch, bool checkpoints) {
  const double d = model.d_model;
  // Floats for each token: in each block two norms, qkv twice (as computed and as split by head),
  // attention's output, the network's 4·d twice, projections and residuals; scores before and after
  // the softmax.
  const double block = 22 * d + 2.0 * model.heads * model.context;
  // With checkpoints every block's input, and the activations of the block that is computed again.
  const double blocks = checkpoints ? model.layers * d + block : model.layers * block;
  return 4.0 * batch * model.context * (blocks + 4 * d + 3.0 * model.vocabulary);
}

absl::StatusOr<Manifest> GptManifest(const ModelSection& model) {
  if (model.kind != "gpt") return InvalidArgument("model.kind is ", model.kind, "; wanted gpt");
  for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"d_model", model.d_model},
                                   {"layers", model.layers},
                                   {"heads", model.heads},
                                   {"context", model.context}}) {
    if (value == 0) return InvalidArgument("model.", key, " is 0; wanted at least 1");
  }
  if (model.d_model % model.heads != 0) {
    return InvalidArgument("model.heads is ", model.heads,
                           "; wanted a divisor of model.d_model, which is ", model.d_model);
  }
  const int64_t d = model.d_model;
  Manifest manifest;
  auto add = [&](std::string name, std::vector<int64_t> shape) {
    manifest.tensors.push_back({std::move(name), std::move(shape)});
  };
  add("wte.weight", {model.vocabulary, d});
  add("wpe.weight", {model.context, d});
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::string block = absl::StrCat("h.", layer, ".");
    add(block + "ln_1.weight", {d});
    add(block + "ln_1.bias", {d});
    add(block + "attn.c_attn.weight", {d, 3 * d});  // input × output, as GPT-2 stores it
    add(block + "attn.c_attn.bias", {3 * d});
    add(block + "attn.c_proj.weight", {d, d});
    add(block + "attn.c_proj.bias", {d});
    add(block + "ln_2.weight", {d});
    add(block + "ln_2.bias", {d});
    add(block + "mlp.c_fc.weight", {d, 4 * d});
    add(block + "mlp.c_fc.bias", {4 * d});
    add(block + "mlp.c_proj.weight", {4 * d, d});
    add(block + "mlp.c_proj.bias", {d});
  }
  add("ln_f.weight", {d});
  add("ln_f.bias", {d});
  return manifest;
}

}  // namespace longwave

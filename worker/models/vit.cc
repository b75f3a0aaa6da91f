#include "worker/models/vit.h"

#include "common/config/gpt_shape.h"
#include "common/config/model_shape.h"
#include "worker/models/gpt.h"

namespace longwave {

at::Tensor VitLogits(const ModelSection& model, std::span<const at::Tensor> parameters,
                     const at::Tensor& pixels, bool recompute) {
  const int64_t rows = pixels.size(0), patch = model.patch, side = model.image_size / patch;
  const int64_t length = VitPatches(model), d = model.d_model;
  const at::Tensor patches = pixels.view({rows, model.channels, side, patch, side, patch})
                                 .permute({0, 2, 4, 1, 3, 5})
                                 .reshape({rows * length, model.channels * patch * patch});
  at::Tensor x = at::addmm(parameters[1], patches, parameters[0]);
  x = (x.view({rows, length, d}) + parameters[kVitPositions]).view({rows * length, d});
  std::span<const at::Tensor> left = parameters.subspan(kVitFirstTensors);
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    x = TransformerBlock(model, left.first(kGptBlockTensors), x, length, {.recompute = recompute});
    left = left.subspan(kGptBlockTensors);
  }
  const at::Tensor mean = Norm(model, left[0], left[1], x).view({rows, length, d}).mean(1);
  return at::addmm(left[3], mean, left[2]);
}

}  // namespace longwave

#ifndef LONGWAVE_WORKER_MODELS_VIT_H_
#define LONGWAVE_WORKER_MODELS_VIT_H_

#include <ATen/ATen.h>

#include <span>

#include "common/config/run_config.h"

namespace longwave {

// Private to worker/models, since it exposes LibTorch's types.

// Logits, [rows, classes], of `pixels`, [rows, channels, size, size]. `parameters`: tensors shaped
// and ordered as in ModelManifest. recompute: see BlockMode. Throws LibTorch's exceptions.
at::Tensor VitLogits(const ModelSection& model, std::span<const at::Tensor> parameters,
                     const at::Tensor& pixels, bool recompute);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_VIT_H_

#ifndef LONGWAVE_WORKER_MODELS_RECOMPUTE_H_
#define LONGWAVE_WORKER_MODELS_RECOMPUTE_H_

#include <ATen/ATen.h>

#include <functional>
#include <span>

namespace longwave {

// Private to worker/models, since it exposes LibTorch's types.

// A part of a model: a function of x and the part's parameters, without chance or state.
using ModelPart = std::function<at::Tensor(const at::Tensor& x, std::span<const at::Tensor> p)>;

// part(x, p), of which only x is kept for the backward pass: that calls `part` again, under the
// autocast of the first call, so gradients are those of part(x, p) to the bit. Source: Chen et al.
// 2016 (arXiv 1604.06174).
at::Tensor Recomputed(ModelPart part, const at::Tensor& x, std::span<const at::Tensor> p);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_RECOMPUTE_H_

#include "worker/models/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "worker/models/torch_compat.h"

namespace longwave {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Carries to the backward pass all but tensors.
struct Call final : torch::CustomClassHolder {
  Call(ModelPart part, bool bf16) : part(std::move(part)), bf16(bf16) {}
  const ModelPart part;
  const bool bf16;
};

class RecomputedPart final : public torch::autograd::Function<RecomputedPart> {
 public:
  // LibTorch calls it without a graph, so nothing that `part` computes is kept.
  static at::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call,
                            const at::Tensor& x, at::TensorList p) {
    variable_list kept = {x};
    kept.insert(kept.end(), p.begin(), p.end());
    context->save_for_backward(std::move(kept));
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return call->part(x, {p.data(), p.size()});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    variable_list inputs = context->get_saved_variables();
    inputs[0] = inputs[0].detach().requires_grad_(true);
    at::Tensor y;
    {
      const at::AutoGradMode with_graph(true);
      const Autocast autocast(call->bf16, inputs[0].device().type());
      y = call->part(inputs[0], std::span<const at::Tensor>(inputs).subspan(1));
    }
    variable_list of_inputs = torch::autograd::grad({y}, inputs, gradients);
    of_inputs.insert(of_inputs.begin(), at::Tensor());  // the call's
    return of_inputs;
  }
};

}  // namespace

at::Tensor Recomputed(ModelPart part, const at::Tensor& x, std::span<const at::Tensor> p) {
  const auto call = c10::make_intrusive<Call>(std::move(part), HasAutocast(x.device().type()));
  return RecomputedPart::apply(call, x, at::TensorList(p.data(), p.size()));
}

}  // namespace longwave

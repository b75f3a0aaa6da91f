#include "worker/models/script_model.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/models/model_file.h"
#include "worker/models/torch_compat.h"

namespace longwave {
namespace {

bool SharesMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

bool IsTied(const at::Tensor& a, const at::Tensor& b) {
  return SharesMemory(a, b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

struct ScriptModel::Module {
  struct Kept {
    std::string name;
    at::Tensor tensor;
    uint32_t version;  // LibTorch counts a tensor's changes in place
  };

  torch::jit::Module module;
  std::vector<std::vector<at::Tensor>> parameters;  // for each tensor of the manifest, tied ones
  std::vector<Kept> kept;                           // frozen parameters, then buffers
};

ScriptModel::ScriptModel() : module_(std::make_unique<Module>()) {}
ScriptModel::ScriptModel(ScriptModel&&) noexcept = default;
ScriptModel& ScriptModel::operator=(ScriptModel&&) noexcept = default;
ScriptModel::~ScriptModel() = default;

absl::StatusOr<ScriptModel> ScriptModel::Load(const std::string& path, at::DeviceType device) {
  const auto refuse = [&](absl::string_view got) {
    return InvalidArgument(
        "model.file: ", path, ": got ", got,
        ", wanted a TorchScript module with forward(self, inputs, targets) (docs/running.md)");
  };
  LONGWAVE_RETURN_IF_ERROR(CheckModelFile(path));
  ScriptModel model;
  model.path_ = path;
  try {
    model.module_->module = torch::jit::load(path, at::Device(device));
    const auto forward = model.module_->module.find_method("forward");
    if (!forward) return refuse("a module without forward");
    if (forward->num_inputs() != 3)  // self is the first
      return refuse(absl::StrCat("forward with ", forward->num_inputs() - 1, " arguments"));
    LONGWAVE_RETURN_IF_ERROR(model.TakeParameters());
  } catch (const std::exception& failure) {
    return refuse(absl::StrCat("what LibTorch ", TORCH_VERSION, " refuses (",
                               TorchError("model", failure).message(), ")"));
  }
  return model;
}

absl::Status ScriptModel::TakeParameters() {
  const auto refuse = [&](absl::string_view got, absl::string_view wanted) {
    return InvalidArgument("model.file: ", path_, ": got ", got, ", wanted ", wanted);
  };
  for (const auto& [name, tensor] : module_->module.named_parameters()) {
    if (!tensor.requires_grad()) {
      module_->kept.push_back({name, tensor, static_cast<uint32_t>(tensor._version())});
      continue;
    }
    if (tensor.scalar_type() != at::kFloat || tensor.layout() != at::kStrided) {
      return refuse(absl::StrCat("parameter ", name, " of ", c10::toString(tensor.scalar_type())),
                    "dense parameters of fp32");
    }
    std::vector<at::Tensor>* tied = nullptr;
    for (std::vector<at::Tensor>& others : module_->parameters) {
      if (IsTied(others.front(), tensor)) {
        tied = &others;
      } else if (SharesMemory(others.front(), tensor)) {
        return refuse(absl::StrCat("parameter ", name, ", a part of whose memory is another's"),
                      "parameters that are the same or have memory of their own");
      }
    }
    if (tied == nullptr) {
      tied = &module_->parameters.emplace_back();
      manifest_.tensors.push_back({name, tensor.sizes().vec()});
    }
    tied->push_back(tensor);
  }
  if (manifest_.tensors.empty())
    return refuse("no parameter that requires a gradient", "what is to be trained");
  for (const auto& [name, tensor] : module_->module.named_buffers())
    module_->kept.push_back({name, tensor, static_cast<uint32_t>(tensor._version())});
  return Validate(manifest_);
}

at::Tensor ScriptModel::value(size_t index) const {
  return module_->parameters[index].front().detach();
}

void ScriptModel::Bind(size_t index, const at::Tensor& parameter) {
  for (at::Tensor& own : module_->parameters[index]) {
    own.set_data(parameter.detach());
    own.mutable_grad() = parameter.grad();
  }
}

// A module may also put another tensor in the place of one.
void ScriptModel::CheckKept() const {
  auto kept = module_->kept.begin();
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    if (kept != module_->kept.end() && kept->tensor.is_same(tensor) &&
        tensor._version() == kept->version) {
      ++kept;
      return;
    }
    throw std::runtime_error(absl::StrCat(
        "model.file: ", path_, ": forward changes ", name,
        ", of which each replica would have its own; wanted a model whose buffers and frozen "
        "parameters stay, such as one with GroupNorm in place of BatchNorm"));
  };
  for (const auto& [name, tensor] : module_->module.named_parameters()) {
    if (!tensor.requires_grad()) check(name, tensor);
  }
  for (const auto& [name, tensor] : module_->module.named_buffers()) check(name, tensor);
}

at::Tensor ScriptModel::Loss(const at::Tensor& inputs, const at::Tensor& targets) {
  module_->module.train(at::GradMode::is_enabled());
  const c10::IValue result = module_->module.forward({inputs, targets});
  CheckKept();
  if (!result.isTensor() || result.toTensor().numel() != 1 ||
      !result.toTensor().is_floating_point()) {
    throw std::runtime_error(absl::StrCat(
        "model.file: ", path_, ": forward returns ",
        result.isTensor() ? absl::StrCat("a tensor of ", result.toTensor().numel(), " values of ",
                                         c10::toString(result.toTensor().scalar_type()))
                          : result.tagKind(),
        ", wanted the mean loss, one floating-point value"));
  }
  return result.toTensor().to(at::kFloat).squeeze();
}

}  // namespace longwave

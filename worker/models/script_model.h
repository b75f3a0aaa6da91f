#ifndef LONGWAVE_WORKER_MODELS_SCRIPT_MODEL_H_
#define LONGWAVE_WORKER_MODELS_SCRIPT_MODEL_H_

#include <ATen/ATen.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/manifest.h"

namespace longwave {

// Private to worker/models, since it exposes LibTorch's types.

// A TorchScript module of a file (`model.file`) with a method forward(inputs, targets) that returns
// the mean loss in nats a target. Its trained parameters are those that require a gradient, under
// their names in the module; tied ones count once, by their first name. Frozen parameters and
// buffers stay as in the file.
class ScriptModel {
 public:
  // Errors: NotFound (no such file), InvalidArgument (no TorchScript module, another forward, no
  // trained parameters, one that is not fp32 or shares a part of its memory with another).
  static absl::StatusOr<ScriptModel> Load(const std::string& path, at::DeviceType device);
  ScriptModel(ScriptModel&&) noexcept;
  ScriptModel& operator=(ScriptModel&&) noexcept;
  ~ScriptModel();

  const Manifest& manifest() const { return manifest_; }
  // The file's value of a tensor of the manifest, until Bind.
  at::Tensor value(size_t index) const;
  // From now on the module computes with `parameter`, shaped as in the manifest, and adds the
  // tensor's gradient to parameter's.
  void Bind(size_t index, const at::Tensor& parameter);

  // A scalar. Training mode if gradients are enabled, else evaluation mode. Throws LibTorch's
  // exceptions, and std::runtime_error if the loss is no floating-point scalar, or forward has
  // changed a buffer or a frozen parameter, of which each replica would have its own.
  at::Tensor Loss(const at::Tensor& inputs, const at::Tensor& targets);

 private:
  struct Module;
  ScriptModel();
  absl::Status TakeParameters();
  void CheckKept() const;

  std::string path_;
  std::unique_ptr<Module> module_;
  Manifest manifest_;
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_SCRIPT_MODEL_H_

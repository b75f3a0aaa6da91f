#include "worker/models/device.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <exception>
#include <filesystem>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/models/torch_compat.h"

namespace longwave {
namespace {

constexpr char kTorchCuda[] = "libtorch_cuda.so";

// The folder of the LibTorch in this process.
absl::StatusOr<std::filesystem::path> TorchFolder() {
  Dl_info info = {};
  // LibTorch owns this object. The address of a function may be a stub in our own binary.
  if (dladdr(&at::globalContext(), &info) == 0 || info.dli_fname == nullptr) {
    return Unavailable("the folder of LibTorch can't be told");
  }
  return std::filesystem::path(info.dli_fname).parent_path();
}

// The library registers LibTorch's CUDA parts, and stays loaded. Earlier queries of LibTorch for
// CUDA, even at::hasCUDA(), would find no CUDA parts, and LibTorch keeps that answer for the rest
// of the process.
absl::Status LoadTorchCuda() {
  LONGWAVE_ASSIGN_OR_RETURN(const std::filesystem::path folder, TorchFolder());
  const std::filesystem::path library = folder / kTorchCuda;
  std::error_code error;
  if (!std::filesystem::exists(library, error)) {
    return Unavailable("the LibTorch in ", folder.string(), " has no CUDA (no ", kTorchCuda,
                       " beside it): a build with another is wanted");
  }
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) == nullptr) {
    const char* const reason = dlerror();
    return Unavailable("LibTorch's CUDA part can't be loaded: ",
                       reason != nullptr ? reason : "no reason given");
  }
  return absl::OkStatus();
}

absl::StatusOr<Device> OpenCuda() {
  // Our kernels come first: they need only the driver, and their error names the missing part.
  LONGWAVE_ASSIGN_OR_RETURN(const KernelOps* ops, OpsFor(BackendKind::kCuda));
  LONGWAVE_RETURN_IF_ERROR(LoadTorchCuda());
  try {
    // An operation and its result show before the worker joins whether the device works.
    const at::Tensor one = at::ones({1}, at::TensorOptions(at::kCUDA));
    if (one.item<float>() != 1) return Unavailable("LibTorch computes 1 as not 1 there");
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    return Device{.kind = BackendKind::kCuda,
                  .ops = ops,
                  .stream = NativeHandle(guard.getStream(guard.getDevice()))};
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return Unavailable("LibTorch: ", text.substr(0, text.find('\n')));
  }
}

}  // namespace

absl::StatusOr<Device> OpenDevice(const std::string& asked) {
  Device cpu;
  LONGWAVE_ASSIGN_OR_RETURN(cpu.ops, OpsFor(BackendKind::kCpu));
  if (asked == "cpu") return cpu;
  absl::StatusOr<Device> cuda = OpenCuda();
  if (cuda.ok()) return cuda;
  const std::string why(cuda.status().message());
  if (asked == "auto") {
    cpu.why_not_cuda = why;
    return cpu;
  }
  return Unavailable("train.device is ", asked, ", got no GPU to compute on: ", why,
                     "; wanted a machine and a build with CUDA (docs/how-to/gpus.md), or "
                     "train.device auto or cpu");
}

}  // namespace longwave

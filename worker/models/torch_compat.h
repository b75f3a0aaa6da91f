#ifndef LONGWAVE_WORKER_MODELS_TORCH_COMPAT_H_
#define LONGWAVE_WORKER_MODELS_TORCH_COMPAT_H_

#include <ATen/autocast_mode.h>
#include <c10/core/Stream.h>
#include <torch/csrc/api/include/torch/version.h>

// The few places where the LibTorch of Debian (1.13, without CUDA) and later ones differ. Private
// to worker/models.

namespace longwave {

// Whether operations on the device's tensors that gain by it compute in bf16.
inline void SetAutocast(at::DeviceType device, bool enabled) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::set_autocast_enabled(device, enabled);
#else
  if (device == at::kCUDA) {
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    at::autocast::set_enabled(enabled);
  } else {
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(enabled);
  }
#endif
}

// The cudaStream_t of a stream, without a header or library of CUDA. A LibTorch from before
// native_handle can only name the legacy default stream, which is null; there it is LibTorch's
// current stream unless somebody changed that, and nobody here does.
template <typename Stream>
void* NativeHandle(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    return nullptr;
  }
}

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_TORCH_COMPAT_H_

#ifndef LONGWAVE_WORKER_MODELS_TORCH_COMPAT_H_
#define LONGWAVE_WORKER_MODELS_TORCH_COMPAT_H_

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/Stream.h>
#include <torch/csrc/api/include/torch/version.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "common/base/errors.h"

// Common uses of LibTorch, and the places where Debian's (1.13, without CUDA) and later versions
// differ. Private to worker/models.

namespace longwave {

inline absl::Status TorchError(const char* whose, const std::exception& error) {
  // LibTorch appends a stack trace after the first line.
  const std::string text = error.what();
  return Internal(whose, ": LibTorch: ", text.substr(0, text.find('\n')));
}

// Makes suitable operations on the device's tensors compute in bf16.
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

inline bool HasAutocast(at::DeviceType device) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::is_autocast_enabled(device);
#else
  return device == at::kCUDA ? at::autocast::is_enabled() : at::autocast::is_cpu_enabled();
#endif
}

// During the object's life matrix products and other suitable operations compute in bf16.
// Parameters, gradients and sums over a step stay in fp32.
class Autocast {
 public:
  Autocast(bool enabled, at::DeviceType device) : enabled_(enabled), device_(device) {
    if (enabled_) SetAutocast(device_, true);
  }
  ~Autocast() {
    if (!enabled_) return;
    SetAutocast(device_, false);
    at::autocast::clear_cache();  // the weights' copies in bf16
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool enabled_;
  const at::DeviceType device_;
};

// Causal attention of qkv, [3, rows, heads, length, d_head]: [rows, heads, length, d_head].
// LibTorch 2.0 and later have a fused kernel without scores of length × length in memory.
inline at::Tensor CausalAttention(const at::Tensor& qkv) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2),
                                          /*attn_mask=*/{}, /*dropout_p=*/0,
                                          /*is_causal=*/true);
#else
  const int64_t rows = qkv.size(1), heads = qkv.size(2), length = qkv.size(3), d = qkv.size(4);
  const at::Tensor flat = qkv.contiguous().view({3, rows * heads, length, d});
  // 0 where a place may attend, −∞ above the diagonal.
  const float hidden = -std::numeric_limits<float>::infinity();
  const at::Tensor mask =
      at::full({length, length}, hidden, qkv.options().dtype(at::kFloat)).triu(1);
  const at::Tensor scores = at::baddbmm(mask, flat.select(0, 0), flat.select(0, 1).transpose(1, 2),
                                        /*beta=*/1, 1 / std::sqrt(static_cast<double>(d)));
  return at::bmm(at::softmax(scores, -1, at::kFloat), flat.select(0, 2))
      .view({rows, heads, length, d});
#endif
}

// The cudaStream_t of a stream, without CUDA's headers or libraries. A LibTorch before
// native_handle can name only the legacy default stream, which is null. There the default is
// LibTorch's current stream, since we never change it.
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

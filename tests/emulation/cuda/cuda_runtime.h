#ifndef LONGWAVE_TESTS_EMULATION_CUDA_CUDA_RUNTIME_H_
#define LONGWAVE_TESTS_EMULATION_CUDA_CUDA_RUNTIME_H_

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "tests/emulation/device_language.h"
#include "tests/emulation/runtime.h"

// The emulation's own header of this name: the runtime's C++ half, with the device language, which
// nvcc has built in.

struct cudaLaunchAttribute;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

// Padding has whatever was in its place before: beside a count, half of an old address. A compiler
// that cannot clear it (clang 14) has only plain pointers checked.
#if __has_builtin(__builtin_clear_padding)
inline constexpr bool kChecksStructs = true;
template <typename T>
void CheckKernelArgument(size_t number, T argument) {
  __builtin_clear_padding(&argument);
  longwave::emulation::CheckKernelArgument(number, &argument, sizeof argument);
}
#else
inline constexpr bool kChecksStructs = false;
template <typename T>
void CheckKernelArgument(size_t number, T argument) {
  if constexpr (std::is_pointer_v<T>) {
    longwave::emulation::CheckKernelArgument(number, &argument, sizeof argument);
  }
}
#endif

template <typename... Wanted, typename... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Wanted...),
                               Given&&... given) {
  const longwave::emulation::Inside inside;
  // The arguments are copied now, like on a GPU: the kernel may run long after the caller's are
  // destroyed.
  std::tuple<std::remove_cv_t<Wanted>...> arguments(std::forward<Given>(given)...);
  std::apply(
      [](const auto&... each) {
        size_t number = 0;
        (CheckKernelArgument(number++, each), ...);
      },
      arguments);
  return longwave::emulation::EnqueueKernel(config->gridDim, config->blockDim, config->stream,
                                            [kernel, arguments] { std::apply(kernel, arguments); });
}

template <typename T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}

template <typename T>
cudaError_t cudaMallocHost(T** memory, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(memory), bytes);
}

#endif  // LONGWAVE_TESTS_EMULATION_CUDA_CUDA_RUNTIME_H_

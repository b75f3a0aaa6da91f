#ifndef LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_
#define LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>
#include <utility>

// What the kernels' sources need of the compiler that is not plain C++, so that they are compiled
// by nvcc for a GPU and by the host's compiler for the emulation (tests/emulation).

namespace longwave::cuda {

// Every launch of a kernel. The result is that of the launch, not of the kernel.
template <class... Wanted, class... Given>
cudaError_t Launch(void (*kernel)(Wanted...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   cudaStream_t stream, Given&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_shared_bytes;
  config.stream = stream;
  const cudaError_t launched =
      cudaLaunchKernelEx(&config, kernel, std::forward<Given>(arguments)...);
  // Told here, and no later call shall find it. An older error is another call's to tell: this
  // kernel has been launched all the same.
  if (launched != cudaSuccess) static_cast<void>(cudaGetLastError());
  return launched;
}

}  // namespace longwave::cuda

// LONGWAVE_SHARED(TileShared, shared);   an object that the threads of a block share
// LONGWAVE_SHARED(float[64], sums);
// LONGWAVE_DYNAMIC_SHARED(float, x);     float* x: what the launch asked for beside them
//
// Statements of a kernel, or of a function that it calls. What is there at first is undefined. The
// hardware aligns the dynamic part to 16 bytes.
#ifdef __CUDACC__
#define LONGWAVE_SHARED(Type, name) __shared__ std::type_identity_t<Type> name
#define LONGWAVE_DYNAMIC_SHARED(Type, name)                        \
  extern __shared__ __align__(16) unsigned char lw_shared_bytes[]; \
  Type* const name = reinterpret_cast<Type*>(lw_shared_bytes)
#else
#define LONGWAVE_SHARED(Type, name)                                             \
  static char name##_key;                                                       \
  std::type_identity_t<Type>& name = *static_cast<std::type_identity_t<Type>*>( \
      ::longwave::emulation::SharedObject(&name##_key, sizeof(Type), alignof(Type)))
#define LONGWAVE_DYNAMIC_SHARED(Type, name) \
  Type* const name = static_cast<Type*>(::longwave::emulation::DynamicShared())
#endif

#endif  // LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_

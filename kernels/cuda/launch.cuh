#ifndef LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_
#define LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

// CUDA's extensions to C++ for the kernels' sources, so that nvcc compiles them for a GPU and the
// host's compiler for the emulation (tests/emulation).
//
// What a .cu file alone uses stands in an inline namespace of the file's name: nvcc names what is
// in an unnamed one after the build's folder, and the same sources would give other programs
// elsewhere.

namespace longwave::cuda {

// Launches a kernel. The result is that of the launch, not of the kernel.
template <class... Wanted, class... Given>
cudaError_t Launch(void (*kernel)(Wanted...), dim3 grid, dim3 block, cudaStream_t stream,
                   Given&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  const cudaError_t launched =
      cudaLaunchKernelEx(&config, kernel, std::forward<Given>(arguments)...);
  // Clears the error, which is reported here and must not reach a later call. An older error stays
  // for its own call, since this kernel was launched despite it.
  if (launched != cudaSuccess) static_cast<void>(cudaGetLastError());
  return launched;
}

}  // namespace longwave::cuda

// LONGWAVE_CONSTANT const Job job
//
// A kernel's parameter that no thread copies: its address is one of constants.
#ifdef __CUDACC__
#define LONGWAVE_CONSTANT __grid_constant__
#else
#define LONGWAVE_CONSTANT
#endif

// LONGWAVE_SHARED(TileShared, shared);   an object that the threads of a block share
// LONGWAVE_SHARED(float[64], sums);
//
// A statement of a kernel, or of a function that a kernel calls. The contents are undefined at
// first.
#ifdef __CUDACC__
#define LONGWAVE_SHARED(Type, name) __shared__ std::type_identity_t<Type> name
#else
#define LONGWAVE_SHARED(Type, name)                                             \
  static char name##_key;                                                       \
  std::type_identity_t<Type>& name = *static_cast<std::type_identity_t<Type>*>( \
      ::longwave::emulation::SharedObject(&name##_key, sizeof(Type), alignof(Type)))
#endif

#endif  // LONGWAVE_KERNELS_CUDA_LAUNCH_CUH_
